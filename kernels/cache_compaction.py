"""Algorithm 4 as the compaction of a paged cache: plan each layer, move all layers at once.

`compact` has the signature of `repro.actkv.paging.compact` and can take its place::

    cache = PagedCache(model, requests=4, compact=cache_compaction.compact)

Survivors go into the last blocks that hold them and are permuted (ActKV, arXiv 2609.31395,
Algorithm 4). Full blocks in front that every layer keeps whole, such as those of a protected
prefix, are left out of the plan: literally taken, the algorithm would drop the first blocks and
move the prefix each time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kernels.compaction import DIMS, compact_, compact_reference
from kernels.plan import Plan, plan, shorten
from kernels.vector16 import SIMULATED


def compact(
    pages: torch.Tensor,
    table: Sequence[int],
    kept: Any,
    length: int,
    shared: np.ndarray | None = None,
) -> tuple[list[int], list[int], np.ndarray]:
    """Keep the slots `kept` of a request with `length` slots, in place; free whole blocks.

    On a GPU, and in the simulator, one launch moves the rows of all layers, on torch's current
    stream, so after the attention that has been enqueued there. On a CPU without the simulator the
    reference does it.

    Parameters
    ----------
    pages : [L, 2, N, T, H, D]
        The pool of all layers, one tensor.
    table : integers [⌈length / T⌉]
        Blocks of the request in order.
    kept : integer [L, n]
        Slots that survive, in any order, equally many in each layer, n ≥ 1.
    length : int
        Slots in use.
    shared : bool [N], optional
        Blocks of the pool that others read too. They are never written: a plan that would have to
        is refused. (Bind it with ``functools.partial`` for a cache that has no such blocks.)

    Returns
    -------
    table, freed : lists of blocks that stay, and that are given back
    order : integer [L, n]
        Slot i of a layer now holds what slot ``order[layer, i]`` held.

    Raises
    ------
    TypeError, ValueError
        For pages, a table or kept slots that do not fit one another, naming the argument.
    """
    slots = _accepted(pages, table, length)
    plans = plan_layers(kept, len(pages), length, slots, _of_table(shared, table, pages.shape[2]))
    blocks = np.asarray(table, np.int64)
    move = compact_ if pages.is_cuda or SIMULATED else compact_reference
    move(pages, blocks[None], [plans])
    rest, freed = shorten(blocks, plans[0])
    return rest.tolist(), freed.tolist(), np.stack([one.perm for one in plans])


def plan_layers(
    kept: Any, layers: int, length: int, slots: int, shared: np.ndarray | None = None
) -> list[Plan]:
    """One plan a layer for the kept slots [L, n]; all free the same blocks of the table.

    slots: T, of a block. shared: as in `kernels.plan.plan`. Raises ValueError as `compact` does.
    """
    kept = _slots(kept, layers, length)
    keep = np.zeros((layers, length), bool)
    np.put_along_axis(keep, kept, True, 1)
    if (keep.sum(1) != kept.shape[1]).any():
        raise ValueError("kept names a slot twice; accepted: each slot once a layer.")
    prefix = whole_blocks(keep, slots)
    return [plan(layer, length, slots, prefix, shared) for layer in keep]


def whole_blocks(keep: np.ndarray, slots: int) -> int:
    """How many full blocks in front every layer of `keep` [L, S] keeps whole."""
    everywhere = np.asarray(keep.all(0))
    first_lost = int(everywhere.argmin()) if not everywhere.all() else len(everywhere)
    return first_lost // slots


def _accepted(pages: Any, table: Any, length: int) -> int:
    """Slots of a block, once pages and table fit one another."""
    if not isinstance(pages, torch.Tensor) or pages.ndim != 6 or pages.shape[1] != 2:
        given = list(pages.shape) if isinstance(pages, torch.Tensor) else type(pages).__name__
        raise ValueError(f"pages is {given}; accepted: one tensor [{DIMS}].")
    slots, numbers = pages.shape[3], np.asarray(table)
    needed = -(-length // slots)
    if numbers.shape != (needed,) or (needed and numbers.dtype.kind not in "iu"):
        raise ValueError(
            f"table is {numbers.dtype} {list(numbers.shape)}; accepted: integers [{needed}], the "
            f"blocks of length={length}."
        )
    if len(np.unique(numbers)) != needed:
        raise ValueError("table names a block twice; accepted: each block once.")
    if needed and not 0 <= numbers.min() <= numbers.max() < pages.shape[2]:
        raise ValueError(
            f"table holds {numbers.min()} … {numbers.max()}; accepted: 0 … {pages.shape[2] - 1}."
        )
    return slots


def _of_table(shared: Any, table: Any, blocks: int) -> np.ndarray | None:
    """`shared` of the pool's blocks [N] as one flag for each place of the table."""
    if shared is None:
        return None
    shared = np.asarray(shared)
    if shared.dtype != bool or shared.shape != (blocks,):
        raise ValueError(
            f"shared is {shared.dtype} {list(shared.shape)}; accepted: bool [{blocks}], one for "
            "each block of the pool."
        )
    return shared[np.asarray(table, np.int64)]


def _slots(kept: Any, layers: int, length: int) -> np.ndarray:
    """`kept` as int64 [L, n], n ≥ 1, within 0 … length - 1."""
    try:
        kept = np.asarray(kept)
    except ValueError as error:  # lists of unequal length
        raise ValueError("kept has layers of unequal size; accepted: equally many each.") from error
    if kept.ndim != 2 or len(kept) != layers or kept.dtype.kind not in "iu" or not kept.size:
        raise ValueError(
            f"kept is {kept.dtype} {list(kept.shape)}; accepted: integers [{layers} layers, n], "
            "n at least 1."
        )
    if not 0 <= kept.min() <= kept.max() < length:
        raise ValueError(
            f"kept holds {kept.min()} … {kept.max()}; accepted: 0 … {length - 1}, the slots in use."
        )
    return kept.astype(np.int64)
