"""One observation, copied and parsed. Squares are (row, column) in the 21 x 79 map."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repro.code_skills import glyphs

ROWS, COLUMNS = 21, 79
KEYS = (
    *("glyphs", "chars", "blstats", "message"),
    *("inv_strs", "inv_letters", "inv_oclasses"),
)
MOVES = {
    "north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1),
    "northeast": (-1, 1), "southeast": (1, 1), "southwest": (1, -1), "northwest": (-1, -1),
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One thing carried: inventory letter, class name of `glyphs.CLASSES`, the game's words."""

    letter: str
    kind: str
    name: str


@dataclass(frozen=True)
class Frame:
    """What the game shows after one step.

    glyphs int16 [21, 79], chars uint8 [21, 79], stats int64 [27] (NLE's bottom line), inventory
    arrays as NLE gives them. asks: whether the game waits for a single key, for a line of text,
    for a space.
    """

    glyphs: np.ndarray
    chars: np.ndarray
    stats: np.ndarray
    message_bytes: bytes
    carried: tuple[bytes, bytes, bytes]
    asks: tuple[bool, bool, bool]

    @cached_property
    def message(self) -> str:
        return self.message_bytes.partition(b"\0")[0].decode("latin-1")

    @property
    def prompt(self) -> bool:
        """Whether the next key answers a question instead of acting."""
        return any(self.asks)

    @property
    def at(self) -> tuple[int, int]:
        """The hero's square, from the bottom line: the picture may hide the hero."""
        return int(self.stats[1]), int(self.stats[0])

    @property
    def turn(self) -> int:
        return int(self.stats[20])

    @property
    def health(self) -> tuple[int, int]:
        """Hit points now and at most."""
        return int(self.stats[10]), int(self.stats[11])

    @property
    def level(self) -> tuple[int, int]:
        """(dungeon, level in it)."""
        return int(self.stats[23]), int(self.stats[24])

    @property
    def levitating(self) -> bool:
        from nle import nethack

        return bool(self.stats[25] & (nethack.BL_MASK_LEV | nethack.BL_MASK_FLY))

    @cached_property
    def hostiles(self) -> list[tuple[int, int, int]]:
        """(row, column, glyph) of every creature in view but the hero and pets, by row."""
        seen = glyphs.creatures()[self.glyphs]
        seen[self.at] = False
        return [(int(r), int(c), int(self.glyphs[r, c])) for r, c in np.argwhere(seen)]

    @cached_property
    def items(self) -> list[tuple[int, int, str]]:
        """(row, column, class) of every thing on the floor in view; no rocks."""
        kinds = glyphs.things()[self.glyphs]
        rock = glyphs.CLASSES.index("rock")
        found = np.argwhere((kinds >= 0) & (kinds != rock))
        return [(int(r), int(c), glyphs.CLASSES[kinds[r, c]]) for r, c in found]

    @cached_property
    def inventory(self) -> list[Item]:
        """What is carried, in the game's order."""
        strings, letters, kinds = self.carried
        width = len(strings) // len(letters)
        found = []
        for at, letter in enumerate(letters):
            if letter:
                name = strings[at * width : (at + 1) * width].partition(b"\0")[0].decode("latin-1")
                found.append(Item(chr(letter), _class(kinds[at]), name))
        return found

    def next_to(self, squares: list[tuple]) -> list[tuple]:
        """Those of `squares` (row, column, …) that touch the hero."""
        row, column = self.at
        return [s for s in squares if max(abs(s[0] - row), abs(s[1] - column)) == 1]

    @property
    def shown(self) -> bytes:
        """Map as signs, bottom line and message: what two equal games share."""
        return self.chars.tobytes() + self.stats.tobytes() + self.message_bytes.rstrip(b"\0")

    def hash(self) -> bytes:
        """Raw SHA-256 of `shown` and the glyphs."""
        return hashlib.sha256(self.shown + self.glyphs.tobytes()).digest()


def frame(observation: dict[str, Any], asks: Any) -> Frame:
    """A copy: NLE writes every observation into the same memory."""
    return Frame(
        observation["glyphs"].copy(),
        observation["chars"].copy(),
        observation["blstats"].copy(),
        observation["message"].tobytes(),
        (
            observation["inv_strs"].tobytes(),
            observation["inv_letters"].tobytes(),
            observation["inv_oclasses"].tobytes(),
        ),
        tuple(map(bool, asks)),
    )


def direction(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Name of the move from a square to one that touches it."""
    step = (end[0] - start[0], end[1] - start[1])
    return next(name for name, move in MOVES.items() if move == step)


def _class(code: int) -> str:
    from nle import nethack

    for name in glyphs.CLASSES:
        if (
            getattr(nethack, {"spellbook": "SPBOOK_CLASS"}.get(name, f"{name.upper()}_CLASS"))
            == code
        ):
            return name
    return "other"
