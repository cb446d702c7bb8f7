"""What the latency notebook times: a dense model and two towers of the same layers, random weights.

Time does not depend on what the weights are, so nothing is trained and nothing here says anything
about quality. All arms have the same layers; they differ in how many there are, and where they run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro import accept
from repro.kite import flops, latency, stopwatch, variants
from repro.kite.config import Config
from repro.kite.model import SST
from repro.kite.past import Past
from repro.kite.stopwatch import Call, Lap

DENSE, TOWERS, EVERYWHERE, SOURCE = "dense", "SST", "SST, all positions", "source"
PREFILLED, DECODED = (DENSE, TOWERS, EVERYWHERE, SOURCE), (DENSE, TOWERS)


@dataclass(frozen=True)
class Arm:
    """A model and how its prompt runs. keep: as `SST.forward` takes it, 1 or None (everywhere)."""

    name: str
    model: SST
    keep: int | None = 1

    def prefill_flops(self, prompt: int) -> float:
        """Of a prompt of `prompt` tokens; attention skips the masked half."""
        last = self.keep is not None
        return flops.prefill(self.model.config, prompt, len(self.model.decoder), last)

    def decode_flops(self, context: int) -> float:
        """Of one token after `context` cached ones."""
        return flops.decode(self.model.config, context + 1, len(self.model.decoder))


def sizes(width: int, layers: int) -> Config:
    """A tower: heads of 64, a key-value head for four of them, as far as the width allows."""
    heads = max(1, accept.count("width", width) // 64)
    kv_heads = heads // 4 if heads % 4 == 0 else 1
    return Config(width=width, layers=layers, heads=heads, kv_heads=kv_heads)


def arms(config: Config, seed: int, where: Any = "cpu", kind: str = "fused") -> dict[str, Arm]:
    """The four arms of `config`: dense of twice the depth, SST last-only, SST at all positions,
    and the source, which has the Prefiller's layers only. bf16 on a GPU.
    """
    torch.manual_seed(seed)
    source = SST(config)
    towers = SST(config)
    towers.expand("random")
    dense = SST(dense_of(config))
    models = {DENSE: dense, TOWERS: towers, EVERYWHERE: towers, SOURCE: source}
    for model in (dense, towers, source):
        on_gpu = torch.device(where).type == "cuda"
        model.use_attention(kind).eval().to(where, torch.bfloat16 if on_gpu else torch.float32)
    return {name: Arm(name, model, keep(name)) for name, model in models.items()}


def dense_of(config: Config) -> Config:
    """The dense arm: equal layers, equal depth in all."""
    return latency.deep(config, config.layers)


def keep(name: str) -> int | None:
    """Positions at which an arm's upper part runs: the last one, or all of them (None)."""
    return None if name == EVERYWHERE else 1


def prompt_ids(config: Config, prompt: int, seed: int, where: Any = "cpu") -> Tensor:
    """Random tokens [1, prompt]."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocab, (1, prompt), generator=draw).to(where)


@torch.no_grad()
def prefilled(arm: Arm, ids: Tensor) -> tuple[Tensor, Past]:
    """A prompt as it is served: logits and cache."""
    return arm.model(ids, None, arm.keep)


def prefill_makers(
    arms: Mapping[str, Arm], ids: Tensor, variant: str = "served"
) -> dict[str, Callable[[], Call]]:
    """For each arm, what makes the call of a lap (`stopwatch.laps`): one prompt a call."""
    found = {}
    for name, arm in arms.items():
        if variant == "served":
            call = _prefilling(arm, ids)
        else:
            step = variants.Prefill(arm.model, ids.shape[1], arm.keep is not None)
            call = variants.variant(variant, step, ids)
        found[name] = lambda call=call: call
    return found


def decode_makers(
    arms: Mapping[str, Arm], ids: Tensor, variant: str = "served"
) -> dict[str, Callable[[], Call]]:
    """The same for one token a call, after the prompt `ids`.

    "served" continues a copy of the cache, made before the lap; the other variants write the same
    slot again and again.
    """
    found = {}
    for name, arm in arms.items():
        if variant == "served":
            found[name] = _Decoding(arm, ids)
        else:
            with torch.no_grad():
                kept = variants.Prefill(arm.model, ids.shape[1])(ids)[1]
            call = variants.variant(variant, variants.Decode(arm.model, kept), ids[:, -1:])
            found[name] = lambda call=call: call
    return found


def _prefilling(arm: Arm, ids: Tensor) -> Call:
    return lambda: prefilled(arm, ids)


class _Decoding:
    def __init__(self, arm: Arm, ids: Tensor):
        self.arm, self.ids, self.past = arm, ids[:, -1:], prefilled(arm, ids)[1]

    @torch.no_grad()
    def __call__(self) -> Call:
        """A lap's call: the first token, which makes room in the copy, is not timed."""
        past, model = self.past.copy(), self.arm.model
        model(self.ids, past, 1)

        @torch.no_grad()
        def call() -> Tensor:
            return model(self.ids, past, 1)[0]

        return call


def timed(
    makers: Mapping[str, Callable[[], Call]],
    repeats: int,
    lap_s: float,
    clock: stopwatch.Host | stopwatch.Cuda,
    most: int = 1000,
) -> dict[str, list[Lap]]:
    """Laps of every arm, each of about `lap_s` seconds of the first arm, at most `most` calls."""
    first = next(iter(makers.values()))
    count = stopwatch.calls_for(first(), lap_s, most, clock)
    return stopwatch.laps(makers, repeats, count, clock)


def row(laps: Mapping[str, Sequence[Lap]], below: str = TOWERS) -> dict[str, float]:
    """Dense over `below`: median of the ratios within a repeat by both clocks, and their range."""
    cpu, wall = (stopwatch.ratios(laps[DENSE], laps[below], c) for c in stopwatch.CLOCKS)
    low, high = cpu.min(), cpu.max()
    return {"cpu": np.median(cpu), "wall": np.median(wall), "low": low, "high": high}


def reached(arm: Arm, prompt: int, laps: Sequence[Lap], rate: float, basis: str) -> float:
    """Share of the ceiling `rate` that the arm's FLOPs reach at a prompt, in the median."""
    seconds = np.median([getattr(lap, basis) for lap in laps])
    return arm.prefill_flops(prompt) / seconds / rate
