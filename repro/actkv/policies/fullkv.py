"""FullKV: nothing is evicted. The upper bound on quality and on memory."""

from dataclasses import dataclass
from typing import ClassVar

from repro.actkv.policies.base import Policy


@dataclass(kw_only=True)
class FullKV(Policy):
    """Keeps everything, whatever the budget."""

    trigger: ClassVar[str] = "never"

    def allowance(self, length: int, budget: int) -> int:
        return length
