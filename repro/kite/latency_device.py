"""What a device allows: its variants, its clock, its ceiling, and the launches of a call."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro import accept
from repro.kite import latency, stopwatch, variants
from repro.kite.stopwatch import Call, Lap

MARGIN = 1.2  # the rate of a plain product is itself measured, and no peak


def variants_for(where: torch.device, asked: str) -> list[str]:
    """The variants of a list such as "served, eager"; "auto": served on a CPU, the others on a GPU.

    Raises BadParameter for one that the device does not have.
    """
    gpu = where.type == "cuda"
    if asked == "auto":
        return ["eager", "compiled", "graph"] if gpu else ["served"]
    accepted = variants.NAMES[1:] if gpu else variants.NAMES[:-1]
    return [accept.one_of("variants", part.strip(), accepted) for part in asked.split(",")]


def clock_for(where: torch.device) -> stopwatch.Host | stopwatch.Cuda:
    """The host's clock for a CPU, events for a GPU."""
    return stopwatch.Cuda() if where.type == "cuda" else stopwatch.Host()


def product_rate(
    where: torch.device, clock: stopwatch.Host | stopwatch.Cuda, basis: str, repeats: int = 5
) -> float:
    """FLOP/s of a plain matrix product on this device, in the arms' number format: the ceiling."""
    side, kind = (8192, torch.bfloat16) if where.type == "cuda" else (1024, torch.float32)
    a = torch.ones(side, side, device=where, dtype=kind)
    laps = stopwatch.laps({"product": lambda: lambda: a @ a}, repeats, 1, clock)["product"]
    return 2 * side**3 / min(getattr(lap, basis) for lap in laps)


def launched(call: Call, variant: str) -> int:
    """Operations of a call, or kernels on a GPU; 0 where neither can be counted."""
    if torch.cuda.is_available():
        return kernels(call)
    return dispatched(call) if variant in ("served", "eager") else 0


def dispatched(call: Call) -> int:
    """Operations of one call that PyTorch dispatches, views left out: about its kernel launches."""
    with _Counting() as seen:
        call()
    return seen.count


class _Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        out = function(*args, **(kwargs or {}))
        returns = function._schema.returns
        view = returns and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        self.count += not view
        return out


def kernels(call: Call) -> int:
    """CUDA kernels of one call, from PyTorch's profiler; 0 where there is no GPU."""
    if not torch.cuda.is_available():
        return 0
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return sum(e.count for e in seen.key_averages() if str(e.device_type).endswith("CUDA"))


def told_bound(laps: Mapping[str, Sequence[Lap]], where: torch.device) -> str:
    """How many laps were bound by launches; a CPU's call is done when it returns."""
    if where.type == "cpu":
        return "not told apart on a CPU"
    every = [lap.launch_bound for each in laps.values() for lap in each]
    return f"{sum(every)} of {len(every)} laps"


def told_speed(shares: Sequence[float]) -> str:
    """Whether a time was impossibly short: clearly more FLOP/s than a plain matrix product."""
    if over := [share for share in shares if latency.impossible(1.0, share, MARGIN)]:
        return f"**An error**: {len(over)} times are shorter than a plain matrix product allows."
    return "No time is shorter than a plain matrix product's FLOP/s allow."


def told_variants(where: torch.device, ran: Sequence[str]) -> str:
    """Which variants ran, and which did not."""
    missing = [name for name in variants.NAMES if name not in ran]
    said = f"Ran on {where.type}: {', '.join(ran)}. "
    if not missing:
        return said
    said += f"**Not run here**: {', '.join(missing)}."
    if "graph" in missing and where.type == "cpu":
        said += " A CUDA graph needs a CUDA device; its capture is checked on a simulated one."
    return said
