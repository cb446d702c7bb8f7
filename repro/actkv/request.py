"""One cached sequence: its two lengths, and which entries are where after evictions.

Entries are numbered by age, 0 the oldest. An eviction may permute the survivors of a layer over
the slots in front; `order` carries that permutation. What is appended later follows in order.
(arXiv 2609.31395; notes 4.3 and 4.5.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Request:
    """survivors [layers, n]: positions that the last eviction left, rising in each layer."""

    survivors: np.ndarray
    order: np.ndarray | None = None  # [layers, n] slot of the i-th oldest survivor; None: slot i
    since: int = 0  # logical length at that eviction
    logical: int = 0  # tokens seen; only grows

    @property
    def physical(self) -> int:
        """Entries cached."""
        return self.survivors.shape[1] + self.logical - self.since

    @property
    def next_position(self) -> int:
        """Where the next token stands: from the logical length, never from the physical one."""
        return self.logical

    def positions(self) -> np.ndarray:
        """Positions [layers, S] of the entries by age."""
        tail = np.arange(self.since, self.logical)
        return np.hstack([self.survivors, np.tile(tail, (len(self.survivors), 1))])

    def slots(self) -> np.ndarray:
        """Slots [layers, S] of the entries by age."""
        every = np.tile(np.arange(self.physical), (len(self.survivors), 1))
        if self.order is not None:
            every[:, : self.order.shape[1]] = self.order
        return every

    def keep(self, kept: np.ndarray, moved: np.ndarray) -> None:
        """Entries `kept` [layers, n], rising, survive; slot i now holds what slot moved[i] held."""
        age = np.take_along_axis(np.argsort(self.slots(), axis=1), moved, 1)  # by new slot
        order = np.argsort(age, axis=1)
        positions = np.take_along_axis(self.positions(), kept, 1)
        self.survivors, self.since = positions, self.logical
        self.order = None if (order == np.arange(order.shape[1])).all() else order


def placed(requests: Sequence[Request], valid: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Positions [R, q] of coming tokens, `valid` [R, q], and the slots [R, q, W] hidden from them.

    New tokens come last in their request, so a token sees all survivors, itself and the new ones
    before it. None: the plain causal mask will do, as nothing is padded and all are equally long.
    """
    rank, held = valid.cumsum(1) - 1, np.array([one.physical for one in requests])
    positions = np.array([one.next_position for one in requests])[:, None] + rank.clip(0)
    if valid.all() and (held == held[0]).all():
        return positions, None
    stops = held[:, None] + rank + 1
    return positions, np.arange(stops.max()) >= stops[..., None]
