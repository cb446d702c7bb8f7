"""Statistics of paired outcomes: S seeds, n items, differences `d` [S, n] of candidate - baseline.

Items carry the power. Seeds share their items, so an item is one unit, with all its seeds; seeds
are drawn too only where there are at least five.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

DRAWS, AT_ONCE = 10_000, 500
SEEDS_TO_DRAW = 5


def mcnemar(baseline: np.ndarray, candidate: np.ndarray) -> float | None:
    """Exact two-sided p of McNemar's test for one seed's 0/1 outcomes [n]; None for other scores.

    Only items on which the two differ count; without one, p is 1.
    """
    values = np.concatenate([baseline, candidate])
    if not np.isin(values, (0, 1)).all():
        return None
    gained, lost = int((candidate > baseline).sum()), int((candidate < baseline).sum())
    if gained + lost == 0:
        return 1.0
    return float(stats.binomtest(gained, gained + lost).pvalue)


def interval(d: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval (percentiles, 10,000 draws) of the mean of `d` [S, n].

    Draws items; with five seeds or more draws seeds as well, so that it covers both.
    """
    d, rng = _checked(d), np.random.default_rng(seed)
    seeds, items = d.shape
    means = []
    for _ in range(DRAWS // AT_ONCE):
        drawn = np.full((AT_ONCE, seeds), 1)
        if seeds >= SEEDS_TO_DRAW:
            drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=AT_ONCE)
        each = drawn @ d / seeds  # [draws, n]
        picked = rng.integers(items, size=(AT_ONCE, items))
        means.append(np.take_along_axis(each, picked, 1).mean(1))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def covers(seeds: int) -> str:
    """What `interval` speaks of, in words."""
    return "items and seeds" if seeds >= SEEDS_TO_DRAW else "items only"


def sign_flip(d: np.ndarray, seed: int = 0) -> float:
    """Two-sided p of the mean of `d` [S, n] when the sign of each item's mean is by lot.

    Exact for up to 13 items, else from 10,000 draws; 1 where all differences are 0.
    """
    each = _checked(d).mean(0)
    if not each.any():
        return 1.0
    found = stats.permutation_test(
        (each, np.zeros_like(each)),
        lambda a, b, axis: (a - b).mean(axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=DRAWS,
        rng=seed,
    )
    return float(found.pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return adjusted.tolist()


def detectable(d: np.ndarray) -> float:
    """Smallest true mean that is found with 80 % power: 2.8 x root mean square / sqrt(n).

    For 0/1 outcomes of one seed the mean square is the share of discordant items. Identical arms
    give 0, which says nothing: see `repro.compare.report`.
    """
    each = _checked(d).mean(0)
    return float(2.8 * np.sqrt((each**2).mean() / each.size))


def _checked(d: np.ndarray) -> np.ndarray:
    d = np.asarray(d, dtype=float)
    if d.ndim != 2 or d.size == 0 or not np.isfinite(d).all():
        raise ValueError(f"d has shape {d.shape}; accepted: [seeds, items], finite, not empty.")
    return d
