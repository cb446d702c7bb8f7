"""Who decides: by lot, by a fixed rule, from a list, or somebody outside who answers a text.

A controller is made for one episode; `choose(bot)` gives the name of the next menu entry.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from repro.code_skills import glyphs
from repro.code_skills.state import MOVES, direction
from repro.errors import BadParameter

NAMES = ("random", "script", "lm")
RULE = ("goto_stairs", "explore", "open_door", "fight", "search")


class Random:
    """Uniform over the menu."""

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)

    def choose(self, bot) -> str:
        names = list(bot.menu)
        return names[self._rng.integers(len(names))]


class Script:
    """A fixed order of priorities over the skills; keys alone: towards stairs in view, else by lot.

    Fight what stands next to the hero; else the first of `RULE` whose precondition holds; else by
    lot. Preconditions are asked for free, which no other controller can do.
    """

    def __init__(self, seed: int):
        self._lot = Random(seed)

    def choose(self, bot) -> str:
        if not any(bot.menu.values()):
            return _toward_stairs(bot) or self._lot.choose(bot)
        if "fight" in bot.menu and bot.frame.next_to(bot.frame.hostiles) and bot.can("fight"):
            return "fight"
        for name in RULE:
            if name in bot.menu and bot.can(name):
                return name
        return self._lot.choose(bot)


class Listed:
    """The names of a list in order; raises IndexError after the last."""

    def __init__(self, names: Iterable[str]):
        self._names = iter(list(names))

    def choose(self, bot) -> str:
        for name in self._names:
            return name
        raise IndexError("the list of decisions is at its end")


class Asked:
    """Whoever answers `ask(text, menu)`: how a model in another process decides."""

    def __init__(self, ask: Callable[[str, list[str]], str]):
        self._ask = ask

    def choose(self, bot) -> str:
        from repro.code_skills import text

        return self._ask(text.observation(bot), list(bot.menu))


def make(name: str, seed: int, ask: Any = None) -> Any:
    """Raises BadParameter for an unknown name, or "lm" without somebody to ask."""
    if name == "random":
        return Random(seed)
    if name == "script":
        return Script(seed)
    if name == "lm" and ask is not None:
        return Asked(ask)
    raise BadParameter(f"controller={name!r} is not usable here; accepted: {', '.join(NAMES)}.")


def _toward_stairs(bot) -> str | None:
    """The move that brings the hero nearer to known stairs, as the crow flies."""
    if not (goals := bot.memory.known(glyphs.DOWN)):
        return None
    row, column = bot.frame.at
    down, right = goals[0][0] - row, goals[0][1] - column
    step = (int(down > 0) - int(down < 0), int(right > 0) - int(right < 0))
    return direction((0, 0), step) if step in MOVES.values() else None
