"""Credit of a step: what its edge changes in value, one step or several hops ahead.

Source: arXiv 2609.28963, Eq. 8 to 11.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from repro.errors import BadParameter
from repro.graft.graph import TrajectoryGraph

NORMS = ("none", "node", "node+floor")


def one_step(graph: TrajectoryGraph, value: np.ndarray, gamma: float = 0.99) -> np.ndarray:
    """gamma V(head) - V(tail) of every executed step, [E] (Eq. 8)."""
    _check(graph, value, gamma)
    return gamma * value[graph.head] - value[graph.tail]


def graph_gae(
    graph: TrajectoryGraph,
    value: np.ndarray,
    gamma: float = 0.99,
    lam: float = 0.95,
    edges: str = "raw",
) -> np.ndarray:
    """Graph GAE of every executed step, [E] (Eq. 9 and 10).

    To the step's own residual come, at hop k, (gamma lam)^k times the mean residual of all edges
    that are exactly k hops ahead, as deep as the step's own trajectory goes on.
    edges: each ``raw`` instance counts, or each ``distinct`` edge once: the paper says both.
    """
    if edges not in ("raw", "distinct"):
        raise BadParameter(f"edges={edges!r} is not known; accepted: 'raw', 'distinct'.")
    if not 0 <= lam <= 1:
        raise BadParameter(f"lam={lam} is refused; accepted: 0 to 1.")
    residual = one_step(graph, value, gamma)
    kept = np.arange(len(residual))
    if edges == "distinct":
        kept = np.unique(graph.distinct(), return_index=True)[1]
    total = np.bincount(graph.tail[kept], residual[kept], minlength=graph.n)
    count = np.bincount(graph.tail[kept], minlength=graph.n)
    ahead = sparse.csr_array(
        (np.ones(len(graph.tail)), (graph.tail, graph.head)), shape=(graph.n, graph.n)
    )
    found = residual.copy()
    for node in np.unique(graph.head):
        mine = np.flatnonzero(graph.head == node)
        sums = _hops(node, int(graph.left[mine].max()), ahead, total, count, gamma * lam)
        found[mine] += sums[np.minimum(graph.left[mine], len(sums) - 1)]
    return found


def _hops(node, depth, ahead, total, count, factor) -> np.ndarray:
    """Discounted sums of the mean residuals 1 .. k hops after `node`, for k = 0 .. depth."""
    sums, frontier = [0.0], np.array([node])
    for k in range(1, depth + 1):
        edges = count[frontier].sum()
        if edges == 0:
            break
        sums.append(sums[-1] + factor**k * total[frontier].sum() / edges)
        frontier = np.unique(ahead[frontier].indices)
    return np.array(sums)


@dataclass(frozen=True)
class Normalised:
    """advantage: [E]. zeroed: steps below the solver's noise. sigma: [n], NaN at empty nodes."""

    advantage: np.ndarray
    zeroed: int
    sigma: np.ndarray


def normalise(
    graph: TrajectoryGraph,
    advantage: np.ndarray,
    norm: str = "node",
    deviation: str = "population",
    noise: float = 2e-6,
    floor: float = 0.1,
    epsilon: float = 1e-8,
) -> Normalised:
    """Advantages in units of the spread among the edges that leave the same node (Eq. 11).

    A node with one out-edge has mean 0 and spread |A|, as in the paper. What is below `noise`, the
    rounding of the value solver, becomes 0 first: else that rule turns rounding into a credit of
    +1 or -1. ``node+floor`` divides by at least `floor`, so that the smallest preference is not
    made as loud as the largest; ``none`` leaves the values alone.
    """
    for name, given, accepted in (
        ("norm", norm, NORMS),
        ("deviation", deviation, ("population", "sample")),
    ):
        if given not in accepted:
            raise BadParameter(f"{name}={given!r} is not known; accepted: {accepted}.")
    advantage = np.asarray(advantage, dtype=float)
    if advantage.shape != graph.tail.shape or not np.isfinite(advantage).all():
        raise BadParameter(
            f"advantage has shape {advantage.shape}; accepted: {graph.tail.shape}, all finite."
        )
    quiet = np.abs(advantage) < noise
    kept = np.where(quiet, 0.0, advantage)
    count = graph.out_degree()
    at_least_one = np.maximum(count, 1)
    mean = np.bincount(graph.tail, kept, minlength=graph.n) / at_least_one
    off = kept - mean[graph.tail]
    by = np.maximum(at_least_one - (deviation == "sample"), 1)
    sigma = np.sqrt(np.bincount(graph.tail, off**2, minlength=graph.n) / by)
    single = count == 1
    mean[single] = 0.0
    sigma[single] = np.bincount(graph.tail, np.abs(kept), minlength=graph.n)[single]
    told = np.where(count > 0, sigma, np.nan)
    if norm == "none":
        return Normalised(kept, int(quiet.sum()), told)
    below = np.maximum(sigma, floor) if norm == "node+floor" else sigma
    scaled = (kept - mean[graph.tail]) / (below[graph.tail] + epsilon)
    return Normalised(scaled, int(quiet.sum()), told)


def _check(graph: TrajectoryGraph, value: np.ndarray, gamma: float) -> None:
    if not 0 < gamma < 1:
        raise BadParameter(f"gamma={gamma} is refused; accepted: between 0 and 1, both excluded.")
    if np.shape(value) != (graph.n,) or not np.isfinite(value).all():
        raise BadParameter(
            f"value has shape {np.shape(value)}; accepted: ({graph.n},), all finite."
        )
