"""What must hold of choices by likelihood, on a tiny random model that reads bytes."""

from functools import cache

import numpy as np
import torch

from repro.code_skills import lm

HEAD = "You play."
NAMES = ("open", "open_door", "north", "go")


class Bytes:
    """A tokenizer: one token a byte."""

    def __call__(self, words: str, add_special_tokens: bool = False) -> dict:
        return {"input_ids": list(words.encode())}


@cache
def tiny():
    """A Llama of two layers and 48 dimensions with fixed random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def _chooser(**options) -> lm.Chooser:
    return lm.Chooser(tiny(), Bytes(), **options)


def side_by_side_is_alone() -> None:
    """Answers scored in one pass have the likelihood that each has alone."""
    logp, lengths = _chooser().logp(HEAD, "a door", NAMES)
    for name, found, size in zip(NAMES, logp, lengths, strict=True):
        before = f"<|im_start|>system\n{HEAD}<|im_end|>\n<|im_start|>user\na door<|im_end|>\n"
        before = list(f"{before}<|im_start|>assistant\n".encode())
        answer = list(f"{name}<|im_end|>".encode())
        with torch.inference_mode():
            logits = tiny()(torch.tensor([before + answer])).logits[0].log_softmax(-1)
        alone = sum(float(logits[len(before) + i - 1, t]) for i, t in enumerate(answer))
        assert abs(alone - found) < 1e-3, f"{name}: {found:.4f}, alone {alone:.4f}"
        assert size == len(answer), f"{name}: {size} tokens with its end, not {len(answer)}"


def a_pass_leaves_no_trace() -> None:
    """Scoring twice, with another text between, gives the same."""
    made = _chooser()
    first, _ = made.logp(HEAD, "a door", NAMES)
    made.logp(HEAD, "a corridor, far away", NAMES[:2])
    again, _ = made.logp(HEAD, "a door", NAMES)
    assert np.allclose(first, again, atol=1e-4), "the second pass differs"


def layout_by_hand() -> None:
    """Two answers after two tokens of text and one of head: positions and who sees whom."""
    where, sees = lm.layout(1, 2, [2, 1])
    assert where.tolist() == [[1, 2, 3, 4, 3]], f"positions {where.tolist()}"
    expected = [
        [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 1],
    ]  # fmt: skip
    assert sees[0, 0].int().tolist() == expected, f"mask {sees[0, 0].int().tolist()}"


def nothing_seen_scores_nothing() -> None:
    """Calibrated: where nothing is seen every entry scores 0, whatever its name."""
    made, usage = _chooser(), lm.Usage()
    logp, lengths = made.logp(HEAD, lm.NOTHING, NAMES)
    without = made._without(HEAD, "", NAMES, usage)
    found = lm.score(logp, lengths, without, "calibrated")
    assert np.abs(found).max() < 1e-3 < np.ptp(logp), f"scores {found}"


def rules_by_hand() -> None:
    """Sum, mean per token, and calibrated score of two entries."""
    logp, lengths, without = np.array([-6.0, -4.0]), np.array([3, 1]), np.array([-5.0, -1.0])
    for rule, expected in (("sum", [-6, -4]), ("mean", [-2, -4]), ("calibrated", [-1, -3])):
        found = lm.score(logp, lengths, without, rule).tolist()
        assert found == expected, f"{rule}: {found}"


def luck_belongs_to_the_name() -> None:
    """An entry has the same noise in two menus; another turn or seed has other noise."""
    long, short = lm.noise(3, 0, ("a", "b", "c")), lm.noise(3, 0, ("c", "a"))
    assert long[2] == short[0] and long[0] == short[1], "noise moves with the menu"
    assert not np.isin(lm.noise(3, 1, ("a", "b", "c")), long).any(), "every turn alike"
    assert not np.isin(lm.noise(4, 0, ("a", "b", "c")), long).any(), "every seed alike"


def choice_by_hand() -> None:
    """Scores (-1, -2), noise (0, 0.6): temperature 2 takes the second, 0 the first."""
    scores, lot = np.array([-1.0, -2.0]), np.array([0.0, 0.6])
    found = [lm.choose(scores, lot, t) for t in (2.0, 1.0, 0.0)]
    assert found == [1, 0, 0], f"chose {found}"


def choices_follow_the_scores() -> None:
    """Draws of many seeds have the shares of the softmax, within four standard errors."""
    scores, names = np.array([0.0, 1.0, 2.0]), ("a", "b", "c")
    drawn = [lm.choose(scores, lm.noise(s, 0, names), 1.0) for s in range(1500)]
    p = np.exp(scores) / np.exp(scores).sum()
    error = np.bincount(drawn, minlength=3) / 1500 - p
    assert (np.abs(error) < 4 * np.sqrt(p * (1 - p) / 1500)).all(), f"off by {error}"


def entropy_of_equals() -> None:
    """Equal scores have the entropy ln M; one that dominates has none."""
    assert abs(lm.entropy(np.zeros(6), 1.0) - np.log(6)) < 1e-12, "ln M"
    assert lm.entropy(np.array([0.0, 900.0]), 1.0) < 1e-9, "one choice"


CHECKS = {
    check.__name__: check
    for check in (
        side_by_side_is_alone,
        a_pass_leaves_no_trace,
        layout_by_hand,
        nothing_seen_scores_nothing,
        rules_by_hand,
        luck_belongs_to_the_name,
        choice_by_hand,
        choices_follow_the_scores,
        entropy_of_equals,
    )
}
