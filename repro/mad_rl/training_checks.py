"""What must hold of `policy`, `tasks`, `train` and the measures, on a tiny random Llama."""

from functools import lru_cache
from typing import Any

import numpy as np

from repro.mad_rl import policy, study_training, tasks, train

END, PROMPT = 0, (1, 5, 4)
ANSWERS = ((2, END), (3, 4, END), (5, END))
QUESTION = tasks.Question("one", PROMPT, ANSWERS)
PEAKED = (0.8, 0.1, 0.1)
SETTINGS = train.Settings(seed=3, group=24, cap=3, rate=0.2)


@lru_cache(maxsize=1)
def _made() -> tuple[Any, dict]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=6,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        initializer_range=0.1,
    )
    model = policy.with_adapter(LlamaForCausalLM(config).requires_grad_(False), 1, 4, 2)
    return model, policy.snapshot(model)


def _fresh() -> Any:
    model, start = _made()
    policy.restore(model, start)
    return model


def _trained(arm: str, updates: int, target=PEAKED) -> tuple[Any, train.Trained]:
    model = _fresh()
    return model, train.train(model, arm, target, [[QUESTION]] * updates, END, SETTINGS)


def _probabilities(model: Any) -> np.ndarray:
    return study_training.probabilities(model, [QUESTION])[0]


def packed_scores_are_those_of_single_passes() -> None:
    """All answers scored in one pass have the log-probabilities of a pass for each."""
    import torch

    model, answers = _fresh(), [*ANSWERS, (3, 3, 3)]
    with torch.no_grad():
        found = policy.score(model, PROMPT, answers).numpy()
        for value, answer in zip(found, answers, strict=True):
            logp = model(torch.tensor([[*PROMPT, *answer]])).logits[0].log_softmax(-1)
            single = sum(float(logp[len(PROMPT) - 1 + i, t]) for i, t in enumerate(answer))
            assert abs(value - single) < 1e-4, f"{answer}: {value:.5f} packed, {single:.5f} alone"


def samples_follow_the_scores() -> None:
    """Answers are drawn as often as their exact probabilities say, and stop at the end token."""
    import torch

    model = _fresh()
    drawn = policy.sample(model, PROMPT, 1500, 3, END, torch.Generator().manual_seed(0))
    assert all(END not in a[:-1] and len(a) <= 3 for a in drawn), "an answer goes on past its end"
    share = np.array([drawn.count(a) for a in ANSWERS]) / len(drawn)
    p = _probabilities(model)
    assert np.abs(share - p).max() < 0.012, f"drawn {share}, exact {p}"


def only_whole_answers_count() -> None:
    """A right beginning, a missing end or a word more is invalid."""
    answers = [(3, 4, END), (3, 4), (3, END), (3, 4, 4), (2, END)]
    found = [tasks.category(QUESTION, a) for a in answers]
    assert found == [1, -1, -1, -1, 0], f"categories {found}"


def probabilities_leave_room_for_invalid() -> None:
    """Right answers have less than the whole probability, and the rest counts as invalid."""
    p = _probabilities(_fresh())
    assert 0 < p.sum() < 1, f"sum {p.sum()}"
    found = study_training.measured(p[None], PEAKED)
    assert abs(found.invalid[0] - (1 - p.sum())) < 1e-12, f"invalid {found.invalid}"


def invalid_answers_count_in_the_measure() -> None:
    """Half the outputs invalid: conditional divergence 0, unconditional 0.2158, by hand."""
    found = study_training.measured(np.array([[0.25, 0.25]]), (0.5, 0.5))
    assert abs(found.conditional[0]) < 1e-12, f"conditional {found.conditional}"
    assert abs(found.unconditional[0] - 0.21576) < 1e-5, f"unconditional {found.unconditional}"


def a_rewarded_policy_nears_its_target() -> None:
    """16 updates with Jensen-Shannon rewards come nearer to a target that wants one answer most."""
    before = study_training.measured(_probabilities(_fresh())[None], PEAKED).unconditional[0]
    model, _ = _trained("js", 16)
    p = _probabilities(model)
    after = study_training.measured(p[None], PEAKED).unconditional[0]
    assert after < before - 0.08 and p.argmax() == 0, f"{before:.3f} to {after:.3f}, mix {p}"


def supervision_learns_the_target() -> None:
    """Right answers drawn from the target and learnt raise all their probabilities."""
    before = _probabilities(_fresh())
    model, _ = _trained("supervised", 6)
    after = _probabilities(model)
    assert after.sum() > before.sum() and after.argmax() == 0, f"{before} to {after}"


def a_zero_learning_rate_changes_nothing() -> None:
    """The arm with a learning rate of 0 leaves every weight as it was."""
    _, start = _made()
    _, made = _trained("zero_lr", 1)
    assert policy.distance(start, made.adapter) == 0, "the adapter moved"


def arms_start_with_the_same_answers() -> None:
    """Before the first update all rewarded arms have drawn the same answers."""
    first = {arm: _trained(arm, 1)[1].first_rollout for arm in ("js", "l2", "correctness")}
    assert len(set(first.values())) == 1, f"{first}"


CHECKS = {
    check.__name__: check
    for check in (
        packed_scores_are_those_of_single_passes,
        samples_follow_the_scores,
        only_whole_answers_count,
        probabilities_leave_room_for_invalid,
        invalid_answers_count_in_the_measure,
        a_rewarded_policy_nears_its_target,
        supervision_learns_the_target,
        a_zero_learning_rate_changes_nothing,
        arms_start_with_the_same_answers,
    )
}
