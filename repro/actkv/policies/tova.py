"""TOVA (arXiv 2401.06104): the newest query alone, averaged over all heads of the layer.

    a(i) = mean over all query heads of softmax(q k / sqrt d)_i,   q the newest query
    keep = the newest entry, and the best of the rest by a

Forcing the newest entry in is kvpress's addition.
"""

from dataclasses import dataclass

import torch

from repro.actkv.policies.base import Keys, Policy, attention, forced, newest, observed


@dataclass(kw_only=True)
class TOVA(Policy):
    """No parameter of its own."""

    def __post_init__(self):
        super().__post_init__()
        self.query: list[torch.Tensor | None] = [None] * self.layers

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        self.query[layer] = newest(None, queries, 1)

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        row = attention(observed(self.query[layer]), keys(layer)).mean((0, 1))
        return forced(row[:, : length - 1], length)
