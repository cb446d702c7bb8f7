"""Field reports 7 to 9 of the notes, section 11, on a device whose times are known; one test each.

And the steps for a GPU, as far as they can be tried without one.
"""

import numpy as np
import pytest
import torch

from repro.errors import BadParameter
from repro.kite import latency, stopwatch, study_latency, variants
from repro.kite.config import Config
from repro.kite.fake_device import Device
from repro.kite.latency_checks import PROMPT, TINY
from repro.kite.model import SST
from repro.kite.stopwatch_checks import MS, US
from repro.kite.tiny import near


def watch(device: Device) -> stopwatch.Cuda:
    return stopwatch.Cuda(device, device.now, device.now)


def test_report_7_without_a_wait_the_speed_is_impossible_mlx_benchmark_21():
    device = Device(dispatch=0.03 * MS)
    call = device.kernel(1.36 * MS)
    began = device.now()
    for _ in range(20):
        call()
    unwaited = (device.now() - began) / 20
    assert unwaited == pytest.approx(0.03 * MS)
    waited = stopwatch.loop(call, 20, watch(device))
    assert waited.wall == pytest.approx(1.36 * MS, rel=0.01)
    assert waited.host == pytest.approx(0.03 * MS) and not waited.launch_bound
    peak, work = 1e12, 1e12 * 1.3 * MS
    assert latency.impossible(unwaited, work, peak) and not latency.impossible(
        1.36 * MS, work, peak
    )


def test_report_8_a_wait_each_call_inflates_a_quick_kernel_flashinfer_bench_195():
    device = Device(dispatch=2 * US, wait=47 * US)
    call = device.kernel(4 * US)
    began = device.now()
    for _ in range(50):
        call()
        device.synchronize()
    assert (device.now() - began) / 50 == pytest.approx(53 * US)  # 51 us where it was seen
    before = device.waits
    assert stopwatch.loop(call, 200, watch(device)).wall == pytest.approx(4 * US, rel=0.01)
    assert device.waits == before + 2


def test_report_9_launches_hide_a_difference_and_a_graph_shows_it_helion_2803():
    device = Device(dispatch=98 * US)
    kernels = {"before": device.kernel(40 * US), "after": device.kernel(8 * US)}
    laps = {n: [stopwatch.loop(call, 50, watch(device))] for n, call in kernels.items()}
    assert stopwatch.ratios(laps["before"], laps["after"], "wall")[0] < 1.3
    assert all(each[0].launch_bound for each in laps.values())
    device.dispatch = 5 * US
    for name, call in kernels.items():
        laps[name] = [stopwatch.loop(variants.Graph(call, device), 50, watch(device))]
    assert stopwatch.ratios(laps["before"], laps["after"], "wall")[0] == pytest.approx(5, rel=0.02)
    assert not any(each[0].launch_bound for each in laps.values())


def test_a_gpu_always_has_a_variant_without_launches():
    from repro.kite import latency_device

    ran = latency_device.variants_for(torch.device("cuda"), "auto")
    assert {"compiled", "graph"} <= set(ran)


@pytest.mark.parametrize("name", study_latency.DECODED)
def test_steps_compile_without_a_break_and_give_the_same(name):
    """Traced in full, run by PyTorch: no decision on the host is left in the step."""
    torch._dynamo.reset()
    arm = study_latency.arms(TINY, 5)[name]
    ids = study_latency.prompt_ids(TINY, PROMPT, 5)
    step = variants.Prefill(arm.model, PROMPT, arm.keep is not None)
    logits, kept = variants.variant("compiled", step, ids, backend="eager")()
    expected, past = study_latency.prefilled(arm, ids)
    near(logits, expected[:, -1], "prompt")
    token = variants.variant(
        "compiled", variants.Decode(arm.model, kept), ids[:, :1], backend="eager"
    )
    token()
    with torch.no_grad():
        near(token(), arm.model(ids[:, :1], past, 1)[0][:, 0], "token")


def test_a_graph_replays_into_its_own_output():
    device, seen = Device(), []
    graph = variants.Graph(lambda: (seen.append(1), "output")[1], device)
    assert len(seen) == variants.WARM + 1
    assert [graph() for _ in range(3)] == ["output"] * 3
    assert len(seen) == variants.WARM + 1  # a replay does not run the Python again


def test_steps_run_in_bf16():
    """What a GPU uses: keys, values and angles of one number format."""
    towers = SST(TINY)
    towers.expand()
    towers.bfloat16().eval()
    ids = study_latency.prompt_ids(TINY, PROMPT, 5)
    with torch.no_grad():
        logits, kept = variants.Prefill(towers, PROMPT)(ids)
        token = variants.Decode(towers, kept)(ids[:, :1])
    assert {t.dtype for pair in kept for t in pair} | {logits.dtype, token.dtype} == {
        torch.bfloat16
    }


def test_what_a_step_refuses():
    model = SST(TINY)
    with pytest.raises(BadParameter, match="graph.*accepted: on a CUDA device"):
        variants.variant("graph", variants.Prefill(model, 4), torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(BadParameter, match="variant='fast' is refused"):
        variants.variant("fast", variants.Prefill(model, 4), torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(BadParameter, match="style='origin' is refused"):
        variants.Prefill(SST(Config(width=16, style="origin")), 4)


def test_laps_alternate_and_refuse_nonsense():
    order = [name for _, name in stopwatch.turns(["a", "b", "c"], 3)]
    assert "".join(order) == "abccbaabc"
    for repeats, count in ((0, 1), (1, 0)):
        with pytest.raises(BadParameter, match="accepted: an integer >= 1"):
            stopwatch.laps({"a": lambda: lambda: None}, repeats, count)
    with pytest.raises(BadParameter, match="clock='sun' is refused; accepted: cpu, wall"):
        stopwatch.ratios([], [], "sun")
    with pytest.raises(ValueError, match="zip"):
        stopwatch.ratios([stopwatch.Lap(1, 1, 0)], [])


def test_cpu_time_leaves_out_what_others_do():
    """Sleeping is not working: the wall clock sees it, the process's own clock does not."""
    import time

    lap = stopwatch.loop(lambda: time.sleep(0.02), 2, stopwatch.Host())
    assert lap.wall >= 0.02 and lap.cpu < 0.01
    assert np.isfinite(lap.cpu) and not lap.launch_bound
