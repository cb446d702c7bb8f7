"""Next-byte training, the same for every arm: batches by step number, own schedule, AdamW anew.

The paper's recipe is not public. Batches depend on seed and step alone, so that all arms of a seed
see the same text in the same order for as long as each of them runs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from repro import accept
from repro.kite.model import SST


@dataclass(frozen=True)
class Recipe:
    """length T and batch B of a step; peak learning rate; warm-up and final share of it; fresh:
    a new batch at each step, otherwise the first one again and again; plain: no schedule, no
    clipping, AdamW's own betas, as in the public small run.
    """

    length: int = 128
    batch: int = 8
    rate: float = 2e-3
    warm: float = 0.05
    floor: float = 0.1
    fresh: bool = True
    plain: bool = False

    def __post_init__(self):
        accept.count("length", self.length, 2)
        accept.count("batch", self.batch)
        for name in ("rate", "warm", "floor"):
            accept.between(name, getattr(self, name), 0, 1, ends=True)


def batch(text: np.ndarray, step: int, seed: int, recipe: Recipe) -> torch.Tensor:
    """Windows [B, T + 1] of step `step`, at places drawn from `seed` and the step."""
    rng = np.random.default_rng([seed, step if recipe.fresh else 0])
    starts = rng.integers(0, len(text) - recipe.length, recipe.batch)
    return torch.from_numpy(text[starts[:, None] + np.arange(recipe.length + 1)].astype(np.int64))


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Linear warm-up, then a cosine to `floor` of the peak at the last of `steps` steps."""
    if recipe.plain:
        return recipe.rate
    warm = max(1, round(recipe.warm * steps))
    if step < warm:
        return recipe.rate * (step + 1) / warm
    turn = (step - warm) / max(1, steps - 1 - warm)
    return recipe.rate * (recipe.floor + (1 - recipe.floor) * (1 + math.cos(math.pi * turn)) / 2)


def train(
    model: SST, text: np.ndarray, steps: int, seed: int, recipe: Recipe, first: int = 0
) -> Iterator[int]:
    """Train for `steps` steps; yields after each the number done. New moments at the start.

    first: number of the first batch, so that a second stage goes on where the first one stopped.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    betas = (0.9, 0.999) if recipe.plain else (0.9, 0.95)
    optimiser = torch.optim.AdamW(parameters, recipe.rate, betas, fused=True)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, steps, recipe)
        seen = batch(text, first + step, seed, recipe).to(model.embedding.weight.device)
        loss(model, seen).mean().backward()
        if not recipe.plain:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield step + 1


def loss(model: SST, seen: torch.Tensor) -> torch.Tensor:
    """NLL [B, T] in nats of bytes 1..T of windows [B, T + 1]: score mode, all positions."""
    logits, _ = model(seen[:, :-1])
    target = seen[:, 1:]
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return each.view_as(target)


@torch.no_grad()
def evaluate(model: SST, windows: np.ndarray, size: int = 64) -> np.ndarray:
    """Mean NLL [...] of windows [..., T + 1], `size` at a time."""
    device = model.embedding.weight.device
    flat = torch.from_numpy(windows.reshape(-1, windows.shape[-1]).astype(np.int64)).to(device)
    found = [loss(model, piece).mean(-1).double().cpu().numpy() for piece in flat.split(size)]
    return np.concatenate(found).reshape(windows.shape[:-1])
