"""The ranks of a run and the few things that they say to each other.

`accelerate` opens the group (NCCL on GPUs, gloo on CPUs) from the environment that its own
launcher, torchrun and `paper_launch` set alike. A rank whose neighbour is gone raises PeerLost, so
that its end is not taken for the cause.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from repro.errors import BadParameter, ReproError

T = TypeVar("T")


class PeerLost(ReproError):
    """Another rank did not answer: it ended, or was silent for longer than the limit."""


@dataclass(frozen=True)
class Group:
    """rank: of this process, 0 to size - 1; device: where its model lives."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    def sum(self, values: Tensor) -> Tensor:
        """`values` summed over all ranks, in place."""
        if self.size > 1:
            self._said(lambda: dist.all_reduce(values))
        return values

    def total(self, number: float) -> float:
        """A number summed over all ranks."""
        return float(self.sum(torch.tensor(float(number), dtype=torch.float64, device=self.device)))

    def every(self, value: T) -> list[T]:
        """The value of each rank, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        self._said(lambda: dist.all_gather_object(found, value))
        return found

    def agree(self, what: str, value: Any) -> None:
        """Raises ReproError, naming ranks, unless `value` is the same on all of them."""
        found = self.every(value)
        if others := [rank for rank, each in enumerate(found) if each != found[0]]:
            named = ", ".join(map(str, others))
            raise ReproError(f"{what} of rank {named} is not that of rank 0.")

    def _said(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except RuntimeError as error:
            raise PeerLost(f"rank {self.rank} lost another rank.") from error


def open_group(processes: int, cpu: bool, timeout_s: float) -> Group:
    """The group that the environment describes (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_*).

    Raises BadParameter where it has not `processes` ranks: some launchers quietly start one alone.
    """
    accelerate: Any = importlib.import_module("accelerate")  # it ships no types
    state = accelerate.PartialState(cpu=cpu, timeout=timedelta(seconds=timeout_s))
    if state.num_processes != processes:
        raise BadParameter(
            f"processes={processes} is refused; accepted: the {state.num_processes} that run."
        )
    return Group(state.process_index, state.num_processes, state.device)


def close_group() -> None:
    """Leave the group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
