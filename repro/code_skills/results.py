"""What a decision comes to, and the signals that end a skill early."""

from dataclasses import dataclass

STATUSES = ("ok", "interrupted", "not_applicable", "failed", "budget", "episode_over")


@dataclass(frozen=True)
class SkillResult:
    """One decision.

    status: one of `STATUSES`. steps: environment steps; turns: game turns; reward: sum of the
    environment's rewards inside the call. reason: why it ended, in words.
    """

    status: str
    steps: int
    turns: int
    reward: float
    reason: str


class Stop(Exception):
    """Ends the running skill: with `status` and `reason`."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


class Declined(Stop):
    """The skill's precondition does not hold; no step was made."""

    def __init__(self, reason: str):
        super().__init__("not_applicable", reason)


class EngineFault(Exception):
    """The game engine raised; the episode is an error, not a failed task."""
