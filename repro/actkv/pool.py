"""The pages of several requests: allocate, write, read, compact (notes 4.4 on arXiv 2609.31395).

Each request starts in its own equal share of the pool and takes the block after its last one while
it can. As long as all tables are such runs, evenly spaced, attention reads the pages in place;
otherwise every read gathers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro.actkv import paging
from repro.actkv.accept import count

Compact = Callable[..., tuple[list[int], list[int], np.ndarray]]


@dataclass(frozen=True)
class Window:
    """How to read the first `width` slots of each request: in place, or `source` rows [R, W]."""

    width: int
    start: int = 0  # first row of request 0
    stride: int = 0  # rows from one request to the next
    source: torch.Tensor | None = None


class Pool:
    """Pages [layers, 2, N, block, H_k, d] and block tables of `requests` sequences.

    shape: (layers, H_k, d). blocks: N, or None for a pool that grows: then old
    and new pages exist side by side for a moment. compact: a function of the signature of
    `paging.compact` that takes its place, such as one that launches a kernel.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        requests: int,
        blocks: int | None,
        block: int,
        dtype: torch.dtype,
        device: Any,
        compact: Compact | None = None,
    ):
        layers, heads, width = shape
        self._compact = compact
        self.block, self.fixed = count("block_size", block), blocks is not None
        total = count("blocks", blocks) if self.fixed else 8 * requests
        self.pages = torch.zeros(layers, 2, total, block, heads, width, dtype=dtype, device=device)
        self.blocks, self.peak_blocks = paging.Blocks(total), 0
        self.tables: list[list[int]] = [[] for _ in range(requests)]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: keys and values of all layers."""
        return self.pages[:, :, 0].numel() * self.pages.element_size()

    def counters(self) -> dict[str, int]:
        used, peak, size = self.blocks.in_use, self.peak_blocks, self.block_bytes
        return {
            "blocks": used,
            "bytes": used * size,
            "peak_blocks": peak,
            "peak_bytes": peak * size,
        }

    def provide(self, lengths: Sequence[int]) -> None:
        """Blocks for `lengths` [R] slots. Raises OutOfBlocks in a pool of fixed size."""
        needed = [-(-int(length) // self.block) for length in lengths]
        share = self.blocks.free.size // len(needed)
        if not self.fixed and max(needed) > share:
            self._grow(max(2 * share, *needed))
            share = self.blocks.free.size // len(needed)
        for request, (table, number) in enumerate(zip(self.tables, needed, strict=True)):
            while len(table) < number:
                table.append(self.blocks.take(table[-1] + 1 if table else request * share))
        self.peak_blocks = max(self.peak_blocks, self.blocks.in_use)

    def rows(self, request: int, first: int, stop: int) -> np.ndarray:
        """Rows of slots first..stop-1."""
        return paging.rows(self.tables[request], np.arange(first, stop), self.block)

    def window(self, lengths: np.ndarray) -> Window:
        """Of all requests, `lengths` [R] slots each; what lies beyond a length is for a mask."""
        width, tables = int(lengths.max()), [np.asarray(t, dtype=np.int64) for t in self.tables]
        if all(t.size and (np.diff(t) == 1).all() for t in tables):
            first = np.array([t[0] for t in tables])
            steps = np.unique(np.diff(first))
            last_row = first[-1] * self.block + width
            if steps.size <= 1 and last_row <= self.blocks.free.size * self.block:
                stride = int(steps[0]) * self.block if steps.size else 0
                if stride >= 0:
                    return Window(width, int(first[0]) * self.block, stride)
        slots = np.minimum(np.arange(width), np.maximum(lengths, 1)[:, None] - 1)
        source = [
            paging.rows(t if t.size else [0], s, self.block)
            for t, s in zip(tables, slots, strict=True)
        ]
        return Window(width, source=torch.as_tensor(np.stack(source), device=self.pages.device))

    def write(self, layer: int, kind: int, rows: torch.Tensor, entries: torch.Tensor) -> None:
        """Put `entries` [n, H_k, d] into `rows` [n]; kind 0: keys, 1: values."""
        self._flat(layer, kind).index_copy_(0, rows, entries)

    def read(self, layer: int, kind: int, window: Window) -> torch.Tensor:
        """[R, H_k, W, d] in slot order; a view if the window is in place."""
        flat = self._flat(layer, kind)
        if window.source is not None:
            return flat[window.source].transpose(1, 2)
        row, width = flat.stride(0), flat.shape[2]
        return flat.as_strided(
            (len(self.tables), flat.shape[1], window.width, width),
            (window.stride * row, width, row, 1),
            flat.storage_offset() + window.start * row,
        )

    def gather(self, layer: int, kind: int, rows: np.ndarray) -> torch.Tensor:
        """Entries [H_k, n, d] of `rows` [n]; a view where they follow one another."""
        flat = self._flat(layer, kind)
        if rows.size and (np.diff(rows) == 1).all():
            return flat[rows[0] : rows[-1] + 1].transpose(0, 1)
        return flat[torch.as_tensor(rows, device=flat.device)].transpose(0, 1)

    def compact(self, request: int, kept: np.ndarray, length: int) -> np.ndarray:
        """Keep slots `kept` [layers, n] of a request; the order [layers, n] of `paging.compact`."""
        compact = self._compact or paging.compact
        table, freed, order = compact(self.pages, self.tables[request], kept, length)
        self.release(freed)
        self.tables[request] = table
        return order

    def release(self, freed: Sequence[int]) -> None:
        """Give blocks back; after the copies that empty them are enqueued."""
        self.blocks.release(freed)

    def _flat(self, layer: int, kind: int) -> torch.Tensor:
        pages = self.pages[layer][kind]
        return pages.view(-1, *pages.shape[2:])

    def _grow(self, share: int) -> None:
        """Move every request into a run of its own, in a pool of `share` blocks a request."""
        old, total = self.pages, share * len(self.tables)
        self.pages = old.new_zeros(*old.shape[:2], total, *old.shape[3:])
        for request, table in enumerate(self.tables):
            first = request * share
            self.pages[:, :, first : first + len(table)] = old[:, :, table]
        self.blocks = paging.Blocks(total)
        for request, table in enumerate(self.tables):
            table[:] = range(request * share, request * share + len(table))
            self.blocks.free[table] = False
