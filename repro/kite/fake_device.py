"""A device that works on its own while the host goes on, with a clock that stands still by itself.

It stands for `torch.cuda` in the checks: launching costs the host time, a kernel the device, a wait
both. What the field reports saw on real devices (notes 11.7 to 11.9) can so be computed exactly.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Device:
    """dispatch: seconds of the host for a launch; wait: for a synchronise; all times in seconds.

    slower: by which factor everything takes longer after every second of host time, so that the
    order of the arms matters.
    """

    def __init__(self, dispatch: float = 0.0, wait: float = 0.0, slower: float = 0.0):
        self.dispatch, self.wait, self.slower = dispatch, wait, slower
        self.time = self.free = 0.0
        self.waits = 0
        self.log: list[str] = []

    def now(self) -> float:
        """The host's clock."""
        return self.time

    def kernel(self, seconds: float, launches: int = 1) -> Callable[[], None]:
        """A call that launches `launches` kernels which take `seconds` of the device together."""

        def call() -> None:
            self.log.append("call")
            pace = 1 + self.slower * self.time
            for _ in range(launches):
                self.time += self.dispatch * pace
                self.free = max(self.free, self.time) + seconds * pace / launches

        return call

    def work(self, seconds: float) -> Callable[[], None]:
        """A call on the host itself."""

        def call() -> None:
            self.log.append("call")
            self.time += seconds * (1 + self.slower * self.time)

        return call

    def synchronize(self) -> None:
        self.waits += 1
        self.time = max(self.time, self.free) + self.wait

    def Event(self, enable_timing: bool = False) -> "Event":  # noqa: N802  (torch's name)
        return Event(self)

    def Stream(self) -> "Device":  # noqa: N802
        return self

    def current_stream(self) -> "Device":
        return self

    def wait_stream(self, other: "Device") -> None:
        self.log.append("streams meet")

    @contextmanager
    def stream(self, other: "Device") -> Iterator[None]:
        self.log.append("side stream")
        yield
        self.log.append("main stream")

    def CUDAGraph(self) -> "Captured":  # noqa: N802
        return Captured(self)

    @contextmanager
    def graph(self, graph: "Captured") -> Iterator[None]:
        """What is launched inside is kept and takes no time; a replay is one launch."""
        self.log.append("capture")
        time, free = self.time, self.free
        self.free = self.time
        slower, self.slower = self.slower, 0.0
        dispatch, self.dispatch = self.dispatch, 0.0
        yield
        graph.seconds = self.free - self.time
        self.slower, self.dispatch, self.time, self.free = slower, dispatch, time, free
        self.log.append("captured")


class Event:
    """A mark that the device passes when all before it is done."""

    def __init__(self, device: Device):
        self.device, self.at = device, 0.0

    def record(self) -> None:
        self.at = max(self.device.time, self.device.free)

    def elapsed_time(self, other: "Event") -> float:
        """Milliseconds from this mark to the `other`."""
        return 1e3 * (other.at - self.at)


class Captured:
    """The kernels of a graph: one launch each time."""

    def __init__(self, device: Device):
        self.device, self.seconds = device, 0.0

    def replay(self) -> Any:
        self.device.log.append("replay")
        self.device.time += self.device.dispatch
        self.device.free = max(self.device.free, self.device.time) + self.seconds
