"""What has been seen of one level: terrain under things, visits, searches, doors, vain moves."""

from functools import cache

import numpy as np

from repro.code_skills import glyphs
from repro.code_skills.state import COLUMNS, ROWS, Frame

DOORS = (glyphs.OPEN, glyphs.CLOSED)


class LevelMemory:
    """Arrays [21, 79]: `terrain` int8 (last seen, also under a thing or creature), `visited` and
    `searched` int, `doors` bool (a door was ever seen there). `vain`: moves (from, to) that left
    the hero where he was.
    """

    def __init__(self) -> None:
        self.terrain = np.zeros((ROWS, COLUMNS), np.int8)
        self.visited = np.zeros((ROWS, COLUMNS), np.int32)
        self.searched = np.zeros((ROWS, COLUMNS), np.int32)
        self.doors = np.zeros((ROWS, COLUMNS), bool)
        self.vain: set[tuple[tuple[int, int], tuple[int, int]]] = set()

    def update(self, frame: Frame) -> None:
        """Take in one frame. A square that shows a thing keeps its terrain, or counts as floor."""
        shown = glyphs.terrain()[frame.glyphs]
        np.copyto(self.terrain, shown, where=shown != glyphs.NOTHING)
        self.terrain[(self.terrain == glyphs.NOTHING) & _solid()[frame.glyphs]] = glyphs.FLOOR
        if self.terrain[frame.at] in (glyphs.NOTHING, glyphs.CLOSED):
            self.terrain[frame.at] = glyphs.FLOOR
        self.doors |= (shown == glyphs.OPEN) | (shown == glyphs.CLOSED)
        self.visited[frame.at] += 1

    def known(self, kind: int) -> list[tuple[int, int]]:
        """Squares whose terrain is `kind`, by row."""
        return [(int(r), int(c)) for r, c in np.argwhere(self.terrain == kind)]


@cache
def _solid() -> np.ndarray:
    """bool by glyph: something that lies or stands on a floor."""
    return (glyphs.things() >= 0) | glyphs.creatures() | glyphs.pets()
