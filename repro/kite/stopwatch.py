"""Time calls so that their ratio can be believed: a loop a lap, arms in turn, ratios within a turn.

One call is too short to time, and waiting for the device after each would time the waiting
(flashinfer-bench issue 195). Not waiting at all gives impossible speed (mlx-benchmark PR 21). So a
lap is a loop of calls with one wait at its end. On a busy machine the wall clock also counts the
work of others; the process's own CPU time stands beside it. Notes, sections 8 and 11 (7 to 9).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro import accept

Call = Callable[[], object]
CLOCKS = ("cpu", "wall")


@dataclass(frozen=True)
class Lap:
    """Seconds a call. wall: until all work was done; cpu: of this process, all its threads;
    host: until the last call was enqueued, the device still working.
    """

    wall: float
    cpu: float
    host: float

    @property
    def launch_bound(self) -> bool:
        """The device waited for the host nearly all the time: its own speed was not measured."""
        return self.host > LAUNCH_BOUND * self.wall


LAUNCH_BOUND = 0.9  # share of the wall time that enqueueing took


class Host:
    """The clock of a CPU: a call is done when it returns."""

    now = staticmethod(time.perf_counter)
    cpu = staticmethod(time.process_time)

    def start(self) -> None:
        self._began = self.now(), self.cpu()

    def stop(self) -> Lap:
        """Seconds since `start`."""
        wall, cpu = self.now() - self._began[0], self.cpu() - self._began[1]
        return Lap(wall, cpu, 0.0)


class Cuda:
    """The clock of a GPU: an event before and after, and one wait for the second.

    cuda: `torch.cuda`, or what stands for it in a test; now and cpu: clocks of the host.
    """

    def __init__(self, cuda: Any = None, now: Call | None = None, cpu: Call | None = None):
        if cuda is None:
            from torch import cuda
        self.cuda, self.now, self.cpu = cuda, now or time.perf_counter, cpu or time.process_time

    def start(self) -> None:
        self.cuda.synchronize()
        self._first, self._last = (self.cuda.Event(enable_timing=True) for _ in range(2))
        self._began = self.now(), self.cpu()
        self._first.record()

    def stop(self) -> Lap:
        """Seconds since `start`: the device's own, from event to event."""
        self._last.record()
        host = self.now() - self._began[0]
        self.cuda.synchronize()
        wall = self._first.elapsed_time(self._last) / 1e3
        return Lap(wall, self.cpu() - self._began[1], host)


def loop(call: Call, count: int, clock: Host | Cuda) -> Lap:
    """Seconds a call of `count` calls in a row, with one wait at the end."""
    clock.start()
    for _ in range(count):
        call()
    found = clock.stop()
    return Lap(found.wall / count, found.cpu / count, found.host / count)


def warm(call: Call, count: int) -> None:
    """Calls that are not timed: compilation, caches, allocations."""
    for _ in range(count):
        call()


def turns(names: Sequence[str], repeats: int) -> Iterator[tuple[int, str]]:
    """(repeat, arm): all arms in every repeat, in reverse order in every second one."""
    for repeat in range(repeats):
        for name in names[:: (-1) ** repeat]:
            yield repeat, name


def laps(
    makers: Mapping[str, Callable[[], Call]],
    repeats: int,
    count: int,
    clock: Host | Cuda | None = None,
    warm_up: int = 1,
) -> dict[str, list[Lap]]:
    """`repeats` laps of `count` calls of each arm, in turn.

    makers: arm -> makes the call of one lap, untimed: a fresh cache for example. Raises
    BadParameter for counts below 1.
    """
    accept.count("repeats", repeats), accept.count("count", count)
    clock = Host() if clock is None else clock
    for make in makers.values():
        warm(make(), accept.count("warm_up", warm_up, least=0))
    found: dict[str, list[Lap]] = {name: [] for name in makers}
    for _, name in turns(list(makers), repeats):
        found[name].append(loop(makers[name](), count, clock))
    return found


def calls_for(
    call: Call, seconds: float, most: int = 1000, clock: Host | Cuda | None = None
) -> int:
    """How many calls a lap needs to last `seconds`, at most `most`; after one that is not timed."""
    warm(call, 1)
    one = loop(call, 1, Host() if clock is None else clock).wall
    return max(1, min(most, int(np.ceil(accept.positive("seconds", seconds) / max(one, 1e-9)))))


def ratios(above: Sequence[Lap], below: Sequence[Lap], clock: str = "cpu") -> np.ndarray:
    """`above` over `below`, repeat by repeat, so that a slow moment weighs on both."""
    accept.one_of("clock", clock, CLOCKS)
    return np.array(
        [getattr(a, clock) / getattr(b, clock) for a, b in zip(above, below, strict=True)]
    )
