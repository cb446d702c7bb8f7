"""Intervals of a mean of paired differences."""

import numpy as np
from scipy import stats


def of_mean(differences: np.ndarray) -> tuple[float, float] | None:
    """95 % bootstrap interval (percentiles, 10,000 draws) of the mean of `differences` [items].

    None for fewer than five items; no width where all differences are equal.
    """
    differences = np.asarray(differences, dtype=float)
    if differences.ndim != 1 or not np.isfinite(differences).all():
        raise ValueError(
            f"differences has shape {differences.shape} and {np.isfinite(differences).sum()} "
            "finite values; accepted: [items], all finite."
        )
    if differences.size < 5:
        return None
    if np.ptp(differences) == 0:
        return float(differences[0]), float(differences[0])
    found = stats.bootstrap(
        (differences,), np.mean, n_resamples=10_000, method="percentile", rng=0
    ).confidence_interval
    return float(found.low), float(found.high)
