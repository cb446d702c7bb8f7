"""Which weights the teacher has: the student's own, moved at every step, slower, or never.

The main form needs no second model: teacher and student are one module, and the teacher pass of a
step runs on the weights before that step's update (arXiv 2609.30652, section 3; Eq. 9 for EMA).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd import scoring

SCHEDULES = ("live", "frozen", "ema", "periodic")


class Teacher:
    """The teacher's weights beside a student `model`.

    schedule: ``live`` (no copy), ``frozen`` at the start, ``ema`` (T <- d T + (1 - d) S after each
    step) or ``periodic`` (a copy after every `every` optimiser steps, constant in between).
    Only trained parameters are kept, so with LoRA the copy is the adapter, and a frozen teacher is
    the network with the adapter as it started.
    """

    def __init__(self, model: Any, schedule: str = "live", decay: float = 0.7, every: int = 10):
        self.schedule = accept.one_of("schedule", schedule, SCHEDULES)
        self.decay = accept.between("decay", decay, 0, 1, ends=True)
        self.every = accept.count("every", every)
        self.steps = 0
        self._student = scoring.trainable(model)
        self._model = model
        self._held = {} if schedule == "live" else self._copy()

    @contextmanager
    def weights(self) -> Iterator[Any]:
        """The module with the teacher's weights, no gradients, no dropout; restored afterwards."""
        with torch.no_grad(), scoring.without_dropout(self._model):
            self._swap()
            try:
                yield self._model
            finally:
                self._swap()

    def after_step(self) -> None:
        """Call once after every optimiser step."""
        self.steps += 1
        if self.schedule == "ema":
            self._held = averaged(self._held, self._student, self.decay)
        elif self.schedule == "periodic" and self.steps % self.every == 0:
            self._held = self._copy()

    def state(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"schedule": self.schedule, "steps": self.steps, "held": dict(self._held)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up a `state`; raises BadParameter when it is of another schedule or model."""
        if state["schedule"] != self.schedule or state["held"].keys() != self._held.keys():
            raise BadParameter(
                f"teacher state of schedule {state['schedule']!r} is refused; accepted: "
                f"{self.schedule!r} of the same parameters."
            )
        self.steps = state["steps"]
        self._held = {name: held.clone() for name, held in state["held"].items()}

    def _swap(self) -> None:
        for name, held in self._held.items():
            parameter = self._student[name]
            parameter.data, self._held[name] = held, parameter.data

    def _copy(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self._student.items()}


def averaged(
    teacher: Mapping[str, Tensor], student: Mapping[str, Tensor], decay: float
) -> dict[str, Tensor]:
    """decay * teacher + (1 - decay) * student, name by name (2609.30652, Eq. 9)."""
    return {
        name: decay * held + (1 - decay) * student[name].detach() for name, held in teacher.items()
    }
