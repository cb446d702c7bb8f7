"""Random keep: a control. What any selection has to beat at the same budget."""

from dataclasses import dataclass

import numpy as np
import torch

from repro.actkv.policies.base import Keys, Policy


@dataclass(kw_only=True)
class RandomKeep(Policy):
    """Every unprotected entry has the same chance at every eviction, in each layer by itself."""

    seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        self.rng = np.random.default_rng(self.seed)

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        return torch.as_tensor(self.rng.random((1, length)))
