"""Four divergences between a category mix p and a target t, and their functional derivatives.

MaD-RL (arXiv 2609.31644). "Forward KL" is D(t || p), target first; "reverse KL" is D(p || t). All
values are in nats, so Jensen-Shannon lies in [0, ln 2]. Arrays are [..., K]: the last axis holds
the categories. The derivatives are worked out in the notebook `rewards`; nothing here is taken on
trust from the paper, whose text was not at hand.
"""

from typing import Any

import numpy as np

from repro.errors import BadParameter

NAMES = ("l2", "forward_kl", "reverse_kl", "js")
TITLES = dict(zip(NAMES, ("L2", "forward KL", "reverse KL", "Jensen–Shannon"), strict=True))
_SUM = 1e-6  # how far a distribution's sum may be from 1


def named(divergence: str) -> str:
    """`divergence` if it is one of `NAMES`; raises BadParameter otherwise."""
    if divergence not in NAMES:
        raise BadParameter(f"divergence={divergence!r} is refused; accepted: {', '.join(NAMES)}.")
    return divergence


def distribution(values: Any, name: str = "target") -> np.ndarray:
    """`values` [..., K] as float64; raises BadParameter unless each row is a distribution, K >= 2.

    Entries may be exactly 0: see `divergence` and `smoothed` for what that does.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 1 or values.shape[-1] < 2:
        raise BadParameter(f"{name} has shape {values.shape}; accepted: 2 categories or more.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise BadParameter(f"{name}={values.tolist()} is refused; accepted: finite entries >= 0.")
    if (np.abs(values.sum(-1) - 1) > _SUM).any():
        total = values.sum(-1).tolist()
        raise BadParameter(f"{name} sums to {total}; accepted: entries that sum to 1.")
    return values


def smoothed(target: Any, epsilon: float) -> np.ndarray:
    """`target` [K] with every entry raised to at least `epsilon`, then scaled to sum to 1 again.

    Only reverse KL needs it, and only where an entry is 0: log 0 has no finite value. epsilon lies
    in [0, 1/K). The paper is reported to smooth there [P1]; the amount is unknown [U].
    """
    target = distribution(target)
    if not 0 <= epsilon < 1 / target.shape[-1]:
        raise BadParameter(f"epsilon={epsilon!r} is refused; accepted: [0, 1/K).")
    raised = np.maximum(target, epsilon)
    return raised / raised.sum(-1, keepdims=True)


def divergence(name: str, p: Any, target: Any) -> np.ndarray:
    """D(p, target) [...], >= 0, and 0 exactly where p equals the target.

    Zero probabilities, by 0 log 0 = 0: forward KL is infinite where p misses a category that the
    target wants; reverse KL where p has one that the target forbids; L2 and Jensen-Shannon are
    finite always.
    """
    p, t = distribution(p, "p"), distribution(target)
    if named(name) == "l2":
        return 0.5 * ((p - t) ** 2).sum(-1)
    if name == "forward_kl":
        return _kl(t, p)
    if name == "reverse_kl":
        return _kl(p, t)
    middle = (p + t) / 2
    return 0.5 * _kl(t, middle) + 0.5 * _kl(p, middle)


def derivative(name: str, p: Any, target: Any) -> np.ndarray:
    """The functional derivative dD/dp_k [..., K], the entries of p taken as free variables.

    L2: p - t. Forward KL: -t/p. Reverse KL: log p - log t + 1. Jensen-Shannon: log(p/m)/2 with
    m = (p + t)/2. Where p_k or t_k is 0 the value may be infinite, as the limit is.
    """
    p, t = distribution(p, "p"), distribution(target)
    if named(name) == "l2":
        return p - t
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == "forward_kl":
            return np.where(t > 0, -t / p, 0.0)
        if name == "reverse_kl":
            return np.log(p) - np.log(t) + 1
        return np.where(t + p > 0, 0.5 * np.log(2 * p / (p + t)), 0.5 * np.log(2))


def entropy(p: Any) -> np.ndarray:
    """Entropy [...] in nats."""
    p = distribution(p, "p")
    return -(p * _log(p)).sum(-1)


def sampling_floor(categories: int, samples: int) -> float:
    """Expected Jensen-Shannon divergence, nats, of `samples` draws from the target itself.

    (K - 1) / (8 N), to first order in 1/N: what a perfect match still measures. A difference below
    it says nothing.
    """
    for name, value, least in (("categories", categories, 2), ("samples", samples, 1)):
        if value < least:
            raise BadParameter(f"{name}={value!r} is refused; accepted: {least} or more.")
    return (categories - 1) / (8 * samples)


def _kl(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(a > 0, a * (np.log(a) - np.log(b)), 0.0)
    return np.maximum(terms.sum(-1), 0.0)  # rounding may leave -1e-17


def _log(p: np.ndarray) -> np.ndarray:
    """log p, and 0 where p is 0: only for use in p log p."""
    return np.log(np.where(p > 0, p, 1.0))
