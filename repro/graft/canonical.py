"""State canonicalisers phi: which states of a group's rollouts are one node of its graph.

Source: arXiv 2609.28963, section on graph construction. Exact matching is the paper's choice
where the environment returns fixed strings, a cosine above tau where states are free text. How a
relation that is not transitive becomes clusters is not said; both usual rules are here.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from repro.errors import BadParameter


def exact(states: Sequence[Hashable]) -> np.ndarray:
    """Node id of every state, [n] int: equal states share one, numbered by first appearance."""
    ids: dict[Hashable, int] = {}
    return np.array([ids.setdefault(state, len(ids)) for state in states], dtype=np.int64)


def leader(vectors: np.ndarray, tau: float = 0.9) -> np.ndarray:
    """Join the most similar earlier leader above `tau`, or else become a leader.

    vectors: [n, d] real, in the fixed order (trajectory, step), which matters. Returns [n] int.
    Raises BadParameter for vectors that are not finite or zero, or tau outside (-1, 1).
    """
    unit = _unit(vectors, tau)
    leaders: list[int] = []
    ids = np.empty(len(unit), dtype=np.int64)
    for i, vector in enumerate(unit):
        similar = unit[leaders] @ vector if leaders else np.zeros(0)
        best = int(np.argmax(similar)) if leaders else -1
        if leaders and similar[best] > tau:
            ids[i] = best
        else:
            ids[i] = len(leaders)
            leaders.append(i)
    return ids


def linked(vectors: np.ndarray, tau: float = 0.9) -> np.ndarray:
    """Single linkage: states are one node if a chain of pairs above `tau` joins them. [n] int."""
    from scipy.sparse.csgraph import connected_components

    unit = _unit(vectors, tau)
    _, found = connected_components(unit @ unit.T > tau, directed=False)
    return exact(found.tolist())


def _unit(vectors: np.ndarray, tau: float) -> np.ndarray:
    vectors = np.asarray(vectors, dtype=float)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise BadParameter(f"vectors has shape {vectors.shape}; accepted: [n, d], all finite.")
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if (length == 0).any():
        raise BadParameter("vectors holds a zero vector, whose cosine is undefined.")
    if not -1 < tau < 1:
        raise BadParameter(f"tau={tau} is refused; accepted: between -1 and 1.")
    return vectors / length
