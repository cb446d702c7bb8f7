"""H2O (arXiv 2306.14048): heavy hitters, by the attention that all queries so far have paid.

    acc_h(i) = sum over queries j >= i of mean_{g in group h} softmax(q_j^g k / sqrt d)_i
    keep     = the recent newest, and the best of the rest by acc

The original is multi-head with a set a head; the mean over the query group is ours, as in kvpress.
Old entries have been seen by more queries: that bias is H2O's own. The sum moves along with the
survivors. (kvpress divides column i by the number of queries that saw it.)
"""

from dataclasses import dataclass

import numpy as np
import torch

from repro.actkv.accept import share
from repro.actkv.policies.base import Keys, Policy, attention, forced


@dataclass(kw_only=True)
class H2O(Policy):
    """recent: the recent entries' share of the budget; the paper splits it in halves."""

    recent: float = 0.5

    def __post_init__(self):
        super().__post_init__()
        share("recent", self.recent)
        self.sums: list[torch.Tensor | None] = [None] * self.layers  # [H_k, S] a layer

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        new = attention(queries, keys).sum(2).mean(1)
        old = self.sums[layer]
        if old is not None:
            new[:, : old.shape[1]] += old
        self.sums[layer] = new

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        sums = self.sums[layer]
        if sums is None or sums.shape[1] != length:
            seen = 0 if sums is None else sums.shape[1]
            raise ValueError(f"length={length} is refused; accepted: the {seen} entries observed.")
        return forced(sums[:, : length - int(self.recent * budget)], length)

    def carry(self, layer: int, kept: np.ndarray) -> None:
        if self.sums[layer] is not None:
            self.sums[layer] = self.sums[layer][:, torch.as_tensor(kept)]
