"""Train the small hybrid on streaming recall, with the full cache and without any eviction."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from repro.deltas import streams
from repro.deltas.hybrid import SmallHybrid


@dataclass(frozen=True)
class Stage:
    """`steps` updates on `batch` streams of `frames` frames with `objects` objects."""

    steps: int
    batch: int
    frames: int
    objects: int


@dataclass(frozen=True)
class Plan:
    """Short streams first, where recall is found soon, then streams of the length under test."""

    short: Stage = Stage(150, 16, 12, 6)
    long: Stage = Stage(40, 8, 104, 20)
    rate: float = 4e-3
    kinds: tuple[str, ...] = tuple(streams.KINDS)


def fit(world: streams.World, plan: Plan, seed: int) -> tuple[SmallHybrid, list[float]]:
    """A trained model and its loss at every step. All questions follow the last frame.

    The seed draws the weights and the streams; the codes of `world` are given.
    """
    torch.manual_seed(seed)
    model = SmallHybrid(world.keys.shape[1], len(world.values))
    losses = list(_steps(model, world, plan, seed))
    return model.eval().requires_grad_(False), losses


def _steps(model, world, plan, seed) -> Iterator[float]:
    optimizer = torch.optim.AdamW(model.parameters(), plan.rate, betas=(0.9, 0.98))
    total = plan.short.steps + plan.long.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / 20, max(0.05, 1 - s / total))
    )
    for step in range(total):
        stage = plan.short if step < plan.short.steps else plan.long
        kind = plan.kinds[step % len(plan.kinds)]
        seen = streams.draw(
            world, 10**6 * (seed + 1) + step, stage.batch, stage.frames, stage.objects, kind
        )
        inputs = torch.cat([seen.frames.flatten(1, 2), seen.questions], 1)
        positions = torch.arange(inputs.shape[1]).expand(stage.batch, -1)
        logits = model.open(stage.batch).forward(inputs, positions).logits
        told = logits[:, -stage.objects :]
        loss = F.cross_entropy(told.flatten(0, 1), seen.answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()
