"""Other step signals from the same rollouts, as arXiv 2609.28963 describes its neighbours.

Each takes the graph and returns one number a step, [E]. None is normalised, so that they can be
held against true advantages; GiGPO's and GraphGPO's papers divide by a spread on top.
"""

from collections.abc import Callable

import numpy as np

from repro.errors import BadParameter
from repro.graft import values
from repro.graft.graph import TrajectoryGraph


def outcomes(graph: TrajectoryGraph) -> np.ndarray:
    """The outcome of each step's trajectory, [E]."""
    last = graph.left == 0
    held = np.full(graph.trajectory.max() + 1, np.nan)
    held[graph.trajectory[last]] = graph.sink[graph.head[last]]
    return held[graph.trajectory]


def returns(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:
    """gamma^(steps left, the own one included) times the outcome, [E]."""
    return gamma ** (graph.left + 1.0) * outcomes(graph)


def grpo(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:  # noqa: ARG001
    """Outcome minus the mean outcome of the group: the same for all steps of a trajectory."""
    outcome = outcomes(graph)
    return outcome - outcome[graph.left == 0].mean()


def gigpo(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:
    """GiGPO's step part: the return minus the mean return of all steps from the same node."""
    found = returns(graph, gamma)
    return found - mean_by(graph.tail, found)


def rtmc(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:
    """Mean return of the (node, action) pair minus that of the node (arXiv 2604.11037)."""
    found = returns(graph, gamma)
    pair = np.unique(np.stack([graph.tail, graph.action], 1), axis=0, return_inverse=True)[1]
    return mean_by(pair.reshape(-1), found) - mean_by(graph.tail, found)


def salt(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:
    """GRPO's advantage averaged over identical transitions (arXiv 2510.20022)."""
    return mean_by(graph.distinct(), grpo(graph, gamma))


def graph_gpo(graph: TrajectoryGraph, gamma: float = 0.99) -> np.ndarray:
    """gamma^(shortest way from the head to success), centred per node (arXiv 2605.26684)."""
    won = np.flatnonzero(graph.sink > 0.5)
    reward = gamma ** values.distance(graph, won)[graph.head]  # 0 where there is no way
    return reward - mean_by(graph.tail, reward)


CONTROLS: dict[str, Callable[..., np.ndarray]] = {
    "GRPO": grpo,
    "SALT": salt,
    "GiGPO step part": gigpo,
    "GraphGPO": graph_gpo,
    "RTMC": rtmc,
}


def mean_by(key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Every value replaced by the mean of those with the same key, [E]. key: [E] int >= 0."""
    if not np.isfinite(value).all():
        raise BadParameter("an outcome is unknown; accepted: every last edge leads to a sink.")
    return (np.bincount(key, value) / np.maximum(np.bincount(key), 1))[key]
