"""Ways to choose what stays, at the same budget, over the rounds of a recorded trace.

Kept sets are bool [L, T, S]: cached in a layer after a round. They are judged by what the next
action looks at in the full cache: no run in which later tokens feel the loss of evicted entries.
"""

import numpy as np

from repro.actkv.study_eviction import Recorded, film


def arms(
    recorded: Recorded,
    budget: int,
    decays: list[float],
    decay: float,
    mass: float,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Kept set of every arm: Algorithm 1 at each of `decays`, controls, and the ceiling."""
    scored = {
        f"decay {d:g}": film(recorded, recorded.action, budget, decay=d, mass=mass) for d in decays
    }
    scored["all queries"] = film(recorded, recorded.every, budget, decay=decay, mass=mass)
    return {name: ~np.isnan(scores) for name, scores in scored.items()} | {
        "newest": recent(recorded, budget),
        "random": random(recorded, budget, rng),
        "next action": oracle(recorded, budget),
    }


def recent(recorded: Recorded, budget: int) -> np.ndarray:
    """Cached [1, T, S], bool, when only the newest `budget` unprotected entries stay."""
    place, stop = np.arange(recorded.lengths[-1]), recorded.lengths[:, None]
    return ((place < stop) & ((place >= stop - budget) | (place < recorded.protected)))[None]


def random(recorded: Recorded, budget: int, rng: np.random.Generator) -> np.ndarray:
    """Cached [L, T, S], bool, when each round evicts down to `budget` by lot."""
    layers = len(recorded.action[0])
    kept = np.zeros((layers, len(recorded.lengths), recorded.lengths[-1]), dtype=bool)
    kept[..., : recorded.protected] = True
    for layer in kept:
        cached, seen = np.zeros(0, dtype=int), recorded.protected
        for at, length in enumerate(recorded.lengths):
            cached, seen = np.concatenate([cached, np.arange(seen, length)]), length
            cached = rng.permutation(cached)[:budget]
            layer[at, cached] = True
    return kept


def oracle(recorded: Recorded, budget: int) -> np.ndarray:
    """Cached [L, T, S], bool: the entries that the *next* action reads most. The ceiling.

    It looks into the future and may take back what was evicted before. Its last round is empty.
    """
    kept = np.zeros((len(recorded.action[0]), len(recorded.action), recorded.lengths[-1]), bool)
    for at, (row, length) in enumerate(zip(recorded.action[1:], recorded.lengths, strict=False)):
        best = np.argsort(-row[:, recorded.protected : length], axis=1, kind="stable")[:, :budget]
        np.put_along_axis(kept[:, at], best + recorded.protected, True, axis=1)
    return kept


def has_to_evict(recorded: Recorded, budget: int) -> np.ndarray:
    """Bool [T]: more than `budget` unprotected entries have come in by the end of the round."""
    return recorded.lengths - recorded.protected > budget


def coverage(recorded: Recorded, kept: np.ndarray, budget: int) -> float:
    """Share of the next action's attention on older unprotected entries that `kept` still holds.

    Mean over layers and the rounds that have to evict; 1 without such a round.
    """
    shares, first = [], recorded.protected
    for at in np.flatnonzero(has_to_evict(recorded, budget)[:-1]):
        length = recorded.lengths[at]
        older = recorded.action[at + 1][:, first:length].astype(np.float64)
        shares.append((older * kept[:, at, first:length]).sum(1) / older.sum(1))
    return float(np.mean(shares)) if shares else 1.0


def overlap(recorded: Recorded, one: np.ndarray, other: np.ndarray, budget: int) -> float:
    """Jaccard overlap of two kept sets, prefix aside: mean over rounds that have to evict, or 1."""
    full = has_to_evict(recorded, budget)
    one, other = (kept[:, full, recorded.protected :] for kept in (one, other))
    return float(((one & other).sum(-1) / (one | other).sum(-1)).mean()) if full.any() else 1.0


def zero_share(recorded: Recorded, scores: np.ndarray, budget: int) -> float:
    """Share of the kept unprotected entries of a film [L, T, S] whose score is 0; likewise."""
    frames = scores[:, has_to_evict(recorded, budget), recorded.protected :]
    return float((frames == 0).sum() / (frames >= 0).sum()) if frames.size else 0.0
