"""The k best documents of each query, from term scores: NumPy for a few queries, Numba for many.

Both give the same documents in the same order: additions run in the order of the query's terms in
float32, a document needs a score above 0, and among equal scores the earlier document wins. Why
not the Numba back end of bm25s: it compiles anew in every process, for seconds, and its heap leaves
open which of several equal scores stays.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from repro.errors import BadParameter

ANY = -1  # no restriction to a group
MANY = 64  # from so many queries on, Numba is worth its start


@dataclass(frozen=True, eq=False)
class Matrix:
    """Term scores, one column a term. data: float32 [nnz]. indices: document of each. indptr:
    [terms + 1]. groups: int32 [documents], the category of each."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    groups: np.ndarray


def best(
    matrix: Matrix,
    queries: list[np.ndarray],
    wanted: np.ndarray,
    k: int,
    kernel: str = "auto",
    threads: int = 2,
) -> np.ndarray:
    """Documents of each query, best first, [queries, k]; -1 where fewer have a term of it.

    queries: term ids of each, a repeated term counts again. wanted: int32 [queries], a group or
    `ANY`. threads: of the Numba kernel.
    kernel: ``numpy``, ``numba`` or ``auto``, by the number of queries.
    """
    if kernel not in ("auto", "numpy", "numba"):
        raise BadParameter(f"kernel={kernel!r} is refused; accepted: auto, numpy, numba.")
    found = np.full((len(queries), k), -1, dtype=np.int32)
    if not queries:
        return found
    if kernel == "numpy" or (kernel == "auto" and len(queries) < MANY):
        for row, (terms, group) in enumerate(zip(queries, wanted, strict=True)):
            one = _one(matrix, terms, group)[:k]
            found[row, : len(one)] = one
        return found
    lengths = [0, *(len(terms) for terms in queries)]
    starts, flat = np.cumsum(lengths), np.concatenate(queries).astype(np.int32)
    work = _compiled()
    cuts = np.linspace(0, len(queries), max(1, min(threads, len(queries))) + 1).astype(int)
    arrays = matrix.data, matrix.indices, matrix.indptr, matrix.groups

    def part(first: int, stop: int) -> None:
        work(*arrays, flat, starts[first : stop + 1], wanted[first:stop], found[first:stop])

    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        list(pool.map(part, cuts[:-1], cuts[1:]))
    return found


def _one(matrix: Matrix, terms: np.ndarray, group: int) -> np.ndarray:
    """All documents with a score above 0, best first."""
    scores = np.zeros(len(matrix.groups), dtype=np.float32)
    for term in terms:
        part = slice(matrix.indptr[term], matrix.indptr[term + 1])
        scores[matrix.indices[part]] += matrix.data[part]  # a document is once in a column
    return ordered(scores, (scores > 0) & allowed(matrix.groups, group))


def allowed(groups: np.ndarray, group: int) -> np.ndarray:
    """bool [documents]: those of a group, or all for `ANY`."""
    return groups == group if group != ANY else np.ones(len(groups), dtype=bool)


def ordered(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Indices where `keep` holds, by falling score; the earlier one first among equals."""
    rows = np.flatnonzero(keep)
    return rows[np.argsort(-scores[rows], kind="stable")]


@cache
def _compiled():
    """The kernel; kept on disk between processes, and free of the interpreter lock."""
    import numba

    @numba.njit(nogil=True, cache=True)
    def work(data, indices, indptr, groups, flat, starts, wanted, found):
        scores = np.empty(groups.size, dtype=np.float32)
        k = found.shape[1]
        top = np.empty(k, dtype=np.float32)
        for row in range(wanted.size):
            scores[:] = 0
            for at in range(starts[row], starts[row + 1]):
                for place in range(indptr[flat[at]], indptr[flat[at] + 1]):
                    scores[indices[place]] += data[place]
            top[:] = 0
            for document in range(groups.size):
                score = scores[document]
                if score <= top[k - 1] or (wanted[row] >= 0 and groups[document] != wanted[row]):
                    continue
                at = k - 1
                while at > 0 and score > top[at - 1]:
                    top[at] = top[at - 1]
                    found[row, at] = found[row, at - 1]
                    at -= 1
                top[at] = score
                found[row, at] = document

    return work
