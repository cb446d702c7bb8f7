"""SnapKV (arXiv 2404.14469): the newest queries vote on what they will need.

    a_h(i) = mean_{g in group h} pool( mean_{j in window} softmax(q_j^g k / sqrt d)_i ),  i older
    keep   = the window, and the best of the rest by a

pool: average over `kernel` neighbours, which keeps passages together. The original selects a set a
query head on expanded keys; the mean over the group, which commutes with the average, is kvpress's.
Made for the prompt; here the window is always the newest tokens, whoever wrote them.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import avg_pool1d

from repro.actkv.accept import count
from repro.actkv.policies.base import Keys, Policy, attention, beyond, forced, newest, observed


@dataclass(kw_only=True)
class SnapKV(Policy):
    """window, kernel: 32 and 5, the original's configuration (its class default is 64)."""

    window: int = 32
    kernel: int = 5

    def __post_init__(self):
        super().__post_init__()
        count("window", self.window)
        if count("kernel", self.kernel) % 2 == 0:
            raise ValueError(f"kernel={self.kernel} is refused; accepted: an odd number.")
        self.queries: list[torch.Tensor | None] = [None] * self.layers

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        self.queries[layer] = newest(self.queries[layer], queries, self.window)

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        window, stored = observed(self.queries[layer]), keys(layer)
        beyond("window", window.shape[1], budget)
        older = attention(window, stored)[..., : length - window.shape[1]].mean((1, 2))
        return forced(avg_pool1d(older, self.kernel, 1, self.kernel // 2), length)
