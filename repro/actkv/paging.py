"""Pages of key-value entries: an allocator, a block table, and the compaction of one request.

Layout, per layer: pages [2, N, block, H_k, d] (0 keys, 1 values; N blocks). A request owns a block
table, a list of block numbers shared by all layers: its slot s lies in row s % block of block
table[s // block]. So layers may keep different entries, but must keep equally many (arXiv
2609.31395, section 8, as rebuilt in the notes, 4.4).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


class OutOfBlocks(RuntimeError):
    """A pool of fixed size has no free block left."""


class Blocks:
    """The free list of a pool of `total` blocks, as one flag a block."""

    def __init__(self, total: int):
        self.free = np.ones(total, dtype=bool)

    @property
    def in_use(self) -> int:
        return int((~self.free).sum())

    def take(self, prefer: int) -> int:
        """Block `prefer` if it is free, else the lowest free one. Raises OutOfBlocks."""
        if not (0 <= prefer < self.free.size and self.free[prefer]):
            prefer = int(self.free.argmax())
        if not self.free.any():
            raise OutOfBlocks(
                f"all {self.free.size} blocks are in use; evict, or make the pool larger."
            )
        self.free[prefer] = False
        return prefer

    def release(self, blocks: Sequence[int]) -> None:
        """Give `blocks` back. Raises ValueError for one that is unknown, free, or named twice."""
        for block in blocks:
            if not 0 <= block < self.free.size:
                raise ValueError(f"block {block} is unknown; accepted: 0..{self.free.size - 1}.")
            if self.free[block]:
                raise ValueError(f"block {block} is freed twice; accepted: blocks in use.")
            self.free[block] = True


def rows(table: Sequence[int], slots: np.ndarray, block: int) -> np.ndarray:
    """Physical rows, counted through all pages, of `slots` (any shape). Raises ValueError."""
    table, slots = np.asarray(table, dtype=np.int64), np.asarray(slots, dtype=np.int64)
    if slots.size and not (0 <= slots.min() and slots.max() < table.size * block):
        raise ValueError(
            f"slots span {slots.min()}..{slots.max()}; accepted: 0..{table.size * block - 1}, "
            f"the {table.size} blocks of the table."
        )
    return table[slots // block] * block + slots % block


def compact(
    pages: Sequence[torch.Tensor], table: Sequence[int], kept: Any, length: int
) -> tuple[list[int], list[int], np.ndarray]:
    """Keep the slots `kept` [layers, n] of a request with `length` slots; free whole blocks.

    Returns (table, freed blocks, order [layers, n]): slot i of a layer now holds what slot
    order[i] held. This reference moves the survivors to the front, oldest first, through a copy of
    one layer's survivors; what stays in its slot, such as the prefix, is not touched. A kernel may
    take its place: any order is allowed, as long as it is returned (Algorithm 4 permutes).

    Raises ValueError for pages, a table or kept slots that do not fit one another.
    """
    block = accepted_pages(pages).shape[2]
    accepted_table(table, pages[0].shape[1], length, block)
    order = np.sort(accepted_kept(kept, len(pages), length), axis=1)
    front = np.arange(order.shape[1])
    for layer, slots in zip(pages, order, strict=True):
        moved = np.flatnonzero(slots != front)
        _move(layer, rows(table, slots[moved], block), rows(table, moved, block))
    blocks = -(-front.size // block)
    return list(table[:blocks]), list(table[blocks:]), order


def _move(pages: torch.Tensor, source: np.ndarray, target: np.ndarray) -> None:
    """Copy rows of one layer; all sources are read before a target is written."""
    flat = pages.view(2, -1, *pages.shape[3:])
    source, target = (torch.as_tensor(r, device=pages.device) for r in (source, target))
    flat.index_copy_(1, target, flat.index_select(1, source))


def accepted_pages(pages: Sequence[torch.Tensor]) -> torch.Tensor:
    """The first layer's pages, after a check of them all."""
    first = pages[0]
    for layer, each in enumerate(pages):
        if each.ndim != 5 or each.shape[0] != 2 or not each.is_floating_point():
            raise ValueError(
                f"pages[{layer}] has shape {tuple(each.shape)} and type {each.dtype}; "
                "accepted: floats [2, N, block, H_k, d]."
            )
        if not each.is_contiguous():
            raise ValueError(f"pages[{layer}] is not contiguous; accepted: contiguous pages.")
        if (each.shape, each.dtype, each.device) != (first.shape, first.dtype, first.device):
            raise ValueError(
                f"pages[{layer}] is {tuple(each.shape)}, {each.dtype}, {each.device}; accepted: "
                f"as pages[0], {tuple(first.shape)}, {first.dtype}, {first.device}."
            )
    return first


def accepted_table(table: Sequence[int], total: int, length: int, block: int) -> None:
    numbers = np.asarray(table, dtype=np.int64)
    if numbers.size and not (0 <= numbers.min() and numbers.max() < total):
        raise ValueError(
            f"table spans {numbers.min()}..{numbers.max()}; accepted: blocks 0..{total - 1}."
        )
    if np.unique(numbers).size != numbers.size:
        raise ValueError("table names a block twice; accepted: each block once.")
    if numbers.size != -(-length // block):
        raise ValueError(
            f"table has {numbers.size} blocks; accepted: {-(-length // block)}, "
            f"for {length} slots of {block} a block."
        )


def accepted_kept(kept: Any, layers: int, length: int) -> np.ndarray:
    """`kept` as int64 [layers, n], n >= 1, without repeats. Raises ValueError."""
    try:
        kept = np.asarray(kept)
    except ValueError as error:  # lists of unequal length
        raise ValueError("kept has layers of unequal size; accepted: equally many each.") from error
    if kept.ndim != 2 or kept.shape[0] != layers or kept.dtype.kind not in "iu":
        raise ValueError(
            f"kept has shape {kept.shape} and type {kept.dtype}; accepted: integers "
            f"[{layers} layers, n]."
        )
    if not 1 <= kept.shape[1] <= length or kept.min() < 0 or kept.max() >= length:
        raise ValueError(
            f"kept {_span(kept)}; accepted: 1 to {length} slots a layer, 0..{length - 1}."
        )
    if (np.diff(np.sort(kept, axis=1), axis=1) == 0).any():
        raise ValueError("kept names a slot twice; accepted: each slot once a layer.")
    return kept.astype(np.int64)


def _span(kept: np.ndarray) -> str:
    spanned = f", in {kept.min()}..{kept.max()}" if kept.size else ""
    return f"has {kept.shape[1]} slots a layer{spanned}"


def accepted_entries(
    kind: int, given: torch.Tensor, pages: torch.Tensor, shape: tuple, finite: bool = True
) -> None:
    """Refuse `given` unless it is [R, H_k, q, d] for `shape` (R, q, H_k, d), of the pages' kind."""
    name, (requests, queries, heads, width) = ("keys", "values")[kind], shape
    accepted = (requests, heads, queries, width)
    if tuple(given.shape) != accepted:
        raise ValueError(f"{name} has shape {tuple(given.shape)}; accepted: {accepted}.")
    if given.dtype != pages.dtype or given.device != pages.device:
        raise ValueError(
            f"{name} is {given.dtype} on {given.device}; accepted: {pages.dtype} on "
            f"{pages.device}, as the cache."
        )
    if finite and not torch.isfinite(given).all():
        raise ValueError(f"{name} holds NaN or infinite entries; accepted: finite.")
