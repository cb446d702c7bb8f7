"""The GPU session without a GPU: its script, its book-keeping, and what is known of devices."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from kernels import environment, session, timing
from kernels.session import Bench, Log, Skipped, Stage
from repro.paths import ROOT

SCRIPT = ROOT / "scripts/gpu_session.py"
SIMULATOR = Bench(torch.device("cpu"), simulated=True, name="simulator")
DEVICE = Bench(torch.device("cpu"), simulated=False, name="stand-in", clock=1e9)
FACTS = dict(unit="us", direction="lower", split="all", n=3)


def script(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment,
        capture_output=True,
        text=True,
    )


def test_simulator_session_writes_checks_and_skips_all_timing(tmp_path):
    target = tmp_path / "session.json"
    stages = "environment,right_decode,right_compaction,ceiling,compaction,scores,decode,rounds"
    done = script("--output", target, "--device", "simulator", "--stages", stages)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(target.read_text())
    states = {s["name"]: s["state"] for s in report["stages"]}
    assert ",".join(states) == stages
    assert states.pop("environment") == "done"
    assert states.pop("right_decode") == states.pop("right_compaction") == "done"
    assert set(states.values()) == {"skipped"}
    assert all("no device" in s["error"] for s in report["stages"] if s["state"] == "skipped")
    assert report["ok"] and report["simulated"] and report["device"] == "simulator"
    checks = [c for s in report["stages"] for c in s.get("checks", [])]
    assert len(checks) == 9 and all(c["passed"] for c in checks)
    assert not [m for m in report["metrics"] if m["unit"] in ("us", "s", "bytes/s")]
    assert not session.PATH.search(target.read_text())
    schema = json.loads((ROOT / "evidence/schema/record.json").read_text())
    wanted = schema["properties"]["metrics"]["items"]["properties"]
    assert all(set(m) == set(wanted) for m in report["metrics"])


def module():
    spec = importlib.util.spec_from_file_location("gpu_session", SCRIPT)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def main(monkeypatch):
    """The script's `main`, in this process; what it sets for Numba is undone."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return module().main


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("device", ["auto", "cuda", "cpu", "tpu"])
def test_without_a_gpu_nothing_is_written(tmp_path, main, capsys, device):
    assert main(["--output", str(tmp_path / "s.json"), "--device", device]) == 2
    assert "simulator" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_stage_is_named(tmp_path, main, capsys):
    given = ["--output", str(tmp_path / "s.json"), "--device", "simulator", "--stages", "speed"]
    assert main(given) == 2
    assert "stages=speed; accepted: environment, build" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--seconds", "0"], "--seconds 0; accepted"),
        (["--seconds", "nan"], "--seconds nan; accepted"),
        (["--output", "missing/s.json"], "accepted: a file in a folder that exists"),
        (["--output", "."], "accepted: a file"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, main, capsys, arguments, named):
    given = ["--output", str(tmp_path / "s.json"), "--device", "simulator"]
    with pytest.raises(SystemExit) as stopped:
        main([*given, *arguments])
    assert stopped.value.code == 2 and named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_script_says_what_its_exit_codes_mean_and_that_it_never_ran():
    says = " ".join(module().__doc__.split())
    assert "Exit codes: 0" in says and "1 a stage failed" in says and "2 wrong arguments" in says
    assert "never run on a GPU" in says


def works(bench, log):
    log.metric("fine", 2.0, **FACTS)
    log.check("green", True, "holds")


def breaks(bench, log):
    log.metric("before", 1.0, **FACTS)
    raise RuntimeError("no kernel image in /usr/lib/libcuda.so.1 for this device")


def test_a_failing_stage_is_recorded_and_the_others_run():
    saved = []
    stages = [Stage("one", works), Stage("two", breaks), Stage("three", works)]
    report = session.run(stages, DEVICE, 5, lambda r: saved.append(json.loads(json.dumps(r))))
    assert [s["state"] for s in report["stages"]] == ["done", "failed", "done"]
    assert [len(r["stages"]) for r in saved] == [1, 2, 3]  # partial results, after each stage
    assert [m["name"] for m in report["metrics"]] == ["fine", "before", "fine"]
    error = report["stages"][1]["error"]
    assert error == "RuntimeError: no kernel image in <path> for this device"
    assert saved[0]["ok"] and not saved[1]["ok"] and not report["ok"]


def test_a_red_check_makes_the_session_fail():
    report = session.run([Stage("one", lambda b, log: log.check("c", False, "no"))], DEVICE, 5)
    assert report["stages"][0]["state"] == "done" and not report["ok"]


def test_stages_that_need_a_device_are_not_even_started_in_the_simulator():
    report = session.run([Stage("time", breaks, needs_device=True)], SIMULATOR, 5)
    assert report["stages"][0]["state"] == "skipped" and report["metrics"] == [] and report["ok"]


def test_a_stage_may_skip_itself():
    def work(bench, log):
        raise Skipped("too large for this device")

    entry, _ = session.run_stage(Stage("one", work), DEVICE, 5, {})
    assert (entry["state"], entry["error"]) == ("skipped", "too large for this device")


def test_the_budget_leaves_cases_out_and_names_them(monkeypatch):
    clock = iter([0, 2, 4, 6, 8])
    monkeypatch.setattr(session.time, "monotonic", lambda: next(clock))
    log = Log(seconds=3)
    assert list(log.until(["a", "b", "c"])) == ["a", "b"]
    assert log.left_out == [{"case": "c", "reason": "the stage's 3 s were spent"}]


def test_an_attempt_that_fails_is_left_out_and_only_for_the_errors_named():
    log = Log()
    assert log.attempt("case", lambda: 1 / 0) is None
    assert log.left_out[0]["reason"].startswith("ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        log.attempt("case", lambda: 1 / 0, (MemoryError,))
    entry, _ = session.run_stage(
        Stage("one", lambda b, log: log.attempt("x", lambda: 1 / 0)), DEVICE, 5, {}
    )
    assert entry["state"] == "partial"


@pytest.mark.parametrize(
    ("name", "value", "change", "named"),
    [
        ("Time", 1.0, {}, "metric 'Time'"),
        ("taken", 1.0, {}, "metric 'taken'; accepted: a new name"),
        ("x", math.nan, {}, "x=nan is not finite"),
        ("x", 1.0, dict(direction="up"), "direction='up'"),
        ("x", 1.0, dict(n=0), "n=0"),
    ],
)
def test_bad_metrics_are_refused(name, value, change, named):
    log = Log()
    log.metric("taken", 1.0, **FACTS)
    with pytest.raises(ValueError, match=named):
        log.metric(name, value, **FACTS | change)


def test_metrics_fit_the_schema_of_records():
    log = Log()
    log.metric("compaction_us.r16.s6144.b4096", 1.5, **FACTS)
    schema = json.loads((ROOT / "evidence/schema/record.json").read_text())
    schema = schema["properties"]["metrics"] | {"definitions": schema["definitions"]}
    import fastjsonschema

    fastjsonschema.compile(schema)(log.metrics)


@pytest.mark.parametrize(
    ("name", "memory", "key"),
    [
        ("NVIDIA A30", 24e9, "A30"),
        ("A100-SXM4-40GB", 42e9, "A100-40"),
        ("A100-PCIE-40GB", 42e9, "A100-40"),
        ("A100-SXM4-80GB", 85e9, "A100-80"),
        ("A100 80GB PCIe", 85e9, ""),
        ("A100-SXM4-40GB MIG 1g.5gb", 5e9, ""),
        ("NVIDIA H200", 150e9, "H200"),
        ("H200 NVL", 150e9, ""),
        ("GeForce RTX 3060", 12e9, ""),
    ],
)
def test_devices_are_told_by_name(name, memory, key):
    assert environment.sheet(name, memory) == key


def test_nominal_bandwidth_of_a_device_that_is_not_listed():
    # GDDR6 of an RTX A4000: 7,001 MHz, 256 bits; its data sheet says 448 GB/s.
    rate, source = environment.nominal("RTX A4000", 16_000_000_000, 7_001_000, 256)
    assert rate == pytest.approx(448e9, rel=1e-3) and "driver" in source
    assert environment.nominal("A30", 24_000_000_000)[0] == 0.933e12
    assert environment.nominal("GPU X", 1) == (0.0, "unknown")


def test_buffers_are_rotated_beyond_the_cache_and_within_memory():
    bench = Bench(None, False, "x", cache=50_000_000, memory=1_000_000_000)
    assert timing.copies(bench, 200_000_000) == 1
    assert timing.copies(bench, 10_000_000) == 15  # three times the cache
    assert timing.copies(bench, 10_000_000, held=100_000_000) == 3  # what fits into 35 %
    assert timing.copies(bench, 1000) == 64
    with pytest.raises(MemoryError, match=r"0\.4 GB; accepted: 0\.3 GB"):
        timing.copies(bench, 1000, held=400_000_000)


class Stream:
    """A stand-in for torch.cuda: events note when they are recorded and take `step` ms each."""

    def __init__(self, late):
        self.log, self.late, self.step = [], late, iter(range(1, 100))

    def Event(self, enable_timing):  # noqa: N802  (torch's name)
        event = SimpleNamespace()
        event.record = lambda: self.log.append("event")
        event.query = lambda: self.late
        event.elapsed_time = lambda other: float(next(self.step))
        return event

    def synchronize(self):
        self.log.append("wait")

    def _sleep(self, cycles):
        assert cycles > 0
        self.log.append("hold")


@pytest.mark.parametrize("late", [False, True])
def test_timing_holds_the_device_rotates_buffers_and_takes_the_median(monkeypatch, late):
    stream, seen = Stream(late), []
    monkeypatch.setattr(torch, "cuda", stream)
    calls = [lambda i=i: (seen.append(i), stream.log.append("call")) for i in range(4)]
    found = timing.timed(DEVICE, calls, repeats=21)
    assert found.median == pytest.approx(0.011) and found.repeats == 21  # of 1 to 21 ms
    assert (found.low, found.high) == (pytest.approx(0.006), pytest.approx(0.016))
    assert found.late == (21 if late else 0)
    assert stream.log[-5:] == ["hold", "event", "call", "event", "wait"]
    assert seen[:4] == [0, 1, 2, 3] and seen[-4:] == [1, 2, 3, 0]


TRITON = """
import numpy as np
import torch
from kernels import paged_scores, triton_twins
torch.manual_seed(0)
flat = torch.randn(2, 40, 3, 16).to(torch.bfloat16)
wanted, source, target = flat.clone(), torch.tensor([3, 9, 11]), torch.tensor([30, 2, 17])
wanted[:, target] = wanted[:, source]
triton_twins.copy_rows(flat, source, target)
assert torch.equal(flat, wanted)
table = torch.randperm(12)[:10].reshape(2, 5).int()
visible, folded = torch.tensor([[17], [6]]).int(), torch.tensor([0, 2]).int()
given = (torch.randn(2, 1, 4, 16), torch.randn(2, 1, 4) + 3, torch.randn(12, 4, 2, 16), table)
out = torch.rand(2, 2, 20)
wanted = paged_scores.recover_reference(out, *given, visible, folded)
triton_twins.recover(out, *given, visible, folded)
assert np.abs(out.numpy() - wanted).max() < 1e-5
"""


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed")
def test_triton_twins_do_the_same_work():
    done = subprocess.run(
        [sys.executable, "-c", TRITON],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
