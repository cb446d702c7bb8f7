"""R-KV (arXiv 2505.24133): importance less redundancy, for long reasoning.

    I_h(j) = maxpool_7( mean_{r in window} softmax_{j older}( max_{g in h} q_r^g k_j / sqrt d ) )
    C_ij   = cos(k_i, k_j), C_ii = 0; in each row i the largest j with C_ij > 0.5 is set to 0 (none:
             column 0), so that the newest of near-duplicates is not punished
    R_h(j) = softmax_j( mean_i C_ij )
    keep   = the window, and the best of the rest by Z = mix I - (1 - mix) R

All in float32: R is close to 1/S and its ranking sensitive. C goes by row tiles, not S x S at once.
As in the authors' code (notes 6.3), which compresses every 128 tokens; here the common trigger.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import max_pool1d

from repro.actkv.accept import count, share
from repro.actkv.policies.base import Keys, Policy, beyond, forced, logits, newest, observed

TILE = 512


@dataclass(kw_only=True)
class RKV(Policy):
    """window 8, kernel 7, mix 0.07 and similar 0.5 are the defaults of the authors' code."""

    window: int = 8
    kernel: int = 7
    mix: float = 0.07
    similar: float = 0.5

    def __post_init__(self):
        super().__post_init__()
        count("window", self.window), share("mix", self.mix), share("similar", self.similar)
        if count("kernel", self.kernel) % 2 == 0:
            raise ValueError(f"kernel={self.kernel} is refused; accepted: an odd number.")
        self.queries: list[torch.Tensor | None] = [None] * self.layers

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        self.queries[layer] = newest(self.queries[layer], queries, self.window)

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        window, stored = observed(self.queries[layer]), keys(layer).float()
        beyond("window", window.shape[1], budget)
        older = length - window.shape[1]
        row = logits(window, stored, causal=False).amax(1)[..., :older].softmax(-1).mean(1)
        importance = max_pool1d(row, self.kernel, 1, self.kernel // 2)
        redundancy = mean_similarity(stored, self.similar).softmax(-1)[:, :older]
        return forced(self.mix * importance - (1 - self.mix) * redundancy, length)


def mean_similarity(keys: torch.Tensor, similar: float) -> torch.Tensor:
    """Mean over rows i of C_ij after its corrections: keys [H_k, S, d] -> [H_k, S]."""
    unit = keys / (keys.norm(dim=-1, keepdim=True) + 1e-8)
    heads, length, _ = keys.shape
    total, column = keys.new_zeros(heads, length), torch.arange(length, device=keys.device)
    for first in range(0, length, TILE):
        tile = unit[:, first : first + TILE] @ unit.transpose(1, 2)
        row = torch.arange(tile.shape[1], device=keys.device)
        tile[:, row, row + first] = 0
        last = torch.where(tile > similar, column, 0).amax(-1, keepdim=True)
        total += tile.scatter_(-1, last, 0.0).sum(1)
    return total / length
