"""What to move when a paged KV cache is compacted in place (ActKV, arXiv 2609.31395, Algorithm 4).

Survivors are packed into as few blocks as hold them, the last ones. A source is a survivor outside
that range, a destination is a hole inside it: equally many, never the same slot, so all rows move
in one parallel pass without a buffer, and whole blocks in front become free. Survivors are
permuted. Keys keep their rotation, so attention does not notice; anything else that is kept per
slot must follow `Plan.perm`.

Dims: L layers, N blocks of the pool, T slots of a block; R requests, P blocks of the longest
request; S slots in use, B survivors, c moved rows; Y = ⌈S/T⌉, X = ⌈B/T⌉ (both without prefix).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np


@dataclass(frozen=True)
class Plan:
    """What to move in one request. All slots are logical: position in the block table times T.

    src, dst: int64 [c], ascending. perm: int64 [B], ``perm[new] = old``.
    freed_blocks: int64 [Y - X], places in the block table that are given back.
    block_size: T.
    """

    src: np.ndarray
    dst: np.ndarray
    perm: np.ndarray
    freed_blocks: np.ndarray
    block_size: int

    @property
    def slots(self) -> np.ndarray:
        """int64 [B], the slot (old numbering) at which each survivor now is."""
        new = np.arange(len(self.perm))
        if len(self.freed_blocks):
            gap = new >= self.freed_blocks[0] * self.block_size
            new = new + gap * len(self.freed_blocks) * self.block_size
        return new


# begin: plan
def plan(
    keep: np.ndarray,
    length: int,
    block_size: int,
    prefix_blocks: int = 0,
    shared: np.ndarray | None = None,
) -> Plan:
    """Plan the compaction of one request (arXiv 2609.31395, Algorithm 4).

    Parameters
    ----------
    keep : bool [S]
        Slots that survive. All of the first ``prefix_blocks * block_size`` must.
    length : int
        S, slots in use.
    prefix_blocks : int
        Full blocks in front that stay where they are; the algorithm runs on the blocks behind.
        (Taken literally it drops the first blocks and would move the prefix every time.)
    shared : bool [≥ ⌈S/T⌉], optional
        Blocks that another request reads too. They may be sources and they may be given back, but
        are never written.

    Raises
    ------
    ValueError
        For arguments out of range, and when holes in a shared block would have to be filled:
        there is no plan then, the caller must copy that block first.
    """
    keep = _checked(keep, length, block_size, prefix_blocks)
    first = prefix_blocks * block_size
    behind = keep[first:]
    survivors = int(behind.sum())
    blocks, needed = ceil(len(behind) / block_size), ceil(survivors / block_size)
    low = (blocks - needed) * block_size
    high = low + survivors

    kept = np.zeros(blocks * block_size, bool)  # slots after S, in the last block, are holes
    kept[: len(behind)] = behind
    dst = low + np.flatnonzero(~kept[low:high])
    kept[low:high] = False
    src = np.flatnonzero(kept)
    perm = np.arange(low, high)
    perm[dst - low] = src
    _not_shared(first + dst, block_size, shared)
    return Plan(
        src=first + src,
        dst=first + dst,
        perm=np.concatenate([np.arange(first), first + perm]),
        freed_blocks=prefix_blocks + np.arange(blocks - needed),
        block_size=block_size,
    )


# end: plan


def _checked(keep: np.ndarray, length: int, block_size: int, prefix_blocks: int) -> np.ndarray:
    keep = np.asarray(keep)
    if block_size < 1:
        raise ValueError(f"block_size={block_size}; accepted: at least 1.")
    if keep.dtype != bool or keep.shape != (length,):
        raise ValueError(f"keep is {keep.dtype} {list(keep.shape)}; accepted: bool [{length}].")
    if not 0 <= prefix_blocks <= length // block_size:
        raise ValueError(
            f"prefix_blocks={prefix_blocks}; accepted: 0 … {length // block_size}, the full "
            f"blocks in length={length}."
        )
    if not keep[: prefix_blocks * block_size].all():
        raise ValueError(f"keep drops slots of the first {prefix_blocks} blocks; accepted: none.")
    return keep


def _not_shared(dst: np.ndarray, block_size: int, shared: np.ndarray | None) -> None:
    if shared is None or not len(dst):
        return
    shared = np.asarray(shared)
    if shared.dtype != bool or shared.ndim != 1 or len(shared) <= dst.max() // block_size:
        raise ValueError(
            f"shared is {shared.dtype} {list(shared.shape)}; accepted: bool, one per block."
        )
    written = np.unique(dst // block_size)
    if (bad := written[shared[written]]).size:
        raise ValueError(
            f"shared blocks {bad.tolist()} have holes to fill; accepted: copy them first, or count "
            "them into prefix_blocks with all their slots kept."
        )


def shorten(table: np.ndarray, moved: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Block table [P] without the blocks given back, and those blocks (numbers in the pool)."""
    table, freed = np.asarray(table), moved.freed_blocks
    if table.ndim != 1 or (freed.size and len(table) <= freed.max()):
        raise ValueError(
            f"table has shape {list(table.shape)}; accepted: one dimension, more than "
            f"{freed.max(initial=0)} blocks, as the plan gives back."
        )
    return np.delete(table, freed), table[freed]


def physical_moves(shape: Sequence[int], tables, plans: Sequence) -> list[np.ndarray]:
    """Source and destination slots in the pool, int64 [2, c] for each layer.

    Arguments as in `kernels.compaction.compact_`. Raises ValueError for a plan or table that does
    not fit `shape`, and unless all destinations differ from one another and from all sources.
    """
    layers, _, blocks, slots = shape[:4]
    tables = np.asarray(tables.cpu() if hasattr(tables, "cpu") else tables)
    if tables.ndim != 2 or tables.dtype.kind not in "iu" or len(tables) != len(plans):
        raise ValueError(
            f"tables is {tables.dtype} {list(tables.shape)}; accepted: integers "
            f"[{len(plans)} requests, blocks of a request], one row per plan."
        )
    per_layer = [[p] * layers if isinstance(p, Plan) else list(p) for p in plans]
    if any(len(p) != layers for p in per_layer):
        raise ValueError(f"plans: accepted are, for each request, one Plan or {layers} (layers).")
    if any(len({len(layer.perm) for layer in p}) > 1 for p in per_layer):
        raise ValueError("plans keep different numbers of slots in layers of one request.")
    if all(isinstance(p, Plan) for p in plans):
        return [_one_layer(tables, plans, blocks, slots)] * layers
    return [_one_layer(tables, layer, blocks, slots) for layer in zip(*per_layer, strict=True)]


def _one_layer(tables: np.ndarray, plans: Sequence[Plan], blocks: int, slots: int) -> np.ndarray:
    found = [np.zeros((2, 0), np.int64)]
    for request, (table, moved) in enumerate(zip(tables, plans, strict=True)):
        if moved.block_size != slots:
            raise ValueError(f"plans[{request}].block_size={moved.block_size}; accepted: {slots}.")
        logical = np.stack([moved.src, moved.dst])
        used = logical // slots
        if used.size and used.max() >= len(table):
            raise ValueError(
                f"plans[{request}] names block {used.max()}; accepted: < {len(table)}."
            )
        chosen = table[used].astype(np.int64)
        if used.size and not 0 <= chosen.min() <= chosen.max() < blocks:
            raise ValueError(
                f"tables[{request}] holds {chosen.min()} … {chosen.max()}; "
                f"accepted: 0 … {blocks - 1}."
            )
        found.append(chosen * slots + logical % slots)
    source, target = moves = np.concatenate(found, axis=1)
    written = np.zeros(blocks * slots, bool)
    written[target] = True
    if written.sum() != target.size or written[source].any():
        raise ValueError(
            "plans write a slot twice, or one that is still read; accepted: destinations that "
            "differ from each other and from every source (is a written block shared?)."
        )
    return moves
