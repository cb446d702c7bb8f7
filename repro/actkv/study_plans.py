"""Plans of Algorithm 4 (arXiv 2609.31395) for the kernels notebook: drawn, carried out, pictured.

`kernels` is imported late: see `study_kernels.choose`. A planted fault can make a plan that cannot
be carried out; `Packed.problem` then says so.

Dims: S slots in use, B survivors, T slots of a block, Y = ⌈S/T⌉, c moved rows.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from repro import plots


def draw_keep(rng: np.random.Generator, length: int, survivors: int, kind: str) -> np.ndarray:
    """bool [S] with B survivors.

    kind: ``random`` (all sets alike), ``recent`` (the chance to stay grows linearly with the slot),
    ``newest`` or ``oldest`` B slots.
    """
    if kind in ("newest", "oldest"):
        return (np.arange(length) < survivors)[:: -1 if kind == "newest" else 1]
    weight = np.arange(1, length + 1) ** float(kind == "recent")
    keep = np.zeros(length, bool)
    keep[np.argsort(rng.exponential(size=length) / weight)[:survivors]] = True
    return keep


def moves(rng, length: int, survivors: int, block_size: int, draws: int, kind: str) -> np.ndarray:
    """c in each of `draws` plans, int [draws]."""
    from kernels import plan

    sets = (draw_keep(rng, length, survivors, kind) for _ in range(draws))
    return np.array([len(plan.plan(keep, length, block_size).src) for keep in sets])


def chance(length: int, survivors: int, block_size: int) -> tuple[float, float]:
    """Mean and standard deviation of c for a random set: a hypergeometric count.

    S - r of the S slots lie outside [lo, hi); c of the B survivors fall among them.
    """
    low = (ceil(length / block_size) - ceil(survivors / block_size)) * block_size
    outside = length - (min(low + survivors, length) - low)
    share, rest = outside / length, (length - survivors) / max(length - 1, 1)
    return survivors * share, (survivors * share * (1 - share) * rest) ** 0.5


@dataclass(frozen=True)
class Packed:
    """A plan carried out on slot numbers: int [Y T] before and after, -1 where nothing is kept."""

    plan: Any
    before: np.ndarray
    after: np.ndarray
    problem: str  # why the plan could not be carried out


def pack(keep: np.ndarray, block_size: int, prefix_blocks: int = 0) -> Packed:
    """Plan, then move slot numbers as the reference moves rows; the block table is 0, 1, 2, …"""
    from kernels import compaction, plan

    blocks, problem = ceil(len(keep) / block_size), ""
    found = plan.plan(keep, len(keep), block_size, prefix_blocks)
    slots = np.full(blocks * block_size, -1)
    slots[: len(keep)] = np.where(keep, np.arange(len(keep)), -1)
    cache = np.tile(slots.reshape(blocks, block_size, 1, 1), (1, 2, 1, 1, 1, 1))
    try:
        compaction.compact_reference(cache, np.arange(blocks)[None], [found])
    except ValueError as error:
        problem = str(error)
    after = np.full_like(slots, -1)
    after[found.slots] = cache[0, 0].ravel()[found.slots]
    return Packed(found, slots, after, problem)


def picture(packed: Packed, length: int) -> tuple[Any, str]:
    """Slots before and after, an arrow for each move; the figure and what it shows, in words."""
    from matplotlib import pyplot as plt

    size, moved = packed.plan.block_size, packed.plan
    fig, ax = plt.subplots(figsize=(7.2, 2.4))
    free = np.isin(np.arange(len(packed.after)) // size, moved.freed_blocks)
    rows = ((1, packed.before), (0, packed.after))
    for y, row in rows:
        for slot, name in enumerate(row):
            stays = name >= 0 and (y == 0 or slot not in moved.src)
            color = plots.COLORS["sky"] if stays else plots.COLORS["orange"] if name >= 0 else "1"
            arrived = y == 0 and slot in moved.dst
            color = plots.COLORS["orange"] if arrived else color
            unused = y == 1 and slot >= length
            hatch = "////" if y == 0 and free[slot] else "...." if unused else None
            box = plt.Rectangle(
                (slot, y), 1, 0.36, fc=color, ec="0.6", hatch=hatch, lw=0.8, zorder=2
            )
            ax.add_patch(box)
            if name >= 0:
                ax.text(slot + 0.5, y + 0.18, name, ha="center", va="center", fontsize=7, zorder=3)
        for edge in range(0, len(row) + 1, size):
            ax.plot([edge, edge], [y - 0.06, y + 0.42], color="black", lw=1.6, zorder=4)
    for a, b in zip(moved.src, moved.dst, strict=False):
        ends = dict(xy=(b + 0.5, 0.38), xytext=(a + 0.5, 0.98))
        ax.annotate("", **ends, arrowprops=dict(arrowstyle="->", lw=1, color=plots.COLORS["red"]))
    if len(moved.perm):
        for name, at in (("lo", moved.slots[0]), ("hi", moved.slots[-1] + 1)):
            ax.text(at, -0.1, name, ha="center", va="top", fontsize=9, style="italic")
    ax.set(xlim=(-0.2, len(packed.before) + 0.2), ylim=(-0.3, 1.5), xticks=[])
    ax.set_yticks([0.18, 1.18], ["after", "before"])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    pairs = ", ".join(f"{a} to {b}" for a, b in zip(moved.src, moved.dst, strict=False))
    alt = (
        f"{length} slots in blocks of {size}, before and after: {len(moved.perm)} survive, "
        f"{len(moved.src)} move ({pairs or 'none'}), blocks "
        f"{', '.join(map(str, moved.freed_blocks)) or 'none'} become free."
    )
    return fig, alt
