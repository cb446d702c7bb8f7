"""How long work takes on a GPU: events around each call, buffers in rotation, the median.

A launch from Python costs the host tens of microseconds, often more than the kernel takes. So the
GPU is first told to wait while everything is enqueued: the time between the two events is then
the device's alone. Where the wait was too short the repetition is counted as late, and said so.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import torch

from kernels.session import Bench

REPEATS, WARM = 21, 3
Call = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds: median and quartiles on the device; host: median of enqueueing one call.

    late: repetitions in which the device started before all was enqueued, so that gaps between
    launches count too.
    """

    median: float
    low: float
    high: float
    host: float
    repeats: int
    late: int


def copies(bench: Bench, touched: int, held: int = 0, share: float = 0.35) -> int:
    """How many sets of buffers to rotate, so that what the calls touch is three times the L2 cache.

    touched: bytes that one call reads and writes. held: bytes of one set, if it is more. Raises
    MemoryError when one set takes more than `share` of the device's memory.
    """
    held, most = max(held, touched, 1), bench.memory * share
    if held > most:
        raise MemoryError(f"{held / 1e9:.1f} GB; accepted: {most / 1e9:.1f} GB on this device")
    return max(1, min(ceil(3 * bench.cache / max(touched, 1)), int(most // held), 64))


def timed(bench: Bench, calls: Sequence[Call], repeats: int = REPEATS, warm: int = WARM) -> Times:
    """Time `calls` in rotation: each does the same work on buffers of its own.

    The first `warm` calls (compilation among them) and those that measure the host do not count.
    """
    for i in range(max(warm, len(calls))):
        calls[i % len(calls)]()
    torch.cuda.synchronize()
    host = statistics.median(_enqueue(calls[i % len(calls)]) for i in range(3))
    device, hosts, late = [], [], 0
    for i in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        _hold(bench, 1.5 * host + 50e-6)
        start.record()
        began = time.perf_counter()
        calls[i % len(calls)]()
        hosts.append(time.perf_counter() - began)
        stop.record()
        late += bool(start.query())
        torch.cuda.synchronize()
        device.append(start.elapsed_time(stop) / 1e3)
    return summary(device, hosts, late)


def summary(device: Sequence[float], hosts: Sequence[float], late: int) -> Times:
    """`Times` of measured seconds on the device and on the host."""
    low, middle, high = statistics.quantiles(device, n=4, method="inclusive")
    return Times(middle, low, high, statistics.median(hosts), len(device), late)


def _enqueue(call: Call) -> float:
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    torch.cuda.synchronize()
    return took


def _hold(bench: Bench, seconds: float) -> None:
    """Keep the current stream busy. `torch.cuda._sleep` is not public: without it all is late."""
    sleep = getattr(torch.cuda, "_sleep", None)
    if sleep is not None:
        sleep(int(seconds * (bench.clock or 2e9)))
