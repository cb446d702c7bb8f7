"""The stopwatch on a device whose times are known: three field reports (notes 11.7 to 11.9)."""

import numpy as np

from repro.kite import stopwatch, variants
from repro.kite.fake_device import Device
from repro.kite.stopwatch import Call, Lap


def rows() -> list[tuple[str, str, str, str]]:
    """(device, true, by the stopwatch, by the mistake) of the three field reports, simulated."""
    ms, us = 1e-3, 1e-6

    def lap(device: Device, call: Call, count: int) -> Lap:
        return stopwatch.loop(call, count, stopwatch.Cuda(device, device.now, device.now))

    device = Device(dispatch=0.03 * ms)
    found = lap(device, device.kernel(1.36 * ms), 50)
    told = [("kernels of 1.36 ms, no wait", 1.36, found.wall / ms, found.host / ms, "ms")]
    device = Device(dispatch=2 * us, wait=47 * us)
    call = device.kernel(4 * us)
    each = np.mean([lap(device, call, 1).wall + device.wait for _ in range(5)])
    found = lap(device, call, 200)
    told.append(("kernels of 4 µs, a wait of 47 µs each", 4, found.wall / us, each / us, "µs"))
    device = Device(dispatch=98 * us)
    slow, quick = device.kernel(40 * us), device.kernel(8 * us)
    eager = lap(device, slow, 50).wall / lap(device, quick, 50).wall
    device.dispatch = 5 * us
    replayed = [lap(device, variants.Graph(call, device), 50).wall for call in (slow, quick)]
    ratio = replayed[0] / replayed[1]
    told.append(("40 µs against 8 µs, launches of 98 µs", 5, ratio, eager, "times"))
    return [(w, *(f"{x:.2f} {u}" for x in (true, a, b))) for w, true, a, b, u in told]
