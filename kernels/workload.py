"""Random caches for a session: a pool of one layer, requests in shuffled blocks, their queries.

Keys, values and queries are standard normal; which slots survive is drawn at random. Real caches
differ in what they hold, which no kernel here looks at, and in how many rows a policy moves.

Dims: R requests, Q query heads, H KV heads, D head dim; N blocks of the pool, T slots of a block, P
blocks of a request, L layers.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch

from kernels.plan import Plan, plan
from kernels.session import Bench
from kernels.traffic import Geometry

BLOCK = 16


@dataclass(frozen=True)
class Work:
    """pool: [L, 2, N, T, H, D]. tables: sets of int32 [R, P], each of blocks of its own.
    lengths: int32 [R], slots in use.
    """

    pool: torch.Tensor
    tables: list[torch.Tensor]
    lengths: torch.Tensor
    geometry: Geometry

    def keys(self, layer: int = 0) -> torch.Tensor:
        return self.pool[layer, 0]

    def values(self, layer: int = 0) -> torch.Tensor:
        return self.pool[layer, 1]

    def queries(self, actions: int, seed: int = 1) -> torch.Tensor:
        """[R, A, Q, D]."""
        shape = (len(self.lengths), actions, self.geometry.q_heads, self.geometry.dim)
        made = torch.Generator(self.pool.device).manual_seed(seed)
        return torch.randn(shape, generator=made, device=self.pool.device).to(self.pool.dtype)

    def scores(self) -> torch.Tensor:
        """Zeros for `out` of score recovery, fp32 [R, H, P * T]."""
        shape = (len(self.lengths), self.geometry.heads, self.tables[0].shape[1] * BLOCK)
        return torch.zeros(shape, device=self.pool.device)


def work(
    bench: Bench,
    geometry: Geometry,
    lengths: list[int],
    sets: int = 1,
    layers: int = 1,
    dtype: str = "bfloat16",
    seed: int = 0,
) -> Work:
    """Requests of `lengths` slots in `layers` layers, `sets` times over for rotation."""
    width = ceil(max(lengths) / BLOCK)
    blocks = sets * len(lengths) * width
    made = torch.Generator(bench.where).manual_seed(seed)
    shape = (layers, 2, blocks, BLOCK, geometry.heads, geometry.dim)
    pool = torch.empty(shape, dtype=getattr(torch, dtype), device=bench.where)
    pool.normal_(generator=made)
    order = np.random.default_rng(seed).permutation(blocks).reshape(sets, len(lengths), width)
    tables = [torch.from_numpy(o.astype(np.int32)).to(bench.where) for o in order]
    held = torch.tensor(lengths, dtype=torch.int32, device=bench.where)
    return Work(pool, tables, held, geometry)


def again(made: Work, lengths: list[int], seed: int = 1) -> Work:
    """Other requests in the same pool. Raises MemoryError if they do not fit."""
    width, blocks = ceil(max(lengths) / BLOCK), made.pool.shape[2]
    needed = len(lengths) * width
    if needed > blocks:
        raise MemoryError(f"{needed} blocks; accepted: {blocks}, as the pool has")
    order = np.random.default_rng(seed).permutation(blocks)[:needed].reshape(-1, width)
    table = torch.from_numpy(order.astype(np.int32)).to(made.pool.device)
    held = torch.tensor(lengths, dtype=torch.int32, device=made.pool.device)
    return Work(made.pool, [table], held, made.geometry)


def draw_plans(
    lengths: list[int], survivors: list[int], prefix_blocks: int = 0, seed: int = 0
) -> list[Plan]:
    """One plan a request: `survivors` slots drawn at random, `prefix_blocks` kept in front."""
    rng, found, first = np.random.default_rng(seed), [], prefix_blocks * BLOCK
    for length, number in zip(lengths, survivors, strict=True):
        if not max(first, 1) <= number <= length:
            raise ValueError(
                f"survivors={number}; accepted: {max(first, 1)} … {length}, with the prefix."
            )
        keep = np.zeros(length, bool)
        keep[:first] = True
        keep[first + rng.choice(length - first, number - first, replace=False)] = True
        found.append(plan(keep, length, BLOCK, prefix_blocks))
    return found
