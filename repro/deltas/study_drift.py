"""What the drift notebook calls: drift of untrained delta layers over streams of known content."""

from dataclasses import dataclass

import numpy as np
import torch

from repro.deltas import delta, drift
from repro.errors import BadParameter

SPEEDS = {"slow": -4.0, "middle": -2.0, "fast": 0.5}  # ln of the mean rate of forgetting a token


@dataclass(frozen=True)
class Film:
    """A number a chunk, [C] each: drift, its writing and forgetting parts, mean residual, |S|."""

    drift: np.ndarray
    write: np.ndarray
    decay: np.ndarray
    residual: np.ndarray
    size: np.ndarray


def film(
    contents: list[int],
    speed: str,
    seed: int,
    tokens: int = 16,
    layers: int = 3,
    silent: bool = False,
) -> Film:
    """Read chunks through random layers; chunks with equal content are equal but for little noise.

    contents: a number a chunk. speed: how fast the layers forget, a name of `SPEEDS`. silent: no
    write gate opens. Raises BadParameter for another speed or fewer than two chunks.
    """
    if speed not in SPEEDS:
        raise BadParameter(f"speed={speed!r} is refused; accepted: {', '.join(SPEEDS)}.")
    if len(contents) < 2 or tokens < 1:
        raise BadParameter(f"{len(contents)} chunks of {tokens}; accepted: at least 2 chunks of 1.")
    g = torch.Generator().manual_seed(seed)
    heads, dim, width = 4, 16, 32
    scenes = torch.randn(max(contents) + 1, tokens, width, generator=g)
    maps = torch.randn(layers, 3, width, heads * dim, generator=g) / width**0.5
    rates = (SPEEDS[speed] + 0.5 * torch.randn(layers, heads, generator=g)).exp()
    states: list[torch.Tensor | None] = [None] * layers
    rows = []
    for content in contents:
        x = scenes[content] + 0.02 * torch.randn(tokens, width, generator=g)
        before = [torch.zeros(1, heads, dim, dim) if s is None else s for s in states]
        after, gates, committed = [], [], []
        for layer in range(layers):
            q, k, v = ((x @ m).view(1, tokens, heads, dim) for m in maps[layer])
            log_decay = -rates[layer].expand(1, tokens, heads)
            beta = torch.full((1, tokens, heads), 0.0 if silent and rows else 0.5)
            _, state, wrote = delta.chunked(q, k, v, log_decay, beta, before[layer])
            after.append(state), gates.append(log_decay), committed.append(wrote)
        rows.append(
            [
                drift.drift(before, after),
                drift.write_drift(before, after, gates),
                drift.decay_drift(before, gates),
                drift.residual(committed).mean(),
                torch.stack([s.norm() for s in after]).mean(),
            ]
        )
        states = after
    return Film(*np.array([[float(x) for x in row] for row in rows]).T)


def with_repeats(chunks: int, every: int = 8) -> tuple[list[int], np.ndarray]:
    """Every `every`-th chunk is new, others repeat it; labels: 0 repeat, 1 new, 2 first repeat."""
    contents = [c // every for c in range(chunks)]
    place = np.arange(chunks) % every
    return contents, np.select([place == 0, place == 1], [1, 2], 0)


def a_b_a(chunks: int, hold: int = 8) -> tuple[list[int], np.ndarray]:
    """Scenes A, B, A, B, ... each for `hold` chunks; labels: 0 stay, 1 first time, 2 return."""
    turns = np.arange(chunks) // hold
    cut = np.arange(chunks) % hold == 0
    return (turns % 2).tolist(), np.where(cut, np.where(turns < 2, 1, 2), 0)


def head_shares(size: float) -> tuple[float, float]:
    """Drift of a still head of size `size` and one of size 1 that turns over: pooled, apart."""
    before, after = torch.zeros(2, 1, 2, 2, 2)
    before[0, 0], before[0, 1], after[0, 0], after[0, 1] = size, 1.0, size, -1.0
    return tuple(drift.drift([before], [after], reduce).item() for reduce in drift.REDUCE)
