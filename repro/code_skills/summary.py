"""Sums over episodes, by task, mode and controller."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, median
from typing import Any

from repro.code_skills.menus import SKILLS

Z = 1.959963984540054  # two-sided 95 %


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share. Raises ValueError for n < 1."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"successes={successes} of n={n} is refused; accepted: 0..n, n >= 1.")
    share = successes / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe(a: int, n: int, b: int, m: int) -> tuple[float, float]:
    """Newcombe's 95 % interval of the difference a/n - b/m of two independent shares."""
    (low_a, high_a), (low_b, high_b) = wilson(a, n), wilson(b, m)
    p, q = a / n, b / m
    low = p - q - sqrt((p - low_a) ** 2 + (high_b - q) ** 2)
    return low, p - q + sqrt((high_a - p) ** 2 + (q - low_b) ** 2)


def summarise(episodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each (task, mode, controller, budgets), in the order of first appearance.

    zero_step_rate: share of decisions that cost no environment step. interrupted_rate: share that
    an interrupt ended. share_of_skill_decisions: share that chose a skill.
    """
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for episode in episodes:
        key = (episode["task"], episode["mode"], episode["controller"], *episode["budgets"])
        groups.setdefault(key, []).append(episode)
    return [_row(key, group) for key, group in groups.items()]


def _row(key: tuple, group: list[dict[str, Any]]) -> dict[str, Any]:
    actions = [action for episode in group for action in episode["actions"]]
    wins = sum(episode["success"] for episode in group)
    row = dict(zip(("task", "mode", "controller"), key, strict=False)) | {"budgets": list(key[3:])}
    row |= {
        "n": len(group),
        "success": wins / len(group),
        "wilson_95": list(wilson(wins, len(group))),
    }
    for name in ("decisions", "primitive_steps"):
        values = [episode[name] for episode in group]
        row |= {f"mean_{name}": mean(values), f"median_{name}": median(values)}
    total, mode = max(1, len(actions)), group[0]["mode"]
    skilled = sum(is_skill(mode, a["name"]) for a in actions)
    return row | {
        "zero_step_rate": sum(a["steps"] == 0 for a in actions) / total,
        "interrupted_rate": sum(a["status"] == "interrupted" for a in actions) / total,
        "share_of_skill_decisions": skilled / total,
    }


def is_skill(mode: str, name: str) -> bool:
    """Whether the menu entry `name` is a skill in this mode ("search" is a key in "primitives")."""
    return mode != "primitives" and name in SKILLS
