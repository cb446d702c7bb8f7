"""A skill: a precondition that makes no step, and what is done when it holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CAP = 48


@dataclass(frozen=True)
class Skill:
    """ready(bot) -> goal, raises Declined; run(bot, goal) -> (status, reason).

    says: one line for the menu. cap: environment steps one call may use. quiet: does not give way
    when a creature appears. family: for leaving out a whole group.
    """

    name: str
    family: str
    says: str
    ready: Callable[[Any], Any]
    run: Callable[[Any, Any], tuple[str, str]]
    cap: int = CAP
    quiet: bool = False
