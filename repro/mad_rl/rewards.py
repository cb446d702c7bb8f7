"""Rewards of one group of samples: how often each category came up, against a target mix.

MaD-RL (arXiv 2609.31644, Table 1 as one reader reports it [P1]; each formula is derived in the
notebook `rewards`). A sample of category k gets minus the derivative of the divergence at k, with
the group's frequency in place of the probability. The constants are such that all rewards are 0
where the frequencies are the target's:

    L2  t - f     forward KL  t/f - 1     reverse KL  log t - log f     JS  log((t + f)/2f) / 2

Categories are 0 .. K-1. `INVALID` (-1) marks an output that is none of them. It is treated as one
more category, K, which the target wants with probability 0: then the denominator stays the size of
the group, and no rule of its own is needed. What the paper does with such outputs is unknown [U].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro.errors import BadParameter
from repro.mad_rl import divergences

INVALID = -1
INVALID_RULES = ("category", "penalty")
CLIP = 5.0  # rewards are cut to [-CLIP, CLIP]


def counts(categories: Any, kinds: int) -> np.ndarray:
    """How often each of the `kinds` categories, and last the invalid one, occurs: [K + 1].

    categories: [G], integers -1 .. K-1. The counts sum to G, invalid outputs included.
    """
    found = _categories(categories, kinds)
    return np.bincount(np.where(found == INVALID, kinds, found), minlength=kinds + 1)


def frequencies(counts: Any, alpha: float = 0.0) -> np.ndarray:
    """(n + alpha) / (G + K alpha), [..., K], from counts [..., K]; G is the sum of all counts.

    alpha: pseudo-count of every category, so that an empty one is not 0. A plug-in reward needs
    none: a category without samples has no sample to reward. Raises BadParameter for negative or
    fractional counts, and for groups of fewer than two samples: alone, a sample is its own mean.
    """
    n = np.asarray(counts, dtype=np.float64)
    if not np.isfinite(n).all() or (n < 0).any() or (n != np.round(n)).any():
        raise BadParameter(f"counts={n.tolist()} is refused; accepted: integers >= 0.")
    if (n.sum(-1) < 2).any():
        raise BadParameter("counts hold a group of fewer than 2 samples; accepted: 2 or more.")
    return (n + _alpha(alpha)) / (n.sum(-1, keepdims=True) + n.shape[-1] * alpha)


def without_itself(counts: Any, alpha: float = 0.5) -> np.ndarray:
    """The frequency of k among the *other* samples, as a sample of k sees it: [..., K].

    (n_k - 1 + alpha) / (G - 1 + K alpha); entries with n_k = 0 belong to no sample and are taken as
    n_k = 1. With alpha = 0 it can be 0, which only L2 can take.
    """
    n = np.asarray(counts, dtype=np.float64)
    frequencies(n)  # refuses bad counts
    total = n.sum(-1, keepdims=True) - 1 + n.shape[-1] * _alpha(alpha)
    return (np.maximum(n, 1) - 1 + alpha) / total


def by_category(divergence: str, frequency: Any, target: Any) -> np.ndarray:
    """The reward [..., K] of a sample in each category, at these frequencies [..., K].

    A wanted category with frequency 0 has no sample; its entry is the limit, +inf but for L2. A
    forbidden category (target 0) costs: L2 its frequency, forward KL exactly 1, Jensen-Shannon
    ln(2)/2, reverse KL infinitely much; smooth the target there (`divergences.smoothed`).
    """
    f, t = np.asarray(frequency, dtype=np.float64), divergences.distribution(target)
    if divergences.named(divergence) == "l2":
        return t - f
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(t > 0, t / f, 0.0)
        if divergence == "forward_kl":
            return ratio - 1
        if divergence == "reverse_kl":
            return np.log(t) - np.log(f)
        return 0.5 * np.log((ratio + 1) / 2)


def group(
    divergence: str,
    categories: Any,
    target: Any,
    *,
    leave_one_out: bool = False,
    alpha: float | None = None,
    epsilon: float | None = None,
    invalid: str = "category",
    counted: Any = None,
    clip: float = CLIP,
) -> np.ndarray:
    """Rewards [G] of one group with categories [G] against `target` [K].

    leave_one_out: compare with the other samples only; removes the pull towards common categories
        that comes from a sample's counting itself. alpha: pseudo-count; default 0, and with
        leave_one_out 0.5 except for L2.
    epsilon: floor of the target, reverse KL only; default 1/(10 G).
    invalid [U]: "category" (see the module), or "penalty": -1 whatever the divergence.
    counted: categories [N] from which the frequencies are read instead; a whole batch, for a
        target that is meant for the batch as a whole. Default: the group's own.
    clip: rewards are cut to [-clip, clip].
    """
    t = np.append(divergences.distribution(target), 0.0)
    kinds = t.size - 1
    mine = _categories(categories, kinds)
    if mine.size < 2:
        raise BadParameter(f"categories hold {mine.size} sample; accepted: a group of 2 or more.")
    if invalid not in INVALID_RULES:
        raise BadParameter(f"invalid={invalid!r} is refused; accepted: {INVALID_RULES}.")
    if not clip > 0:
        raise BadParameter(f"clip={clip!r} is refused; accepted: above 0.")
    n = counts(mine if counted is None else counted, kinds)
    if leave_one_out:
        alpha = (0.0 if divergence == "l2" else 0.5) if alpha is None else alpha
        if alpha == 0 and divergence != "l2":
            raise BadParameter("alpha=0 is refused with leave_one_out; accepted: above 0, or l2.")
        f = without_itself(n, alpha)
    else:
        f = frequencies(n, alpha or 0.0)
    if divergence == "reverse_kl":
        t = divergences.smoothed(t, 1 / (10 * mine.size) if epsilon is None else epsilon)
    reward = by_category(divergence, f, t)[np.where(mine == INVALID, kinds, mine)]
    if invalid == "penalty":
        reward = np.where(mine == INVALID, -1.0, reward)
    return np.clip(reward, -clip, clip)


def batch(
    divergence: str, groups: Sequence[Any], target: Any, *, pooled: bool = False, **options: Any
) -> np.ndarray:
    """Rewards [B, G] of several prompts' groups; `target` is [K], or [B, K] with one a prompt.

    pooled: read the frequencies from the whole batch. A policy that answers one thing to each
    prompt, another to each, then looks mixed. Otherwise prompts never see one another.
    """
    targets = np.asarray(target, dtype=np.float64)
    targets = np.broadcast_to(targets, (len(groups), targets.shape[-1]))
    everything = np.concatenate([np.asarray(g) for g in groups]) if pooled else None
    return np.stack(
        [
            group(divergence, g, t, counted=everything, **options)
            for g, t in zip(groups, targets, strict=True)
        ]
    )


def correctness(correct: Any) -> np.ndarray:
    """The control: 1 for a right output and 0 for any other; knows nothing of categories."""
    correct = np.asarray(correct)
    if correct.dtype != bool:
        raise BadParameter(f"correct has type {correct.dtype}; accepted: True and False.")
    return correct.astype(np.float64)


def _categories(categories: Any, kinds: int) -> np.ndarray:
    found = np.asarray(categories)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise BadParameter(f"categories={categories!r} is refused; accepted: a list of integers.")
    if found.min() < INVALID or found.max() >= kinds:
        says = f"categories run from {found.min()} to {found.max()}"
        raise BadParameter(f"{says}; accepted: {INVALID} (invalid) to {kinds - 1}.")
    return found


def _alpha(alpha: float) -> float:
    if not 0 <= alpha < np.inf:
        raise BadParameter(f"alpha={alpha!r} is refused; accepted: 0 or more.")
    return alpha
