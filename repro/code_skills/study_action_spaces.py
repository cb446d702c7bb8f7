"""The comparison of three menus: paired episodes, success against decisions, gaps by cause."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from repro.code_skills import episode, pool
from repro.code_skills.episode import Spec

ARMS = (
    ("primitives", "random"), ("skills", "random"), ("mixed", "random"),
    ("primitives", "script"), ("skills", "script"), ("mixed", "script"),
)  # fmt: skip
Played = dict[tuple[str, str], list[dict[str, Any]]]  # arm -> episodes, tasks outer, seeds inner


def seeds(seed: int, episodes: int) -> list[int]:
    """Seeds of the episodes; those of different `seed` do not meet (for up to 1,000 episodes)."""
    return [1000 * seed + at for at in range(1, episodes + 1)]


def play(
    tasks: Sequence[str],
    numbers: Sequence[int],
    budget: int,
    arms: Sequence[tuple[str, str]] = ARMS,
    without: Sequence[str] = (),
    fault: str = "",
    ask: Callable[[Spec], Any] | None = None,
    decisions: int = 0,
) -> Played:
    """Episodes of every arm on every task and seed with `budget` steps and as many decisions.

    decisions: at most so many instead; 0: as many as steps. fault: planted in the child process.
    Raises ReproError with the first episode that is an error.
    """
    from repro.errors import ReproError

    specs = [
        Spec(
            f"MiniHack-{task}-v0", mode, controller, number, None, decisions or budget, budget,
            without=tuple(without),
        )
        for mode, controller in arms
        for task in tasks
        for number in numbers
    ]  # fmt: skip
    found = pool.play_all(specs, ask, "action_spaces", fault)
    if bad := next((e for e in found if e["error"]), None):
        raise ReproError(f"an episode of {bad['task']} is an error: {bad['error']}.")
    size = len(tasks) * len(numbers)
    return {arm: found[at * size : (at + 1) * size] for at, arm in enumerate(arms)}


def wins(played: Sequence[dict[str, Any]], decisions: int) -> np.ndarray:
    """1.0 where an episode had succeeded within so many decisions, [episodes]."""
    return np.array([float(episode.within(one, decisions)) for one in played])


def ladder(most: int) -> list[int]:
    """Decision budgets for a curve: 1, 2, 4, … and `most`."""
    return sorted({min(2**k, most) for k in range(12)})


def of_task(played: Sequence[dict[str, Any]], task: str) -> list[dict[str, Any]]:
    return [one for one in played if one["task"] == f"MiniHack-{task}-v0"]


def parts(found: dict[tuple[str, str], float]) -> dict[str, float]:
    """The gap between skills and keys, by what makes it; `found` has a success rate for each arm.

    menu: skills less keys, both by lot: nobody decides, so only the menu differs.
    rule: what a fixed rule adds on skills beyond the lot.
    dilution: mixed less skills, by lot: what keys beside the skills cost who cannot choose.
    """
    menu = found["skills", "random"] - found["primitives", "random"]
    whole = found["skills", "script"] - found["primitives", "random"]
    return {
        "menu": menu,
        "rule": whole - menu,
        "whole": whole,
        "dilution": found["mixed", "random"] - found["skills", "random"],
    }


def use(played: Sequence[dict[str, Any]], decisions: int) -> dict[str, float]:
    """Means an episode within so many decisions: decisions, steps, turns; share of free ones."""
    cut = [one["actions"][:decisions] for one in played]
    every = [action for actions in cut for action in actions]
    n = len(played)
    return {
        "decisions": sum(map(len, cut)) / n,
        "steps": sum(a["steps"] for a in every) / n,
        "turns": sum(a["turns"] for a in every) / n,
        "free": sum(a["steps"] == 0 for a in every) / max(1, len(every)),
        "interrupted": sum(a["status"] == "interrupted" for a in every) / max(1, len(every)),
    }
