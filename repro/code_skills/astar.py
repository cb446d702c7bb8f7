"""Shortest ways on a level: A* with eight moves and NetHack's rules for doors."""

import heapq
from dataclasses import dataclass, field

import numpy as np

from repro.code_skills import glyphs
from repro.code_skills.memory import LevelMemory
from repro.code_skills.state import COLUMNS, MOVES, ROWS, Frame

TRAP_COST, PET_COST = 5, 1
_WALKED = (
    glyphs.FLOOR, glyphs.DOORWAY, glyphs.OPEN, glyphs.CORRIDOR, glyphs.UP, glyphs.DOWN,
    glyphs.ALTAR, glyphs.FOUNTAIN, glyphs.SINK, glyphs.ICE, glyphs.TRAP,
)  # fmt: skip
_ENTERED = np.isin(np.arange(len(glyphs.NAMES)), _WALKED)
Square = tuple[int, int]


@dataclass
class Grid:
    """What a plan needs, arrays [21, 79].

    free bool: squares that can be entered; cost int: extra cost of entering; straight bool: squares
    that are entered and left without diagonals. vain: moves (from, to) known to fail.
    """

    free: np.ndarray
    cost: np.ndarray
    straight: np.ndarray
    vain: set[tuple[Square, Square]] = field(default_factory=set)


def grid(frame: Frame, memory: LevelMemory, over_water: bool = False) -> Grid:
    """The grid of what is known now; `over_water`: water and lava carry the hero."""
    free = _ENTERED[memory.terrain]
    if over_water:
        free |= (memory.terrain == glyphs.WATER) | (memory.terrain == glyphs.LAVA)
    blocked = glyphs.creatures()[frame.glyphs] | glyphs.boulders()[frame.glyphs]
    blocked[frame.at] = False
    cost = TRAP_COST * (memory.terrain == glyphs.TRAP) + PET_COST * glyphs.pets()[frame.glyphs]
    return Grid(free & ~blocked, cost.astype(int), memory.doors, memory.vain)


def plan(grid: Grid, start: Square, goals: list[Square]) -> list[Square] | None:
    """Squares after `start` up to the cheapest goal; [] when there already, None without a way.

    A move costs 1 plus the cost of the square. The heuristic is the Chebyshev distance to the
    nearest goal; ties go to the first direction of `MOVES`, so a plan is the same every time.
    """
    if not goals:
        return None
    ends, rest = set(goals), _distance(goals)
    best, came = {start: 0}, {}
    heap, count = [(int(rest[start]), 0, start)], 0
    while heap:
        _, _, at = heapq.heappop(heap)
        if at in ends:
            way = []
            while at != start:
                way.append(at)
                at = came[at]
            return way[::-1]
        for to in steps(grid, at):
            paid = best[at] + 1 + int(grid.cost[to])
            if paid < best.get(to, 1 << 30):
                best[to], came[to], count = paid, at, count + 1
                heapq.heappush(heap, (paid + int(rest[to]), count, to))
    return None


def steps(grid: Grid, at: Square):
    """Squares that can be entered from `at`, in the order of `MOVES`."""
    for down, right in MOVES.values():
        to = (at[0] + down, at[1] + right)
        if not (0 <= to[0] < ROWS and 0 <= to[1] < COLUMNS and grid.free[to]):
            continue
        if down and right and not _diagonal(grid, at, to):
            continue
        if (at, to) not in grid.vain:
            yield to


def _diagonal(grid: Grid, at: Square, to: Square) -> bool:
    return not (grid.straight[at] or grid.straight[to])


def _distance(goals: list[Square]) -> np.ndarray:
    """Chebyshev distance of every square to the nearest goal, [21, 79]."""
    rows, columns = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None]
    found = np.full((ROWS, COLUMNS), ROWS + COLUMNS)
    for row, column in goals:
        found = np.minimum(found, np.maximum(abs(rows - row), abs(columns - column)))
    return found
