"""StreamingLLM (arXiv 2309.17453): attention sinks and a recent window.

    keep = {0 .. sink - 1} and the budget - sink newest

Here at true positions: the original caches unrotated keys and rotates them by their place in the
cache at every step, which is another method under another name (notes 6.2).
"""

from dataclasses import dataclass

import torch

from repro.actkv.accept import natural
from repro.actkv.policies.base import Keys, Policy, beyond


@dataclass(kw_only=True)
class StreamingLLM(Policy):
    """sink: of the budget. None: 0 under a protected prefix, which holds the sinks, else 4."""

    sink: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.sink = natural(
            "sink", (0 if self.protected else 4) if self.sink is None else self.sink
        )

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        beyond("sink", self.sink, budget)
        age = torch.arange(length, dtype=torch.float32)
        age[self.protected : self.protected + self.sink] = torch.inf
        return age[None]
