"""In-place compaction of a paged KV cache on the device (ActKV, arXiv 2609.31395, Algorithm 4).

`kernels.plan` says which rows move; here they do, for all layers and requests in one launch, 16
bytes at a time and without a buffer. Rows are only copied, so the element type does not matter.

Dims: L layers, 2 (keys, values), N blocks of the pool, T slots of a block, H KV heads, D head
dim; R requests, P blocks of the longest request.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
import torch
from numba import types

from kernels.arrays import launch, steps, words
from kernels.backend import cuda
from kernels.plan import Plan, physical_moves
from kernels.vector16 import load_global, store_global

DIMS = "layers 2 blocks slots heads dim"
THREADS = 128


def compact_reference(cache, tables, plans: Sequence) -> None:
    """Move row after row, in place. Arguments as in `compact_`, any device, NumPy or torch."""
    slots = cache.shape[3]
    for layer, (source, target) in enumerate(physical_moves(cache.shape, tables, plans)):
        for a, b in zip(source.tolist(), target.tolist(), strict=True):
            cache[layer, :, b // slots, b % slots] = cache[layer, :, a // slots, a % slots]


def compact_gather(cache: torch.Tensor, tables, plans: Sequence) -> None:
    """The usual way: collect all survivors in a new buffer, in order, and copy them back.

    Arguments as in `compact_`, but one plan for all layers, whose `perm` does not apply: survivors
    keep their order. Needs a buffer as large as what survives.
    """
    slots = cache.shape[3]
    if not all(isinstance(p, Plan) for p in plans):
        raise ValueError("plans: accepted is one Plan for each request, for all its layers.")
    physical_moves(cache.shape, tables, plans)  # refuses tables and plans that do not fit
    for table, moved in zip(np.asarray(tables), plans, strict=True):
        old, new = np.sort(moved.perm), moved.slots
        here, there = (
            [torch.from_numpy(x).to(cache.device) for x in (table[at // slots], at % slots)]
            for at in (old, new)
        )
        cache[:, :, there[0], there[1]] = cache[:, :, here[0], here[1]]


# begin: kernel
@cuda.jit
def copy_rows(cache, moves, value, head, vectors):
    """Move K and V rows, 16 bytes at a time; one thread column for each move.

    cache: int32 words. moves: int64 [n, 2], where the K rows of source and destination start.
    value, head: distance from a K row to its V row and to the next head; vectors: length of a
    row. All but `cache` count vectors of 16 bytes. Grid: (moves, heads).
    """
    move = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if move >= moves.shape[0]:
        return
    source = moves[move, 0] + cuda.blockIdx.y * head
    target = moves[move, 1] + cuda.blockIdx.y * head
    for i in range(cuda.threadIdx.x, vectors, cuda.blockDim.x):
        k = load_global(cache, 4 * (source + i))
        v = load_global(cache, 4 * (source + i + value))  # both under way before a store waits
        store_global(cache, 4 * (target + i), k)
        store_global(cache, 4 * (target + i + value), v)


# end: kernel


def prepare(cache: torch.Tensor, tables, plans: Sequence) -> Callable[[], None]:
    """Check the arguments of `compact_` and return the bare launch, to be called once."""
    flat = words("cache", cache, DIMS)
    if cache.shape[1] != 2:
        raise ValueError(
            f"cache has {cache.shape[1]} in dimension 1; accepted: 2, keys and values."
        )
    layer, value, block, slot, head = steps(cache)
    heads, dim, slots = cache.shape[4], cache.shape[5], cache.shape[3]
    vectors = dim * cache.element_size() // 16
    if head == vectors or heads == 1:  # the heads of a slot lie side by side: one long row
        heads, vectors = 1, heads * vectors
    rows = [
        i * layer + where // slots * block + where % slots * slot
        for i, where in enumerate(physical_moves(cache.shape, tables, plans))
    ]
    moves = torch.from_numpy(np.concatenate(rows, axis=1).T.copy()).to(cache.device)
    if not len(moves):
        return lambda: None
    wide = min(vectors, THREADS)
    threads = (wide, max(1, THREADS // wide))
    grid = (ceil(len(moves) / threads[1]), heads)
    return lambda: launch(copy_rows, grid, threads, flat, moves, value, head, vectors)


def compact_(cache: torch.Tensor, tables, plans: Sequence) -> None:
    """Compact all layers of all requests in one launch, in place.

    Parameters
    ----------
    cache : [L, 2, N, T, H, D]
        fp32, fp16 or bf16, any strides with contiguous rows (``transpose`` other layouts).
    tables : integer [R, P]
        Block tables; P is the longest, entries beyond a request's blocks are not read.
    plans : R entries
        One `Plan` for all layers of a request, or L of them: layers may keep different slots, but
        equally many.

    Raises
    ------
    TypeError, ValueError
        Naming the argument: element type, device, alignment, table entries outside the pool,
        plans for another block size, a slot both read and written.
    """
    prepare(cache, tables, plans)()


PLAIN = {
    "copy_rows": (
        copy_rows,
        types.void(types.int32[::1], types.int64[:, ::1], types.int64, types.int64, types.int64),
    )
}
