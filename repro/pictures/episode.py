"""The same MiniHack level under three menus: one decision a step (arXiv 2609.31076).

Real NetHack (NLE 1.3.0, MiniHack 1.0.2) with a fixed seed; the level is the chapter's.
"""

import numpy as np

from repro import player
from repro.code_skills import controllers, menus
from repro.code_skills.bot import Bot
from repro.code_skills.engine import Engine, Seed
from repro.player import Cells, Frame

TASK, SEED, BUDGET = "MiniHack-Corridor-R3-v0", 6, 64
PLAYERS = {
    "skills, by a fixed rule": ("skills", "script", 8),
    "skills, by lot": ("skills", "random", 8),
    "keys, by lot": ("primitives", "random", BUDGET),
}


def make() -> player.Player:
    films = {name: _film(*how) for name, how in PLAYERS.items()}
    rows, columns = _box([shot[0] for film in films.values() for shot in film])
    tracks = {
        name: [Frame(told, _map(chars, trail, rows, columns)) for chars, trail, told in film]
        for name, film in films.items()
    }
    first = next(iter(films))
    return player.Player(
        title="One level, three menus",
        alt=f"Map of a NetHack level with rooms and corridors after the last decision of "
        f"'{first}', the hero's way marked. {films[first][-1][2]}",
        about=f"Played by the real game when this page was built: {TASK}, level of seed {SEED}, at "
        f"most {BUDGET} environment steps. One level is an example, not a comparison.",
        tracks=tracks,
        step="decision",
        choice="Who decides",
        legend={"hero": "the hero", "trail": "the way of this decision"},
    )


def _film(mode: str, controller: str, most: int) -> list[tuple]:
    """(signs uint8 [21, 79], trail of squares, words) at the start and after each decision."""
    engine = Engine(TASK, BUDGET)
    try:
        bot = Bot(engine, menus.menu(mode))
        bot.start(Seed(SEED, SEED))
        chosen = controllers.make(controller, SEED)
        film = [(bot.frame.chars, [bot.frame.at], "The start. No decision has been made.")]
        for number in range(1, most + 1):
            if engine.over or engine.steps >= BUDGET:
                break
            before, name = len(bot.trail) - 1, chosen.choose(bot)
            done = bot.call(name)
            told = f"Decision {number}, {name}: {done.status.replace('_', ' ')}"
            told += f" ({done.reason})" if done.reason else ""
            told += f". {engine.steps} of {BUDGET} environment steps used."
            if engine.over:
                told += " The goal is reached." if engine.success else " The episode is over."
            film.append((bot.frame.chars, bot.trail[before:], told))
        return film
    finally:
        engine.close()


def _box(shown: list) -> tuple[range, range]:
    """Rows and columns of all squares that any map shows."""
    seen = sum((chars != ord(" ")).astype(int) for chars in shown) > 0
    rows, columns = seen.any(1).nonzero()[0], seen.any(0).nonzero()[0]
    return range(rows[0], rows[-1] + 1), range(columns[0], columns[-1] + 1)


def _map(chars: np.ndarray, trail: list, rows: range, columns: range) -> Cells:
    """The map as cells: unbroken stretches of one kind in a line are one cell."""
    texts: list[str] = []
    kinds: list[str] = []
    way, hero = set(trail), trail[-1]
    for row in rows:
        for column in columns:
            at = (row, column)
            kind = "h" if at == hero else "t" if at in way else "p"
            sign = "@" if kind == "h" else chr(chars[at])
            sign = "·" if kind == "t" and sign == " " else sign  # a way through the dark
            if kinds and kinds[-1] == kind and not texts[-1].endswith("\n"):
                texts[-1] += sign
            else:
                texts.append(sign)
                kinds.append(kind)
        texts.append("\n")
        kinds.append("p")
    return Cells(tuple(texts), "".join(kinds), wrap=False)
