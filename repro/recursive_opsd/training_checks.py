"""What must hold of the loop, its measures and its task, on a tiny random model.

Nothing here shows an effect: the model has never been trained. Times are milliseconds to a second.
"""

import dataclasses
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from repro.recursive_opsd import (
    arms,
    checkpoint,
    evaluate,
    gates,
    loop,
    prompts,
    rollout,
    study_training,
    sums,
    toy,
    train,
)
from repro.recursive_opsd.problems import Problem

TOKENS = toy.Tokenizer()
WORDING = prompts.Wording("toy", "Go.", "See: ", "\nMy way: ", "Own way.", "Shorter.")
PROBLEMS = [Problem(f"p{a}", f"{a}+7?", f"{a} + 7 = {a + 7}", str(a + 7)) for a in range(1, 5)]
SETTINGS = arms.Settings(rate=1e-2, batch=2, micro=2, most=4, cap=1.0, least=1, seed=3)
TASK = sums.Task(
    "toy", dict.fromkeys(sums.SPLITS, PROBLEMS), WORDING, sums.last_number
)  # one split for all: nothing is measured on it


@lru_cache(maxsize=1)
def _base() -> tuple[Any, dict]:
    model = toy.model(size=16).requires_grad_(False)
    lora = checkpoint.with_lora(model, rank=2, alpha=4, seed=1)
    return lora, checkpoint.snapshot(lora)


def training(name: str = "dce", settings: arms.Settings = SETTINGS) -> train.Training:
    """A run of arm `name` from the toy model's start."""
    model, start = _base()
    checkpoint.restore(model, start)
    return train.Training(model, TOKENS, arms.arm(name), settings, PROBLEMS, WORDING)


def _look(now: Any) -> dict[str, Any]:
    return {"scores": {"a": 0.0}}


def _held(run: train.Training, updates: int) -> list[dict[str, float]]:
    """The held-out measures before and after `updates`."""
    fixed = evaluate.probe(run.model, TOKENS, PROBLEMS, WORDING, 4)
    before = evaluate.held_out(run.model, fixed)
    loop.train(run, updates, _look)
    return [before, evaluate.held_out(run.model, fixed)]


def no_pair_is_in_two_splits() -> None:
    """3 + 5 and 5 + 3 are one pair, in one split, and every gold is the sum."""
    terms = range(2, 21)
    odd = [(a, b) for a in terms for b in terms if sums.split_of(a, b) != sums.split_of(b, a)]
    assert not odd, f"{len(odd)} pairs change their split with their order, such as {odd[0]}"
    pools = sums.task("sums", (20, 10, 10), 20).splits
    pairs = [frozenset(p.name.split("+")) for pool in pools.values() for p in pool]
    assert len(set(pairs)) == 40, f"{len(set(pairs))} pairs among 40 problems"
    wrong = [p.name for pool in pools.values() for p in pool if eval_sum(p.name) != p.answer]
    assert not wrong, f"wrong gold: {wrong}"


def eval_sum(name: str) -> str:
    """The sum of a name such as ``3+5``, by hand."""
    return str(sum(int(term) for term in name.split("+")))


def a_cut_answer_scores_nothing() -> None:
    """The same right number, once with an end and once cut off at the cap: 1 and 0."""
    found = [evaluate.score("3 + 4 = 7", ended, "7") for ended in (True, False)]
    assert found == [1.0, 0.0], f"scores {found}"
    assert evaluate.score("3 + 4 = 7", True, "7", lenient=False) == 0, "strict needs a place"


def held_out_kl_by_hand() -> None:
    """Teacher first, mean within an answer, then over answers; against single passes."""
    model, start = _base()
    checkpoint.restore(model, start)
    fixed = evaluate.probe(model, TOKENS, PROBLEMS[:2], WORDING, 4)
    wanted = []
    for at, ids in enumerate(fixed.ids):
        rich = prompts.teacher(TOKENS, PROBLEMS[at], "assistant", WORDING).ids
        with torch.no_grad():
            p, q = (
                model(torch.tensor([[*x, *ids]])).logits[0, len(x) - 1 : -1].log_softmax(-1)
                for x in (fixed.asked[at], rich)
            )
        wanted.append(float((q.exp() * (q - p)).sum(-1).mean()))
    found = evaluate.held_out(model, fixed)["own"]
    assert abs(found - sum(wanted) / 2) < 1e-5, f"{found:.6f}, by hand {sum(wanted) / 2:.6f}"


def distillation_nears_the_starts_teacher() -> None:
    """A few updates of DCE lower the held-out KL to the start's own teacher; a zero rate none."""
    before, after = _held(training("dce", dataclasses.replace(SETTINGS, batch=4)), 6)
    assert after["own"] < 0.9 * before["own"], f"{before['own']:.4f} to {after['own']:.4f}"


def a_zero_rate_changes_nothing() -> None:
    """With a learning rate of 0 neither weights nor held-out KL change."""
    run = training("zero_rate")
    start = checkpoint.snapshot(run.model)
    before, after = _held(run, 2)
    moved = checkpoint.moved(start, checkpoint.snapshot(run.model))
    assert moved == 0 and before == after, f"moved {moved}, {before} to {after}"


def arms_start_with_the_same_answers() -> None:
    """Before the first update every arm has sampled the same tokens."""
    first = {n: loop.train(training(n), 1, _look).first_rollout for n in ("dce", "opsd", "sft")}
    assert len(set(first.values())) == 1, f"{first}"


def the_placebo_sees_another_solution() -> None:
    """Same questions in the same order, every solution another problem's."""
    own, other = training("dce").problems, training("placebo").problems
    assert [p.question for p in own] == [p.question for p in other], "other questions"
    same = [p.name for p, q in zip(own, other, strict=True) if p.solution == q.solution]
    assert not same, f"{same} keep their solution"


def a_killed_run_goes_on_where_it_was() -> None:
    """Stopped after two updates of four and started anew: the same losses to 1e-6, and weights."""
    whole = loop.train(training("ema"), 4, _look, 2)

    def killed(step: int, log: dict) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pt"
        try:
            loop.train(training("ema"), 4, _look, 2, path, killed)
        except KeyboardInterrupt:
            pass
        assert [p.name for p in path.parent.iterdir()] == ["run.pt"], "no whole checkpoint"
        made = loop.train(training("ema"), 4, _look, 2, path)
    pairs = zip(made.history, whole.history, strict=True)
    gap = max(abs(one["guidance_loss"] - other["guidance_loss"]) for one, other in pairs)
    assert gap < 1e-6, f"losses differ by {gap:.2g}"
    far = checkpoint.moved(made.weights, whole.weights)
    assert far < 1e-6, f"weights differ by {far:.2g}"


def validation_chooses_and_ties_keep_the_earlier() -> None:
    """Means 0.5, 1, 1: the second look."""
    looks = [{"scores": {"a": x, "b": y}} for x, y in ((1, 0), (1, 1), (1, 1))]
    assert loop.best(looks) == 1, f"look {loop.best(looks)}"
    assert loop.schedule(12, 3) == [4, 8, 12], f"{loop.schedule(12, 3)}"


def identical_arms_are_uninformative() -> None:
    """No difference on any item says nothing; nor do four items; twelve gains of twelve do."""
    same = {str(i): float(i % 2) for i in range(12)}
    four = study_training.verdict(dict.fromkeys("abcd", 0.0), dict.fromkeys("abcd", 1.0))
    gain = study_training.verdict(dict.fromkeys(same, 0.0), dict.fromkeys(same, 1.0))
    found = study_training.verdict(same, dict(same))[0], four[0], gain[0]
    assert found == ("uninformative", "uninformative", "better"), f"{found}"


def adams_step_says_nothing_of_the_loss() -> None:
    """Two updates at 5e-6 move all arms, placebo included, by 2 x rate x sqrt(n), within 30 %."""
    settings = dataclasses.replace(SETTINGS, rate=5e-6)
    far = {}
    for name in ("dce", "frozen", "placebo"):
        run = training(name, settings)
        run.parameters = {n: p for n, p in run.parameters.items() if "lora_B" in n}
        start = checkpoint.snapshot(run.model)
        count = sum(p.numel() for p in run.parameters.values())
        loop.train(run, 2, _look)
        end = checkpoint.snapshot(run.model)
        far[name] = checkpoint.moved(start, end) / (2 * 5e-6 * count**0.5)
    assert all(0.7 < x < 1.05 for x in far.values()), f"shares of Adam's step {far}"


def a_short_right_rewrite_may_teach() -> None:
    """A bare right sum passes the gates of this task; a wrong one and an equal length do not."""
    limits = gates.Limits(least=1)
    places = sums.last_number("42")
    outcomes = [
        gates.book(gates.Candidate((20, 18, 2), True, text), source, places, limits)
        for text, source in (("42", 9), ("41", 9), ("42", 3))
    ]
    assert outcomes == [gates.ACCEPTED, "wrong answer", "not shorter"], f"{outcomes}"


def leaks_are_counted() -> None:
    """Talk of a solution that the student cannot see: one of three texts."""
    texts = ["12 + 3 = 15", "As in the given solution, 15", "The solution is 15"]
    assert abs(rollout.leaked(texts) - 1 / 3) < 1e-12, f"{rollout.leaked(texts)}"


CHECKS = {
    check.__name__: check
    for check in (
        no_pair_is_in_two_splits,
        a_cut_answer_scores_nothing,
        held_out_kl_by_hand,
        distillation_nears_the_starts_teacher,
        a_zero_rate_changes_nothing,
        arms_start_with_the_same_answers,
        the_placebo_sees_another_solution,
        a_killed_run_goes_on_where_it_was,
        validation_chooses_and_ties_keep_the_earlier,
        identical_arms_are_uninformative,
        adams_step_says_nothing_of_the_loss,
        a_short_right_rewrite_may_teach,
        leaks_are_counted,
    )
}
