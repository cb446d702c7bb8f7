"""The update of `train.Training`, its batch shared out over ranks.

Every mean of the paper counts over the whole batch: answers for DCE, tokens of accepted rewrites
for SRCL (arXiv 2609.30652, Eq. 4 and section 3.2). So a rank's gradient is weighted by its own
count over the count of all ranks before the sum; a plain mean over ranks is another loss as soon as
counts differ. All ranks then take one and the same step.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd import balance, gates, means, paper_draws, prompts, rollout
from repro.recursive_opsd.arms import Arm, Settings
from repro.recursive_opsd.paper_group import Group
from repro.recursive_opsd.problems import Problem
from repro.recursive_opsd.train import Training

FAULTS = ("", "unreduced", "unweighted")  # reductions broken on purpose, for the comparison
SUMMED = (
    "ended",
    "generated_tokens",
    "dropped",
    "empty",
    "accepted_tokens",
    "trained_tokens",
    "scored_tokens",
    "forward_passes",
)


class Shared(Training):
    """A run of which this process is one rank; the batch of the settings is that of all ranks.

    fault: one of `FAULTS`. Raises BadParameter where the batch cannot be shared out evenly.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        arm: Arm,
        settings: Settings,
        problems: Sequence[Problem],
        wording: prompts.Wording,
        places: Callable[[str], gates.Places],
        group: Group,
        fault: str = "",
    ):
        if settings.batch % group.size:
            raise BadParameter(
                f"processes={group.size} is refused; accepted: a divisor of batch={settings.batch}."
            )
        super().__init__(model, tokenizer, arm, settings, problems, wording, places)
        self.group, self.fault = group, accept.one_of("fault", fault, FAULTS)

    def update(self) -> dict[str, Any]:
        """One step; its log is that of the whole batch, the same on every rank."""
        settings, arm = self.settings, self.arm
        batch = self._batch()
        asked = [prompts.student(self.tokenizer, p, self.wording).ids for p in batch]
        answers = paper_draws.write(
            self.model,
            self.tokenizer,
            asked,
            settings.most,
            settings.temperature,
            self._seeds(len(batch)),
            settings.top_p,
            settings.top_k,
        )
        texts = [self.tokenizer.decode(a.ids, skip_special_tokens=True) for a in answers]
        log: dict[str, Any] = dict.fromkeys(SUMMED, 0) | {
            "step": self.step,
            "ended": sum(a.ended for a in answers),
            "generated_tokens": sum(map(len, answers)),
            "leaked": rollout.leaked(texts),
            "answers": [list(a.ids) for a in answers],
        }
        total: list[Tensor | None] = [None] * len(self.parameters)
        if arm.guidance:
            found = self._guided(batch, asked, answers, log)
            total = balance.combined(total, found, (1.0, arm.guidance))
        if arm.supervised:
            found = self._supervised(batch, asked, log)
            total = balance.combined(total, found, (1.0, arm.supervised))
        if arm.concise:
            found = self._concise(batch, asked, answers, log)
            total = balance.combined(total, found, (1.0, self._weight(log)))
        self._move(total, log)
        return self._joined(log)

    def _batch(self) -> list[Problem]:
        """This rank's part of the whole batch, in order."""
        part = self.settings.batch // self.group.size
        return super()._batch()[part * self.group.rank : part * (self.group.rank + 1)]

    def _seeds(self, size: int) -> list[int]:
        """One a problem, by its place in the whole batch: the same for any number of ranks."""
        first = size * self.group.rank
        step = 1_000_003 * self.settings.seed + self.step
        return [step * self.settings.batch + first + i for i in range(size)]

    def _gradients(
        self, loss: Any, kept: list[int], targets: Any, name: str, log: dict[str, Any]
    ) -> list[Tensor | None]:
        """Gradients of the whole batch's loss, the same on every rank."""
        found = super()._gradients(loss, kept, targets, name, log)
        lengths = [len(targets[i]) for i in kept]
        own = sum(lengths) if name == "concise" else means.answered(lengths)
        whole = self.group.total(own)
        log[f"{name}_loss"] = self.group.total(own * log[f"{name}_loss"]) / max(1.0, whole)
        if whole:
            found = self._reduced(found, own / whole)
        log[f"{name}_norm"] = balance.norm(found)
        return found

    def _reduced(self, found: Sequence[Tensor | None], weight: float) -> list[Tensor | None]:
        """The weighted sum over ranks, as one message."""
        if self.fault == "unweighted":
            weight = 1 / self.group.size
        pairs = list(zip(found, self.parameters.values(), strict=True))
        flat = torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
        flat *= weight
        if self.fault != "unreduced":
            self.group.sum(flat)
        parts = flat.split([p.numel() for _, p in pairs])
        return [part.view_as(p) for part, (_, p) in zip(parts, pairs, strict=True)]

    def _weight(self, log: dict[str, Any]) -> float:
        log["accepted"] = int(self.group.total(log["accepted"]))
        return super()._weight(log)

    def _joined(self, log: dict[str, Any]) -> dict[str, Any]:
        """Counts summed and answers put together; what was reduced before stays."""
        parts = self.group.every({k: log[k] for k in (*SUMMED, "answers", "leaked")})
        joined = log | {name: sum(part[name] for part in parts) for name in SUMMED}
        joined["answers"] = [ids for part in parts for ids in part["answers"]]
        joined["leaked"] = sum(part["leaked"] for part in parts) / len(parts)
        if "reasons" in log:
            reasons: Counter[str] = Counter()
            for each in self.group.every(log["reasons"]):
                reasons.update(each)
            joined["reasons"] = dict(reasons)
        return joined
