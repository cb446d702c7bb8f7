"""State values of the trajectory graph: the Bellman expectation over what was executed.

Source: arXiv 2609.28963, Eq. 5 to 7. With count estimates the value of a node is gamma times the
mean value of the heads of its raw out-edges.
"""

import math

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg

from repro.errors import BadParameter
from repro.graft.graph import TrajectoryGraph

TOLERANCE = 1e-8


def transition(graph: TrajectoryGraph, weight: str = "count") -> sparse.csr_array:
    """P_pi of Eq. 5, [n, n]; rows of sinks are empty.

    weight: ``count`` weights an action by how often it was executed (Eq. 6); ``uniform`` takes the
    plain mean over distinct actions, as the prose around Eq. 5 reads.
    """
    if weight not in ("count", "uniform"):
        raise BadParameter(f"weight={weight!r} is not known; accepted: 'count', 'uniform'.")
    free = np.isnan(graph.sink[graph.tail])
    tail, head, action = graph.tail[free], graph.head[free], graph.action[free]
    if weight == "count":
        share = 1 / np.bincount(tail, minlength=graph.n)[tail]
    else:
        pairs, of_pair = np.unique(np.stack([tail, action], 1), axis=0, return_inverse=True)
        of_pair = of_pair.reshape(-1)
        actions = np.bincount(pairs[:, 0], minlength=graph.n)
        share = 1 / (actions[tail] * np.bincount(of_pair)[of_pair])
    return sparse.csr_array((share, (tail, head)), shape=(graph.n, graph.n))


def solve(
    graph: TrajectoryGraph,
    gamma: float = 0.99,
    weight: str = "count",
    method: str = "sweeps",
    tolerance: float = TOLERANCE,
) -> np.ndarray:
    """V of every node, [n], in [0, 1].

    method: ``sweeps``, Gauss-Seidel from the sinks backwards, as the paper does, until no value
    moves by `tolerance`; or ``sparse``, the linear system solved at once.
    Raises BadParameter for gamma outside (0, 1), a tolerance that is not positive, or unknown
    names.
    """
    if not 0 < gamma < 1:
        raise BadParameter(f"gamma={gamma} is refused; accepted: between 0 and 1, both excluded.")
    if not 0 < tolerance < 1:
        raise BadParameter(f"tolerance={tolerance} is refused; accepted: between 0 and 1.")
    if method not in ("sweeps", "sparse"):
        raise BadParameter(f"method={method!r} is not known; accepted: 'sweeps', 'sparse'.")
    step = gamma * transition(graph, weight)
    fixed = np.nan_to_num(graph.sink, nan=0.0)
    if method == "sparse":
        system = sparse.eye_array(graph.n, format="csc") - step
        return linalg.spsolve(system.tocsc(), fixed)
    return _sweeps(graph, step, fixed, gamma, tolerance)


def most_sweeps(gamma: float, tolerance: float = TOLERANCE) -> int:
    """The paper's bound on the number of sweeps."""
    return math.ceil(math.log(tolerance) / math.log(gamma)) + 50


def noise(gamma: float, tolerance: float = TOLERANCE) -> float:
    """Advantages below this are rounding of the solver: 2 gamma eps / (1 - gamma), or 1e-6."""
    return max(1e-6, 2 * gamma * tolerance / (1 - gamma))


def _sweeps(graph, step, fixed, gamma, tolerance) -> np.ndarray:
    order = np.argsort(distance(graph), kind="stable")
    step = step[order][:, order]
    done = sparse.tril(step, -1)  # nodes that this sweep has updated already
    before = (step - done).tocsr()
    system = (sparse.eye_array(graph.n) - done).tocsc()
    sweep = linalg.splu(system, permc_spec="NATURAL", diag_pivot_thresh=0.0)
    ordered, value = fixed[order], fixed[order]
    for _ in range(most_sweeps(gamma, tolerance)):
        new = sweep.solve(before @ value + ordered)
        moved = np.abs(new - value).max()
        value = new
        if moved < tolerance:
            break
    found = np.empty(graph.n)
    found[order] = value
    return found


def distance(graph: TrajectoryGraph, to: np.ndarray | None = None) -> np.ndarray:
    """Fewest steps from each node to the nearest sink (or node of `to`), [n]; inf where none."""
    to = np.flatnonzero(~np.isnan(graph.sink)) if to is None else np.asarray(to)
    if not to.size:
        return np.full(graph.n, np.inf)
    ones = np.ones(len(graph.tail))
    back = sparse.csr_array((ones, (graph.head, graph.tail)), shape=(graph.n, graph.n))
    return csgraph.dijkstra(back, indices=to, unweighted=True, min_only=True)
