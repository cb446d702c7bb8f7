"""The update that all arms share, on a tiny random model: seconds, no effect is claimed."""

import copy
import dataclasses

import pytest
import torch

from repro.errors import BadParameter, ReproError
from repro.recursive_opsd import (
    arms,
    checkpoint,
    gates,
    prompts,
    refresh,
    rollout,
    scoring,
    srcl,
    toy,
    train,
)
from repro.recursive_opsd.problems import Problem

TOKENS = toy.Tokenizer()
WORDING = prompts.Wording("toy", "Go.", "See: ", "\nMy way: ", "Own way.", "Shorter.")
PROBLEMS = [Problem(f"p{a}", f"{a}+7?", f"{a} + 7 = {a + 7}", str(a + 7)) for a in range(1, 7)]
SETTINGS = arms.Settings(rate=1e-2, batch=2, micro=2, most=5, cap=1.0, every=2, least=1, seed=3)


def training(arm="dce", lora=False, settings=SETTINGS, seed=0):
    model = toy.model(seed)
    if lora:
        model = checkpoint.with_lora(model.requires_grad_(False), rank=2, alpha=4, seed=1)
    chosen = arms.arm(arm) if isinstance(arm, str) else arm
    return train.Training(model, TOKENS, chosen, settings, PROBLEMS, WORDING)


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.parameters.values()])


def numbers(log):
    return {k: v for k, v in log.items() if isinstance(v, float)}


@pytest.fixture
def accept_all(monkeypatch):
    """Let every rewrite pass, as no random model would earn it."""
    monkeypatch.setattr(gates, "book", lambda *_: gates.ACCEPTED)


@pytest.mark.parametrize("name", arms.ARMS)
def test_every_arm_takes_two_steps_through_one_update(name):
    run = training(name)
    before = weights(run)
    logs = [run.update(), run.update()]
    assert run.step == 2 and [log["step"] for log in logs] == [0, 1]
    moved = (weights(run) - before).abs().max().item()
    assert moved == 0 if name in ("zero_rate", "srcl") else moved > 1e-3  # nothing was accepted
    assert all(torch.isfinite(torch.tensor(list(numbers(log).values()))).all() for log in logs)


def test_all_arms_start_with_the_same_answers_and_order():
    first = {name: training(name).update()["answers"] for name in arms.ARMS}
    assert len({str(answers) for answers in first.values()}) == 1
    order = {tuple(p.name for p in training(name).problems) for name in arms.ARMS}
    assert len(order) == 1


@pytest.mark.parametrize("name", ["dce", "ema", "periodic", "frozen", "dce_srcl", "sft"])
@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_resumed_equals_uninterrupted(name, lora, tmp_path, accept_all):
    whole = training(name, lora)
    expected = [whole.update() for _ in range(4)]
    half = training(name, lora)
    found = [half.update(), half.update()]
    checkpoint.save(tmp_path / "half.pt", half.state())
    half.update()  # what happens after the save must not reach the file
    again = training(name, lora)
    torch.manual_seed(99)  # the random state is not part of it
    again.load(checkpoint.load(tmp_path / "half.pt"))
    found += [again.update(), again.update()]
    for one, other in zip(found, expected, strict=True):
        assert one["answers"] == other["answers"]
        assert numbers(one) == pytest.approx(numbers(other), abs=1e-6)
    assert torch.allclose(weights(again), weights(whole), atol=1e-7)


def test_checkpoints_are_whole_or_refused(tmp_path):
    run = training("ema")
    run.update()
    path = tmp_path / "run.pt"
    checkpoint.save(path, run.state())
    assert [p.name for p in tmp_path.iterdir()] == ["run.pt"]
    state = checkpoint.load(path)
    for other, part in (
        (training("dce"), "arm"),
        (training("ema", settings=dataclasses.replace(SETTINGS, rate=1e-3)), "settings"),
    ):
        with pytest.raises(BadParameter, match=f"checkpoint with another {part} is refused"):
            other.load(state)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ReproError, match="run.pt cannot be read: it is damaged"):
        checkpoint.load(path)
    with pytest.raises(ReproError, match="none.pt does not exist"):
        checkpoint.load(tmp_path / "none.pt")


def test_bug_3_in_the_update():
    """Micro-batches of 1, 2 and 4 give the same step."""
    found = []
    for micro in (1, 2, 4):
        run = training("dce", settings=dataclasses.replace(SETTINGS, batch=4, micro=micro))
        log = run.update()
        found.append((numbers(log), weights(run)))
    for log, moved in found[1:]:
        assert log == pytest.approx(found[0][0], abs=1e-5)
        assert torch.allclose(moved, found[0][1], atol=1e-4)  # Adam's first step: sign of gradients


def test_no_accepted_rewrite_leaves_the_step_of_dce():
    plain, joint = training("dce"), training("dce_srcl")
    one, other = plain.update(), joint.update()
    assert other["accepted"] == 0 and other["concise_weight"] == 0 and joint.concise_weight is None
    assert sum(other["reasons"].values()) == SETTINGS.batch
    assert torch.equal(weights(plain), weights(joint))
    assert one["guidance_loss"] == other["guidance_loss"]


def test_no_rewrite_is_written_without_srcl(monkeypatch):
    def never(*_):
        raise AssertionError("a rewrite was asked for")

    monkeypatch.setattr(prompts, "rewrite", never)
    for name in set(arms.ARMS) - {"dce_srcl", "srcl"}:
        training(name).update()


def test_weight_is_measured_once_and_both_norms_are_logged(accept_all):
    run = training("dce_srcl")
    first, second = run.update(), run.update()
    pushed = first["concise_weight"] * first["concise_norm"]
    assert pushed / (pushed + first["guidance_norm"]) == pytest.approx(0.1)
    assert second["concise_weight"] == first["concise_weight"]
    assert second["concise_norm"] > 0 < second["guidance_norm"]
    assert first["accepted_tokens"] > 0
    alone = training("srcl").update()
    assert alone["concise_weight"] == 1 and "guidance_norm" not in alone


def test_gradient_of_the_update_is_the_sum_of_hand_made_parts(accept_all):
    """DCE + SRCL against both losses written out over single examples, without the update."""
    run = training("dce_srcl")
    batch = run._batch()
    asked = [prompts.student(TOKENS, p, WORDING).ids for p in batch]
    model = copy.deepcopy(run.model)
    log = run.update()
    own = [prompts.teacher(TOKENS, p, "assistant", WORDING).ids for p in batch]

    def rows(prefix, ids):
        logits = model(torch.tensor([[*prefix, *ids]])).logits[0]
        return logits[len(prefix) - 1 : len(prefix) - 1 + len(ids)].log_softmax(-1)

    guided = 0
    for student, teacher, ids in zip(asked, own, log["answers"], strict=True):
        p, q = rows(student, ids), rows(teacher, ids).detach()
        guided = guided + (q.exp() * (q - p)).sum(-1).mean() / len(batch)
    assert guided.item() == pytest.approx(log["guidance_loss"], abs=1e-5)
    requests = [
        prompts.rewrite(TOKENS, p, ids, WORDING).ids
        for p, ids in zip(batch, log["answers"], strict=True)
    ]
    rewrites = [a.ids for a in rollout.write(model, TOKENS, requests, SETTINGS.most)]
    each = [-rows(s, c)[range(len(c)), list(c)].sum() for s, c in zip(asked, rewrites, strict=True)]
    concise = sum(each) / sum(map(len, rewrites))
    assert concise.item() == pytest.approx(log["concise_loss"], abs=1e-5)
    (guided + log["concise_weight"] * concise).backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    assert norm == pytest.approx(log["gradient_norm"], rel=1e-4)


def test_live_teacher_moves_and_frozen_one_does_not():
    for name, moves in (("dce", True), ("frozen", False)):
        run = training(name, lora=True)
        probe = ([prompts.student(TOKENS, PROBLEMS[0], WORDING).ids], [(20, 21)])
        with run.teacher.weights() as teacher:
            before = scoring.answer_logits(teacher, *probe, toy.END)[0]
        run.update()
        with run.teacher.weights() as teacher:
            after = scoring.answer_logits(teacher, *probe, toy.END)[0]
        with torch.no_grad():
            student = scoring.answer_logits(run.model, *probe, toy.END)[0]
        assert torch.equal(before, after) is not moves
        assert torch.equal(student, after) is moves


def test_adapters_start_as_the_bare_model_and_alike():
    bare = toy.model().requires_grad_(False)
    probe = ([(1, 9, 8)], [(20, 21)])
    with torch.no_grad():
        expected = scoring.answer_logits(bare, *probe, toy.END)[0]
        run, other = training(lora=True), training(lora=True)
        assert torch.equal(scoring.answer_logits(run.model, *probe, toy.END)[0], expected)
    assert torch.equal(weights(run), weights(other))
    assert all("lora_" in name for name in run.parameters)
    assert refresh.Teacher(run.model, "frozen").state()["held"].keys() == run.parameters.keys()


def test_placebo_is_the_same_code_with_another_solution():
    own, placebo = training("dce"), training("placebo")
    assert [p.question for p in placebo.problems] == [p.question for p in own.problems]
    pairs = zip(placebo.problems, own.problems, strict=True)
    assert all(a.solution != b.solution and a.answer == b.answer for a, b in pairs)
    assert own.update()["guidance_loss"] != placebo.update()["guidance_loss"]


def test_overflow_and_a_batch_of_nothing(monkeypatch):
    run = training("dce")
    monkeypatch.setattr(run.model.config, "max_position_embeddings", 40)
    before = weights(run)
    log = run.update()
    assert log["dropped"] == SETTINGS.batch and log["guidance_loss"] == 0
    assert torch.equal(weights(run), before)


def test_end_token_of_an_answer_is_trained():
    """SFT on the gold lowers the loss of the end token behind the solution."""
    run = training("sft", settings=dataclasses.replace(SETTINGS, batch=6, micro=3))
    ids = (*TOKENS(PROBLEMS[0].solution)["input_ids"], toy.END)
    prefix = prompts.student(TOKENS, PROBLEMS[0], WORDING).ids

    def end_loss():
        with torch.no_grad():
            (logits,) = scoring.answer_logits(run.model, [prefix], [ids], toy.END)
        return srcl.token_losses(logits, ids)[-1].item()

    before = end_loss()
    for _ in range(5):
        run.update()
    assert end_loss() < before


def test_draws_hang_on_the_seed_alone():
    model, rows = toy.model(), [(1, 9, 8), (5,)]
    state = torch.get_rng_state()
    one = rollout.write(model, TOKENS, rows, 6, 1.0, seed=4)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(12)
    assert rollout.write(model, TOKENS, rows, 6, 1.0, seed=4) == one
    assert rollout.write(model, TOKENS, rows, 6, 1.0, seed=5) != one
    assert rollout.leaked(["as given above, 4", "It is 4", "The reference solution"]) == 2 / 3


BAD = [
    (lambda: arms.arm("best"), "arm='best' is refused; accepted: dce, dce_srcl"),
    (lambda: arms.Settings(batch=0), "batch=0 is refused"),
    (lambda: arms.Settings(rate=0), "rate=0 is refused"),
    (lambda: rollout.write(None, TOKENS, [(1,)], 0), "most=0 is refused"),
    (lambda: checkpoint.with_lora(toy.model(), rank=0), "rank=0 is refused"),
    (
        lambda: train.Training(toy.model(), TOKENS, arms.Arm(), SETTINGS, PROBLEMS[:1]),
        "1 problems are refused; accepted: 2 or more",
    ),
]


@pytest.mark.parametrize(("call", "says"), BAD)
def test_bad_input_names_what_is_accepted(call, says):
    with pytest.raises(BadParameter, match=says):
        call()
