"""Pictures of real episodes for the notebook on the skill library."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro import plots
from repro.code_skills import controllers, menus
from repro.code_skills.bot import Bot
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.results import SkillResult
from repro.code_skills.state import Frame


@dataclass(frozen=True)
class Shot:
    """One decision: the frame after it, and the squares that the hero went through."""

    name: str
    result: SkillResult
    frame: Frame
    trail: list[tuple[int, int]]


def film(
    task: str, mode: str, seed: int, names: Sequence[str] = (), most: int = 8, budget: int = 64
) -> list[Shot]:
    """Play `names`, or the script's choices, and keep every decision. First shot: the start."""
    engine = Engine(f"MiniHack-{task}-v0", budget)
    try:
        bot = Bot(engine, menus.menu(mode, "all" if names else "core"))
        bot.start(Seed(seed, seed))
        chosen = controllers.Listed(names) if names else controllers.Script(seed)
        start = SkillResult("ok", 0, 0, 0.0, "the start")
        shots = [Shot("start", start, bot.frame, [bot.frame.at])]
        for _ in range(len(names) or most):
            if engine.over or engine.steps >= budget:
                break
            before = len(bot.trail) - 1
            name = chosen.choose(bot)
            result = bot.call(name)
            shots.append(Shot(name, result, bot.frame, bot.trail[before:]))
        return shots
    finally:
        engine.close()


def box(shots: Sequence[Shot]) -> tuple[slice, slice]:
    """Rows and columns of all squares that any of the shots shows."""
    seen = np.any([shot.frame.chars != ord(" ") for shot in shots], axis=0)
    rows, columns = np.where(seen.any(1))[0], np.where(seen.any(0))[0]
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def draw(ax: Any, shot: Shot, where: tuple[slice, slice]) -> None:
    """The map of one shot: every sign as the game shows it, the hero's way as a line."""
    rows, columns = where
    size = min(9, 130 / max(rows.stop - rows.start, columns.stop - columns.start))
    for row in range(rows.start, rows.stop):
        for column in range(columns.start, columns.stop):
            sign = chr(shot.frame.chars[row, column])
            if sign != " ":
                ax.text(
                    column, row, sign, ha="center", va="center", fontsize=size, family="monospace"
                )
    way = np.array(shot.trail)
    ax.plot(way[:, 1], way[:, 0], color=plots.COLORS["blue"], linewidth=2, alpha=0.6)
    ax.plot(*way[0][::-1], "o", color=plots.COLORS["orange"], markersize=5, alpha=0.8)
    ax.plot(*way[-1][::-1], "s", color=plots.COLORS["red"], markersize=6, alpha=0.5)
    ax.set(
        xlim=(columns.start - 1, columns.stop), ylim=(rows.stop, rows.start - 1),
        xticks=[], yticks=[], aspect="equal",
    )  # fmt: skip
    ax.grid(False)
    result = shot.result
    ax.set_title(f"{shot.name}: {result.status}, {result.steps} steps", fontsize=9)


def lines(shots: Sequence[Shot]) -> list[list[Any]]:
    """One row a decision for a table: number, name, status, steps, turns, reason."""
    return [
        [at, f"`{s.name}`", s.result.status, s.result.steps, s.result.turns, s.result.reason or "–"]
        for at, s in enumerate(shots)
        if at
    ]
