"""Under the simulator: the timing stages of a session, each call made once and none of them timed.

So the work that would be timed is executed and the book-keeping runs; the times are a stand-in.
"""

import json
from types import SimpleNamespace

import pytest
import torch

from kernels import accuracy, paged_decode, paged_scores, rounds, speed, stages
from kernels.session import Bench, Log, run_stage
from kernels.timing import Times
from kernels.traffic import Geometry
from kernels.vector16 import SIMULATED

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1 (test_kernel_simulated.py does)"
TINY = Geometry(4, 2, 16, layers=2)
BENCH = Bench(torch.device("cpu"), False, "stand-in", nominal=1e9, cache=2000, memory=100_000)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiny sizes, and `timed` replaced: every call is made once, results are kept to compare."""
    made = SimpleNamespace(calls=[], results=[])

    def once(bench, calls, repeats=21):
        made.calls.append(len(calls))
        made.results.append(calls[0]())
        return Times(2e-6, 1e-6, 3e-6, 1e-5, repeats, 0)

    monkeypatch.setattr(speed, "timed", once)
    for name, value in (("SHAPE", TINY), ("REQUESTS", (1, 2)), ("ACTIONS", 2)):
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(speed, "PACKED", ((40, 20),))
    monkeypatch.setattr(speed, "SCORED", (20,))
    monkeypatch.setattr(speed, "DECODED", (20,))
    rounds_sizes = dict(SHAPE=TINY, TRACE=48, ROUND=5, ACTIONS=2, MOST=1, GENERATED=10)
    for name, value in rounds_sizes.items():
        monkeypatch.setattr(rounds, name, value)
    monkeypatch.setattr(paged_decode, "CHUNK", 64)
    return made


def ran(name):
    entry, log = run_stage(stages.STAGES[name], BENCH, 60, {"ceiling": 5e8})
    assert entry["state"] in ("done", "partial"), entry["error"]
    json.dumps(entry), json.dumps(log.metrics)
    return entry, {m["name"]: m["value"] for m in log.metrics}


def test_ceiling_is_the_best_copy():
    known = {}
    entry, log = run_stage(stages.STAGES["ceiling"], BENCH, 60, known)
    assert entry["state"] == "done", entry
    found = {m["name"]: m["value"] for m in log.metrics}
    assert known["ceiling"] == found["ceiling"] == pytest.approx(2 * 10_000 / 2e-6)
    assert found["stream_of_nominal.mb64"] == pytest.approx(found["ceiling"] / 1e9)


def only_triton(entry):
    """Nothing but the Triton twins may be left out here, where Triton is not installed."""
    return all(x["case"].startswith("triton") for x in entry.get("left_out", []))


def test_compaction_moves_rows_and_is_measured_beside_the_others(small):
    entry, found = ran("compaction")
    assert only_triton(entry)
    assert [c["passed"] for c in entry["checks"]] == [True, True]
    for name in ("compaction", "index_select", "gather_and_copy"):
        for requests in (1, 2):
            assert found[f"{name}_us.r{requests}.s40.b20"] == pytest.approx(2.0)
    assert max(small.calls) > 1  # buffers are rotated
    moved = {t["name"]: t["bytes"] for t in entry["timings"]}
    assert moved["index_select.r2.s40.b20"] == 2 * moved["index_select.r1.s40.b20"] == 2 * 5120
    share = found["compaction_of_ceiling.r1.s40.b20"]
    assert share == pytest.approx(moved["compaction.r1.s40.b20"] / 2e-6 / 5e8)


def test_a_compaction_that_moves_the_wrong_rows_is_a_red_check(monkeypatch):
    monkeypatch.setattr(speed.compaction, "prepare", lambda *_: lambda: None)
    entry, _ = ran("compaction")
    assert not all(c["passed"] for c in entry["checks"])


def test_scores_by_kernel_and_by_torch_agree(small, monkeypatch):
    outs = []

    def keeping(name):
        original = getattr(paged_scores, name)

        def call(out, *rest, **options):
            fresh = torch.zeros_like(out)
            original(fresh, *rest, **options)
            outs.append(fresh)

        monkeypatch.setattr(paged_scores, name, call)

    keeping("recover_"), keeping("recover_torch")
    entry, found = ran("scores")
    assert only_triton(entry) and len(outs) == 8
    for ours, theirs in zip(outs[::2], outs[1::2], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4) and ours.any()
    assert {"scores_us.r2.s20.a1", "scores_us.r2.s20.a2", "torch_scores_us.r1.s20.a2"} <= set(found)


def test_decoding_by_kernel_and_by_torch_agree(small):
    entry, found = ran("decode")
    assert "left_out" not in entry and "sdpa_gathered_us.r2.s20" in found
    for first in range(0, len(small.results), 3):
        ours, contiguous, gathered = small.results[first : first + 3]
        assert torch.equal(contiguous, gathered)
        assert torch.allclose(ours[0], contiguous[:, :, 0].float(), atol=2e-2)  # bf16


def test_rounds_compare_full_cache_and_a_quarter(small):
    entry, found = ran("rounds")
    assert "left_out" not in entry, entry
    assert found["attention_gain.one"] < 1.0  # all stand-in times are equal: a round costs extra
    assert found["attention_gain.same_memory"] > found["attention_gain.same_requests"]
    names = [t["name"] for t in entry["timings"]]
    assert "step.full" in names and "round_compaction.kept_same_memory" in names
    assert "all_layers_us.one_launch" in found and "all_layers_us.one_launch_a_layer" in found


def test_a_device_too_small_for_a_round_skips_it():
    small = Bench(torch.device("cpu"), False, "stand-in", memory=1000)
    entry, _ = run_stage(stages.STAGES["rounds"], small, 60, {})
    assert entry["state"] == "skipped" and "does not fit" in entry["error"]


def test_cases_too_large_are_left_out_and_other_errors_fail_the_stage(monkeypatch):
    small = Bench(torch.device("cpu"), False, "stand-in", memory=10_000)
    entry, log = run_stage(stages.STAGES["decode"], small, 60, {})
    assert entry["state"] == "partial" and log.left_out[0]["reason"].startswith("MemoryError")
    monkeypatch.setattr(paged_decode, "decode", lambda *_, **__: 1 / 0)
    entry, _ = run_stage(stages.STAGES["decode"], BENCH, 60, {})
    assert entry["state"] == "failed" and entry["error"].startswith("ZeroDivisionError")


def test_build_launches_every_kernel(monkeypatch):
    monkeypatch.setitem(stages.GEOMETRIES, "Qwen3-8B", TINY)
    entry, found = ran("build")
    assert set(found) == {f"build_s.{d}" for d in accuracy.NAMES}


@pytest.mark.parametrize(
    ("stage", "module", "name", "wrong"),
    [
        ("right_decode", paged_decode, "decode", lambda out, lse: (out, lse / 0.6931)),
        ("right_decode", paged_decode, "decode", lambda out, lse: (out * torch.nan, lse)),
        ("right_decode", paged_decode, "decode", lambda out, lse: (out.flip(1), lse)),
    ],
)
def test_wrong_results_are_red(monkeypatch, stage, module, name, wrong):
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **o: wrong(*original(*a, **o)))
    monkeypatch.setattr(accuracy, "NAMES", ["float32"])
    bench = Bench(torch.device("cpu"), True, "simulator")
    entry, _ = run_stage(stages.STAGES[stage], bench, 60, {})
    assert not all(c["passed"] for c in entry["checks"])


def test_an_empty_log_has_no_ceiling_to_compare_with():
    log = Log()
    speed.measure(BENCH, log, "x", "case", [lambda: None], 1000)
    assert [m["name"] for m in log.metrics] == ["x_us.case", "x_of_nominal.case"]
