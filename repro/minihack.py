"""MiniHack rooms (real NetHack) with actions by name and observations as text.

Engine: NLE 1.3.0 with MiniHack 1.0.2. A seed fixes a level and its luck. The engine runs in this
process, so a crash of it ends the process.
"""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from repro.errors import BadParameter, MissingAsset

MOVES = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
SEEN = {".": "floor", ">": "stairs", "<": "stairs up", "+": "door", "#": "corridor"}


@dataclass(frozen=True)
class View:
    """What is seen: chars [21, 79], the agent's (row, column), the game's message."""

    chars: np.ndarray
    at: tuple[int, int]
    message: str

    @property
    def stairs(self) -> tuple[int, int] | None:
        """(row, column) of the stairs down, if they are in view."""
        rows, columns = np.where(self.chars == ord(">"))
        return (int(rows[0]), int(columns[0])) if rows.size else None

    def text(self, reach: int = 2) -> str:
        """The view in words, with a map of `reach` squares around the agent."""
        row, column = self.at
        said = [f"You are at row {row}, column {column}."]
        if self.stairs:
            south, east = self.stairs[0] - row, self.stairs[1] - column
            parts = [f"{abs(south)} {'south' if south > 0 else 'north'}"] * bool(south)
            parts += [f"{abs(east)} {'east' if east > 0 else 'west'}"] * bool(east)
            said.append(f"Stairs: {' and '.join(parts) or 'here'}.")
        beside = (
            f"{name} {self._square(row + dy, column + dx)}" for name, (dy, dx) in MOVES.items()
        )
        said.append(f"Next to you: {', '.join(beside)}.")
        top, left = max(0, row - reach), max(0, column - reach)
        around = self.chars[top : row + reach + 1, left : column + reach + 1]
        said += ["Map:", *(" ".join(map(chr, line)) for line in around)]
        return "\n".join(said)

    def toward(self) -> list[str]:
        """Moves that bring the agent nearer to the stairs; empty where they are not in view."""
        if not self.stairs:
            return []
        gap = (self.stairs[0] - self.at[0], self.stairs[1] - self.at[1])
        return [name for name, (dy, dx) in MOVES.items() if dy * gap[0] > 0 or dx * gap[1] > 0]

    def _square(self, row: int, column: int) -> str:
        inside = 0 <= row < self.chars.shape[0] and 0 <= column < self.chars.shape[1]
        return SEEN.get(chr(self.chars[row, column]), "wall") if inside else "wall"


class Room:
    """One environment; `reset` starts a level, `step` takes a named move.

    Raises MissingAsset where nle or minihack is not installed.
    """

    actions: ClassVar[tuple[str, ...]] = tuple(MOVES)

    def __init__(self, name: str = "MiniHack-Room-Random-15x15-v0", most: int = 100):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of minihack, about pkg_resources
                import gymnasium
                import minihack  # noqa: F401  (registers the environments)
                from nle import nethack
        except ImportError as error:
            raise MissingAsset(
                f"{error.name} is not installed: pip install nle==1.3.0 minihack==1.0.2"
            ) from error
        try:
            self._env = gymnasium.make(
                name, observation_keys=("chars", "blstats", "message"), max_episode_steps=most
            )
        except gymnasium.error.Error as error:
            raise BadParameter(f"environment={name!r} is not known ({error}).") from error
        codes = [int(code) for code in self._env.unwrapped.actions]
        compass = {n: int(getattr(nethack.CompassDirection, n[0].upper())) for n in MOVES}
        self._code = {name: codes.index(code) for name, code in compass.items()}

    def reset(self, seed: int) -> View:
        """Start the level of `seed` (at least 1: the engine takes 0 for "by lot")."""
        if seed < 1:
            raise BadParameter(f"seed={seed} is refused; accepted: an integer >= 1.")
        self._seed(seed)
        seen, _ = self._env.reset()
        return _view(seen)

    def step(self, name: str) -> tuple[View, float, bool]:
        """(view, reward, episode over) after the move `name`."""
        if name not in self._code:
            raise BadParameter(f"action={name!r} is not known; accepted: {self.actions}.")
        seen, reward, ended, cut, _ = self._env.step(self._code[name])
        return _view(seen), float(reward), bool(ended or cut)

    def _seed(self, seed: int) -> None:
        """`reset(seed=…)` of NLE 1.3.0 is accepted and not applied, so the engine is seeded."""
        self._env.unwrapped.seed(seed, seed, reseed=False)

    def close(self) -> None:
        self._env.close()


def _view(seen: dict[str, Any]) -> View:
    column, row = (int(v) for v in seen["blstats"][:2])
    message = bytes(seen["message"]).rstrip(b"\0").decode("latin-1")
    return View(np.array(seen["chars"]), (row, column), message)
