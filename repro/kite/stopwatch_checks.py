"""What must hold of the stopwatch, on a device whose times are known (notes 11.7 to 11.9)."""

import numpy as np

from repro.kite import latency, stopwatch, variants
from repro.kite.fake_device import Device
from repro.kite.stopwatch import Lap

US, MS = 1e-6, 1e-3


def a_lap_waits_for_the_device() -> None:
    """Kernels of 1.36 ms that launch in 0.03 ms take 1.36 ms (report 7); 0.03 ms is impossible."""
    device = Device(dispatch=0.03 * MS)
    found = _loop(device, device.kernel(1.36 * MS), 20).wall
    assert abs(found - 1.36 * MS) < 0.005 * MS, f"{found * 1e3:.3f} ms a call, 1.36 ms are true"
    assert latency.impossible(0.03 * MS, 1e12 * 1.36 * MS, 1e12), "0.03 ms passes as possible"
    assert not latency.impossible(found, 1e12 * 1.3 * MS, 1e12), "a true time is called impossible"


def a_lap_waits_once() -> None:
    """Kernels of 4 us take 4 us, though a wait costs 47 us (report 8): one wait for all calls."""
    device = Device(dispatch=2 * US, wait=47 * US)
    found = _loop(device, device.kernel(4 * US), 200).wall
    assert 3.9 * US < found < 4.5 * US, f"{found * 1e6:.1f} us a call, 4 us are true"
    assert device.waits == 2, f"{device.waits} waits: one before the lap and one at its end"


def launch_bound_laps_are_told_and_a_graph_restores_the_ratio() -> None:
    """Launches of 98 us hide that 40 us are five times 8 us (report 9); replayed, it is five."""
    device = Device(dispatch=98 * US)
    calls = {"slow": device.kernel(40 * US), "quick": device.kernel(8 * US)}
    found = stopwatch.laps(_makers(calls), 2, 50, _clock(device))
    ratio = _median(found)
    assert ratio < 1.3, f"eager: {ratio:.2f}"
    assert all(lap.launch_bound for lap in (*found["slow"], *found["quick"])), "not told as bound"
    device.dispatch = 5 * US
    graphs = {name: variants.Graph(call, device) for name, call in calls.items()}
    found = stopwatch.laps(_makers(graphs), 2, 50, _clock(device))
    assert not any(lap.launch_bound for lap in (*found["slow"], *found["quick"])), "told as bound"
    assert abs(_median(found) - 5) < 0.2, f"replayed: {_median(found):.2f}"


def a_graph_is_warmed_up_captured_once_and_replayed() -> None:
    """Three calls on a side stream, one while it is captured, none afterwards."""
    device = Device()
    graph = variants.Graph(device.kernel(4 * US), device)
    graph(), graph()
    meet = ["streams meet"]
    wanted = [*meet, "side stream", *["call"] * 3, "main stream", *meet]
    wanted += ["capture", "call", "captured", "replay", "replay"]
    assert device.log == wanted, f"{device.log}"


def the_order_cancels_a_machine_that_slows_down() -> None:
    """Arms in turn, turned round: 1.9 stays 1.9 on a machine that slows down all the time."""
    device = Device(slower=0.002)
    calls = {"long": device.work(1.9), "short": device.work(1.0)}
    found = stopwatch.laps(_makers(calls), 6, 3, _host(device))
    assert device.time > 50, f"only {device.time:.0f} s passed"
    assert abs(_median(found) - 1.9) < 0.02, f"ratio {_median(found):.3f}, 1.9 is true"


def a_slow_moment_weighs_on_both() -> None:
    """Ratios are taken within a repeat, so that a repeat five times as slow changes none."""
    paces = (1, 5, 1, 2, 1, 3)
    above, below = ([Lap(0, x * pace, 0) for pace in paces] for x in (1.9, 1.0))
    found = stopwatch.ratios(above, below)
    assert np.allclose(found, 1.9), f"ratios {found.round(2)}"


def first_calls_are_not_timed() -> None:
    """A first call that takes a hundred times as long, as compiling does, is not in any lap."""
    device = Device()
    calls = {name: _first_slow(device, 1.0) for name in ("long", "short")}
    found = stopwatch.laps(_makers(calls), 2, 2, _host(device))
    seen = [lap.wall for each in found.values() for lap in each]
    assert np.allclose(seen, 1.0), f"seconds a call {seen}, 1 is true"


def a_lap_is_long_enough() -> None:
    """So many calls that a lap lasts what was asked for, and no more than allowed."""
    device = Device()
    found = [
        stopwatch.calls_for(device.work(0.004), 0.1, most, _host(device)) for most in (1000, 7)
    ]
    assert found == [25, 7], f"{found} calls of 4 ms for 100 ms"


def _loop(device: Device, call: stopwatch.Call, count: int) -> Lap:
    return stopwatch.loop(call, count, _clock(device))


def _clock(device: Device) -> stopwatch.Cuda:
    return stopwatch.Cuda(device, device.now, device.now)


def _host(device: Device) -> stopwatch.Host:
    clock = stopwatch.Host()
    clock.now = clock.cpu = device.now
    return clock


def _makers(calls: dict) -> dict:
    return {name: lambda call=call: call for name, call in calls.items()}


def _median(found: dict[str, list[Lap]]) -> float:
    above, below = found.values()
    return float(np.median(stopwatch.ratios(above, below, "wall")))


def _first_slow(device: Device, seconds: float) -> stopwatch.Call:
    state = {"first": True}

    def call() -> None:
        device.time += seconds * (100 if state.pop("first", False) else 1)

    return call


CHECKS = {
    check.__name__: check
    for check in (
        a_lap_waits_for_the_device,
        a_lap_waits_once,
        launch_bound_laps_are_told_and_a_graph_restores_the_ratio,
        a_graph_is_warmed_up_captured_once_and_replayed,
        the_order_cancels_a_machine_that_slows_down,
        a_slow_moment_weighs_on_both,
        first_calls_are_not_timed,
        a_lap_is_long_enough,
    )
}
