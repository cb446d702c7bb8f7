"""ActKV (arXiv 2609.31395), Algorithm 1 at a fixed and Algorithm 2 at an adaptive budget.

    KS_t(i) = decay KS_{t-1}(i) + a_t(i) [i in H_t],  once a round;  keep = the best by KS

a_t: attention of round t's action tokens; `repro.actkv.eviction` has the details. The set is per
layer, and eviction comes only at the end of a round. The score is one a layer: no sets per head.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from repro.actkv import confidence, eviction
from repro.actkv.accept import count, one_of
from repro.actkv.policies.base import Keys, Policy, attention


@dataclass(kw_only=True)
class ActKV(Policy):
    """shared [U]: one set for all layers, by the mean of their attention, instead of one a layer.

    options: further arguments of `eviction.ActionLRFU`. Attribute `state`: one a layer, or `shared`
    the same one for all.
    """

    decay: float = 0.5
    mass: float = 0.9
    shared: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    trigger: ClassVar[str] = "round"
    phases: ClassVar[Sequence[str]] = ("action",)  # whose queries count

    def __post_init__(self):
        super().__post_init__()
        self.acted = False  # in the open round
        self.state = [
            eviction.ActionLRFU(self.decay, self.mass, self.protected, **self.options)
            for _ in range(1 if self.shared else self.layers)
        ]
        self.state *= self.layers if self.shared else 1

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        if phase in self.phases:
            self.acted = True
            self.state[layer].observe(attention(queries, keys).cpu().numpy())

    def select(self, length: int, budget: int, keys: Keys) -> np.ndarray:
        """Closes the round. With `prefix_in_budget`, [layers, budget] and the prefix among them."""
        budget, self.acted = self.allowance(length, budget), False
        if self.shared:
            return np.tile(self.state[0].step(length, budget), (self.layers, 1))
        return np.stack([state.step(length, budget) for state in self.state])

    def head_sets(self, length: int, budget: int, keys: Keys) -> np.ndarray:
        raise NotImplementedError("ActKV scores a slot, not a head; accepted: select.")


@dataclass(kw_only=True)
class AdaptiveActKV(ActKV):
    """Algorithm 2 sets the budget; the one given to `select` is ignored.

    start, upper: its range. ask [U]: Algorithm 2 is asked when entries have to go ("over"), or at
    the end of every round ("round"). monitor: further arguments of `confidence.next_budget`.
    sign: -1 negates what the monitor reads, the usual misreading of Algorithm 2.
    Attributes: `budget` (current), `decisions` (one each time it was asked).
    """

    start: int = 512
    upper: int = 30_000
    ask: str = "over"
    monitor: dict[str, Any] = field(default_factory=dict)
    sign: int = 1

    def __post_init__(self):
        super().__post_init__()
        one_of("ask", self.ask, ("over", "round"))
        self.budget, self.trace = count("start", self.start), np.zeros(0)
        self.decisions: list[confidence.BudgetDecision] = []
        self._raised_at = 0

    def note(self, values: Any) -> None:
        """Confidence of newly generated tokens (`confidence.to_confidence`), in order."""
        self.trace = np.concatenate([self.trace, self.sign * np.atleast_1d(values)])

    def allowance(self, length: int, budget: int) -> int:
        skipped = not self.acted and self.options.get("no_action", "skip") == "skip"
        over = length - self.protected > self.budget
        if not skipped and (over or self.ask == "round"):
            since = {"since": self._raised_at} if self.monitor.get("fit") == "since_raise" else {}
            made = confidence.next_budget(
                self.trace, self.budget, self.upper, **self.monitor, **since
            )
            self.decisions.append(made)
            self.budget = made.budget
            self._raised_at = self.trace.size if made.raised else self._raised_at
        return self.budget
