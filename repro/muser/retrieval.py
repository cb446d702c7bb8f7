"""From interests to a list: exact search, a graph search for each interest, merge, re-score.

Source: arXiv 2609.23677 as the project's notes give it (sections 3.4 and 5): HNSW finds candidates
for each interest; its lower layers, a beam search scored by a small network, are not built here.
Cosines throughout: items and interests are scaled to length 1. M interests, n items, d dimensions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.accept import count
from repro.errors import BadParameter, ReproError

CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 32, 128, 256  # of HNSW


@dataclass(frozen=True, eq=False)
class Found:
    """items: [k] rows of the catalogue, best first. scores: [k]. searched: candidates merged."""

    items: np.ndarray
    scores: np.ndarray
    searched: int


def unit(vectors: Any, name: str) -> np.ndarray:
    """Rows [n, d] at length 1, float32. Raises BadParameter for a row without a direction."""
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or not rows.size:
        raise BadParameter(f"{name} has shape {rows.shape}; accepted: [rows, d], neither 0.")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(length).all() and (length > 0).all()):
        raise BadParameter(f"{name} hold a zero vector or NaN; accepted: lengths above 0.")
    return rows / length


class Exact:
    """The oracle: every item is compared. items: [n, d]."""

    def __init__(self, items: Any):
        self.items = unit(items, "items")

    def nearest(self, u: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """For each row of u [M, d] the k nearest items and their cosines, both [M, k]."""
        cos = u @ self.items.T
        best = _first(cos, k)
        return best, np.take_along_axis(cos, best, 1)


class Hnsw:
    """The same from a graph (`usearch`), approximately. One thread, so that it can be repeated.

    Raises ReproError where usearch is not installed.
    """

    def __init__(
        self,
        items: Any,
        connectivity: int = CONNECTIVITY,
        expansion_add: int = EXPANSION_ADD,
        expansion_search: int = EXPANSION_SEARCH,
    ):
        try:
            from usearch.index import Index
        except ImportError as error:
            raise ReproError("usearch is not installed: `pip install usearch`.") from error
        self.items = unit(items, "items")
        self._index = Index(
            ndim=self.items.shape[1],
            metric="ip",
            dtype="f32",
            connectivity=count("connectivity", connectivity, 2),
            expansion_add=count("expansion_add", expansion_add),
            expansion_search=count("expansion_search", expansion_search),
        )
        self._index.add(np.arange(len(self.items)), self.items, threads=1)

    def search_with(self, expansion_search: int) -> "Hnsw":
        """The same graph, searched with another number of candidates from now on."""
        self._index.expansion_search = count("expansion_search", expansion_search)
        return self

    def nearest(self, u: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `Exact.nearest`; a place that the graph does not fill holds -1 and -inf."""
        place, cos = np.full((len(u), k), -1), np.full((len(u), k), -np.inf, np.float32)
        for m, row in enumerate(u):
            keys = np.asarray(self._index.search(row, k, threads=1).keys, dtype=np.int64)
            place[m, : len(keys)], cos[m, : len(keys)] = keys, self.items[keys] @ row
        return place, cos


def merged(index: Exact | Hnsw, u: Any, k: int, each: int | None = None) -> Found:
    """The k items of largest cosine to any of the interests u [M, d]: max_m cos(u_m, e_i).

    Each interest brings its own `each` nearest (k unless given). With exact search and each = k
    nothing is lost: an item among the first k overall is among the first k of its own interest.
    """
    u = unit(u, "u")
    if u.shape[1] != index.items.shape[1]:
        raise BadParameter(f"u has dimension {u.shape[1]}; accepted: {index.items.shape[1]}.")
    n = len(index.items)
    if count("k", k) > n:
        raise BadParameter(f"k={k} is refused; accepted: 1 to {n}, the number of items.")
    place, cos = index.nearest(u, min(count("each", each or k), n))
    candidates, where = np.unique(place, return_inverse=True)
    best = np.full(len(candidates), -np.inf, np.float32)
    np.maximum.at(best, where.ravel(), cos.ravel())
    candidates, best = candidates[best > -np.inf], best[best > -np.inf]
    first = np.lexsort((candidates, -best))[:k]
    return Found(candidates[first], best[first], len(candidates))


def rescored(found: Found, items: np.ndarray, u: Any, tau: float, k: int) -> Found:
    """The candidates of `found` in the order of the soft score (section 3.4), the first k.

    items: [n, d]. tau = 0 is the largest cosine again.
    """
    import torch

    from repro.muser import interests

    chosen = torch.from_numpy(unit(items, "items")[found.items])
    cos = interests.cosines(torch.from_numpy(unit(u, "u")), chosen)
    score = interests.score(cos, tau).numpy()
    first = np.lexsort((found.items, -score))[: count("k", k)]
    return Found(found.items[first], score[first], found.searched)


def agreement(found: np.ndarray, oracle: np.ndarray) -> float:
    """Recall of an approximate list relative to the exact one: the share of `oracle` in `found`.

    It says nothing about whether the user wanted any of these items.
    """
    if not len(oracle):
        raise BadParameter("oracle is empty; accepted: one item or more.")
    return len(np.intersect1d(found, oracle)) / len(np.unique(oracle))


def _first(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k largest of each row, [M, k]; ties go to the lower place."""
    return np.argsort(-values, axis=1, kind="stable")[:, :k]
