"""Algorithm 2 of ActKV (arXiv 2609.31395): a falling token confidence raises the cache budget.

Step by step: token level `token_signal`, oriented by `to_confidence`; trace level `trend`
(sliding minimum, lowest tenth, straight line); rule `next_budget`. The sign is the point. For
k = 20 the paper's T = -(1/k) sum ln P over the k most likely tokens is already a confidence;
for k = 1 it is a surprisal. `decomposition` and `sharpening_slope` say why.

Logits are raw: before temperature and before top-p or top-k filtering, since a filtered token
has probability 0 and T becomes infinite. All logarithms are natural, all signals in nats.
Arrays may be NumPy or torch; results are NumPy float64. Marks such as [P2] and [U] are the
notes': [P2] two readers of the paper agree, [U] no source says, so the choice is an argument.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.actkv import rows
from repro.actkv.accept import count, one_of, share

KINDS = ("topk_mean_neglogp", "sampled_surprisal", "entropy", "max_logp")


@dataclass(frozen=True)
class Decomposition:
    """T = ln k + KL(U_k || q) - ln M, each part in nats with the leading shape of the logits."""

    ln_k: float
    kl: np.ndarray  # grows as the top k become more peaked: confidence
    minus_ln_m: np.ndarray  # grows with the mass outside the top k: uncertainty

    @property
    def total(self) -> np.ndarray:
        return self.ln_k + self.kl + self.minus_ln_m


@dataclass(frozen=True)
class Trend:
    """The trace-level view: window minima, the lowest of them, and the line through those."""

    pooled: np.ndarray  # R_m [windows]
    kept: np.ndarray  # the m of the lowest windows, rising
    slope: float | None  # per window (or per rank); None with fewer than two kept windows


@dataclass(frozen=True)
class BudgetDecision:
    """What `next_budget` decided, and on which evidence."""

    budget: int
    raised: bool
    slope: float | None
    kept: np.ndarray
    pooled: np.ndarray
    reason: str


def token_signal(
    logits: Any, kind: str = "topk_mean_neglogp", top_k: int = 20, tokens: Any = None
) -> np.ndarray:
    """One number in nats per row of `logits` [..., V]; see `to_confidence` for its direction.

    kind: ``topk_mean_neglogp`` is T = -(1/k) sum_{j in top k} ln P(j) [P2];
    ``sampled_surprisal`` is -ln P(tokens), with `tokens` [...] the ids that were sampled;
    ``entropy`` is H(P); ``max_logp`` is ln max P. `top_k` is read by the first kind only.

    Raises ValueError for an unknown kind, NaN logits, `top_k` outside 1..V, `tokens` missing or
    outside 0..V-1, and for an infinite result (filtered logits).
    """
    one_of("kind", kind, KINDS)
    k = rows.accepted_k(top_k, logits) if kind == "topk_mean_neglogp" else 1
    columns = [rows.token_column(tokens, logits)] if kind == "sampled_surprisal" else []

    def value(z, ln_z, ids=None):  # ln P = z - ln_z, and the largest z is 0
        if kind == "topk_mean_neglogp":
            return ln_z - rows.top(z, k).mean(-1)
        if kind == "sampled_surprisal":
            return ln_z - np.take_along_axis(z, ids[:, None], -1)[:, 0]
        return rows.entropy(z, ln_z) if kind == "entropy" else -ln_z

    return rows.by_row(value, logits, *columns)


def to_confidence(signal: Any, kind: str, top_k: int = 20) -> np.ndarray:
    """`signal` of this kind turned so that higher means more confident.

    T with k > 1 and ``max_logp`` stay as they are; T with k = 1, ``sampled_surprisal`` and
    ``entropy`` are negated. Since T >= ln k, T with k = 20 rises under sharpening wherever
    H < ln 20; with k = 1, T = -ln max P <= H always falls (see `sharpening_slope`).
    """
    one_of("kind", kind, KINDS)
    rising = kind == "max_logp" or (kind == "topk_mean_neglogp" and count("top_k", top_k) > 1)
    values = rows.to_numpy(signal).astype(np.float64)
    return values if rising else -values


def decomposition(logits: Any, top_k: int = 20) -> Decomposition:
    """The three parts of T: ln k, KL(U_k || q) and -ln M, for `logits` [..., V].

    M is the probability of the `top_k` most likely tokens, q = P / M on them, U_k uniform.
    """
    k = rows.accepted_k(top_k, logits)

    def parts(z, ln_z):
        ln_p = rows.top(z, k) - ln_z[:, None]
        ln_m = np.log(np.exp(ln_p).sum(-1))
        kl = (np.log(1 / k) - (ln_p - ln_m[:, None])).mean(-1)
        return np.stack([kl, -ln_m], -1)

    both = rows.by_row(parts, logits)
    return Decomposition(math.log(k), both[..., 0], both[..., 1])


def sharpening_slope(logits: Any, top_k: int = 20) -> np.ndarray:
    """dT/d beta at beta = 1 for P_beta proportional to P^beta: exactly T - H, in nats.

    Positive: sharpening the distribution raises T, so T is a confidence on that token.
    """
    return token_signal(logits, "topk_mean_neglogp", top_k) - token_signal(logits, "entropy")


def trend(
    confidence: Any,
    window: int = 64,
    stride: int = 8,
    bottom: float = 0.10,
    x: str = "window",
    lowest: str = "quantile",
) -> Trend:
    """Slope of the lowest window minima of `confidence` [L] (higher = more confident).

    R_m = min of confidence[stride*m : stride*m + window], m = 0..floor((L - window)/stride) [P2].
    lowest [U]: ``quantile`` keeps R_m <= the linearly interpolated `bottom` quantile, ties
    included; ``count`` keeps the ceil(bottom * windows) smallest, earlier ones first.
    x [U]: least squares over the index m (``window``) or over 0, 1, 2, ... (``rank``).
    """
    values = _trace(confidence)
    window, stride = count("window", window), count("stride", stride)
    share("bottom", bottom, zero=False)
    one_of("x", x, ("window", "rank"))
    one_of("lowest", lowest, ("quantile", "count"))
    pooled = _pool(values, window, stride)
    kept = _lowest(pooled, bottom, lowest)
    return Trend(pooled, kept, _slope(_axis(kept, x), pooled[kept]))


def next_budget(
    confidence: Any,
    budget: int,
    upper: int = 30_000,
    scale_up: float = 1.75,
    window: int = 64,
    stride: int = 8,
    bottom: float = 0.10,
    x: str = "window",
    rounding: str = "floor",
    lowest: str = "quantile",
    fit: str = "whole",
    since: int = 0,
) -> BudgetDecision:
    """The budget for the coming compression, given `confidence` [L] of all generated tokens.

    min(floor(scale_up * budget), upper) when the slope is below 0, else unchanged [P2]; it never
    shrinks. Fewer than two kept windows: hold [U]. rounding [U]: ``floor`` or ``ceil``.
    fit [U]: ``whole`` trace, or ``since_raise``, which drops the tokens before index `since`.
    The other arguments are those of `trend`. With the defaults two kept windows need 11 windows,
    so no raise before 144 generated tokens. The caller asks only when it is about to compress.

    Raises ValueError for values outside the ranges stated, and for `budget` outside 1..upper.
    """
    if count("budget", budget) > count("upper", upper):
        raise ValueError(f"budget={budget} is above upper={upper}; accepted: 1..upper.")
    if not (math.isfinite(scale_up) and scale_up >= 1):
        raise ValueError(f"scale_up={scale_up!r} is refused; accepted: a finite factor >= 1.")
    one_of("rounding", rounding, ("floor", "ceil"))
    one_of("fit", fit, ("whole", "since_raise"))
    values = _trace(confidence)
    if fit == "since_raise":
        if not 0 <= since <= values.size:
            raise ValueError(f"since={since!r} is refused; accepted: 0..L = 0..{values.size}.")
        values = values[since:]
    found = trend(values, window, stride, bottom, x, lowest)
    new = budget
    if found.slope is None:
        reason = f"held: {found.kept.size} kept windows of {found.pooled.size}, a line needs 2"
    elif not found.slope < 0:
        reason = f"held: slope {found.slope:+.3g} is not below 0"
    else:
        new = min(_grown(budget, scale_up, rounding), upper)
        change = f"raised {budget} to {new}" if new > budget else f"held at {budget}, upper {upper}"
        reason = f"{change}: slope {found.slope:+.3g} is below 0"
    return BudgetDecision(new, new > budget, found.slope, found.kept, found.pooled, reason)


def _pool(values: np.ndarray, window: int, stride: int) -> np.ndarray:
    if values.size < window:
        return np.zeros(0)
    return np.lib.stride_tricks.sliding_window_view(values, window)[::stride].min(-1)


def _lowest(pooled: np.ndarray, bottom: float, lowest: str) -> np.ndarray:
    if not pooled.size:
        return np.zeros(0, dtype=int)
    if lowest == "quantile":
        return np.flatnonzero(pooled <= np.quantile(pooled, bottom))
    number = math.ceil(bottom * pooled.size - 1e-9)  # 0.1 * 30 is 3, not 3.0000000000000004
    return np.sort(np.argsort(pooled, kind="stable")[:number])


def _axis(kept: np.ndarray, x: str) -> np.ndarray:
    return kept if x == "window" else np.arange(kept.size)


def _slope(x: np.ndarray, y: np.ndarray) -> float | None:
    if x.size < 2:
        return None
    y = y - y[0]  # so that a constant trace has slope 0 exactly, not rounding noise
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def _grown(budget: int, scale_up: float, rounding: str) -> int:
    grown = round(budget * scale_up, 9)
    return math.floor(grown) if rounding == "floor" else math.ceil(grown)


def _trace(confidence: Any) -> np.ndarray:
    values = rows.to_numpy(confidence).astype(np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(
            f"confidence has shape {values.shape}; accepted: finite numbers, one a token, [L]."
        )
    return values
