"""What the kernels notebook calls around `kernels`; launches in a process with the simulator."""

import os
import subprocess
import sys

import numpy as np
import pytest

from repro import digest, notebooks
from repro.actkv import study_kernels, study_plans, study_speed
from repro.errors import BadParameter
from repro.paths import ROOT

KEY = "actkv/kernels"


def simulated(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_notebook_depends_on_the_kernels_and_on_no_asset():
    notebook = notebooks.read(KEY)
    assert notebook.assets == ()
    modules = digest.inputs(notebook, notebook.values())["modules"]
    for name in (
        "plan",
        "compaction",
        "paged_scores",
        "paged_decode",
        "traffic",
        "ptx",
        "faults",
        "speed",
    ):
        assert f"kernels.{name}" in modules


def test_importing_the_helpers_leaves_the_choice_of_the_simulator_open():
    code = "import sys; import repro.actkv.study_kernels; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


ELSEWHERE = """
import os, sys
os.chdir("notebooks")
sys.path = [place for place in sys.path if place]
from repro.actkv import study_kernels
study_kernels.choose("cpu")
from kernels.vector16 import SIMULATED
assert SIMULATED
"""


def test_kernels_are_found_from_the_folder_of_the_notebook():
    simulated(ELSEWHERE)


LATE = """
import numba
from repro.actkv import study_kernels
from repro.errors import BadParameter
try:
    study_kernels.choose("cpu")
except BadParameter as error:
    print(error)
"""


def test_a_choice_that_comes_too_late_is_refused():
    assert "device='cpu' comes too late" in simulated(LATE)


def test_unknown_device_is_refused():
    with pytest.raises(BadParameter, match="device='tpu'"):
        study_kernels.choose("tpu")


def test_source_shows_marked_lines_only():
    shown = study_kernels.source("kernels/compaction.py", "kernel")
    assert "def copy_rows(" in shown and "# begin" not in shown and "def prepare" not in shown
    for file, span in (("plan", "plan"), ("paged_scores", "reference"), ("paged_scores", "kernel")):
        assert "def " in study_kernels.source(f"kernels/{file}.py", span)
    with pytest.raises(ValueError, match="span='nothing' is not in kernels/plan.py"):
        study_kernels.source("kernels/plan.py", "nothing")


@pytest.mark.parametrize("kind", ["random", "recent", "newest", "oldest"])
def test_drawn_sets_have_the_size_asked_for(kind):
    keep = study_plans.draw_keep(np.random.default_rng(0), 50, 20, kind)
    assert keep.shape == (50,) and keep.sum() == 20
    if kind in ("newest", "oldest"):
        assert keep[:20].all() == (kind == "oldest") and keep[30:].all() == (kind == "newest")


def test_recent_survivors_are_later_on_average():
    rng = np.random.default_rng(0)
    places = {
        kind: np.mean(
            [np.flatnonzero(study_plans.draw_keep(rng, 100, 30, kind)) for _ in range(99)]
        )
        for kind in ("random", "recent")
    }
    assert abs(places["random"] - 49.5) < 2 and places["recent"] > 60


def test_chance_by_hand():
    # 4 slots, 2 survive, blocks of 2: c is 0, 1, 2 for 1, 4, 1 of the 6 sets.
    mean, spread = study_plans.chance(4, 2, 2)
    assert mean == pytest.approx(1) and spread == pytest.approx((2 / 6) ** 0.5)
    # 3 slots in one block of 4, 2 survive: the range is slots 0 and 1; c is 0, 1, 1.
    assert study_plans.chance(3, 2, 4)[0] == pytest.approx(2 / 3)


def measured(**changes):
    names = {"compaction_us.r1": 4.0, "compaction_of_nominal.r1": 0.5, "ceiling": 1e12}
    stages = [{"name": "ceiling", "state": "done", "error": ""}]
    metrics = [{"name": n, "value": v} for n, v in names.items()]
    return {"stages": stages, "metrics": metrics} | changes


def test_a_session_is_told_as_a_table_and_what_is_missing():
    head, rows = study_speed.table(measured())
    assert rows == [["compaction", "r1", "4.0", "50%", "unknown"]] and len(head) == 5
    assert study_speed.told(measured()) == ""
    left = [{"case": "r128", "reason": "time"}] * 2
    stages = [
        {"name": "scores", "state": "partial", "error": "", "left_out": left},
        {"name": "decode", "state": "failed", "error": "it broke"},
        {"name": "a", "state": "skipped", "error": "no device"},
        {"name": "b", "state": "skipped", "error": "no device"},
    ]
    said = study_speed.told(measured(stages=stages))
    assert "**Gap: cut short** (2 cases left out): scores." in said
    assert "**Gap: failed** (it broke): decode." in said
    assert "**Gap: not measured** (no device): a, b." in said


SESSION = """
from repro.actkv import study_kernels, study_speed
from repro.errors import BadParameter
where = study_kernels.choose("cpu")
report = study_speed.session(where, 5.0)
assert report["metrics"] == [] and study_speed.table(report)[1] == []
print(study_speed.told(report))
for seconds in (0.0, 601.0, float("nan")):
    try:
        study_speed.session(where, seconds)
    except BadParameter as error:
        print(error)
"""


def test_without_a_gpu_the_session_has_no_time():
    told, *refused = simulated(SESSION).splitlines()
    assert told.startswith("**Gap: not measured** (no device")
    assert "ceiling, compaction, scores, decode" in told
    assert [line.split()[0] for line in refused] == ["speed_s=0.0", "speed_s=601.0", "speed_s=nan"]


HAND = """
import numpy as np
from repro.actkv import study_kernels, study_plans
where = study_kernels.choose("cpu")
packed = study_plans.pack(np.isin(np.arange(9), [0, 5, 6, 8]), 4)
assert packed.after.tolist() == [-1] * 8 + [8, 0, 5, 6] and not packed.problem
_, alt = study_plans.picture(packed, 9)
assert "4 survive, 3 move (0 to 9, 5 to 10, 6 to 11), blocks 0, 1 become free" in alt, alt
assert study_plans.moves(np.random.default_rng(0), 9, 4, 4, 3, "oldest").tolist() == [4] * 3
sums = study_kernels.row_sums(0)
assert abs(sums.pop("as the attention had it") - 1) < 1e-12
assert all(abs(total - 1) > 1e-3 for total in sums.values()), sums
"""


def test_pack_and_row_sums_by_hand():
    simulated(HAND)


FAULTS = """
import numpy as np
from repro import faults
from repro.actkv import study_kernels, study_plans
where = study_kernels.choose("cpu")
from kernels.faults import FAULTS
keep = study_plans.draw_keep(np.random.default_rng(0), 21, 10, "recent")
NAMES = ("output", "log-sum-exp", "scores, one by one", "scores, one pass")
seen = set()
for name in ("", *FAULTS):
    with faults.plant(FAULTS, name):
        study_plans.picture(study_plans.pack(keep, 4), 21)
        p = study_kernels.compaction_case(1, "float16", where, 4)
        good = p["equal"] and p["counted"] == p["formula"] and p["launches"] == 1
        if name in ("", "group_mean", "sum_not_mean", "mean_one_late", "binary_logarithm"):
            a = study_kernels.attention_case(1, "float16", where, 16)
            good &= all(a[n] < 1e-5 for n in NAMES) and a["read"] == a["formula"]
        if not good:
            seen.add(name)
print(sorted(seen))
"""


def test_cases_run_with_every_fault_and_notice_what_they_can():
    expected = ["binary_logarithm", "group_mean", "mean_one_late", "overlap", "read_only"]
    assert simulated(FAULTS).strip() == str([*expected, "sum_not_mean", "tail_forgotten"])


def report(**changes):
    copy = {"ld.global.v4.u32": 2, "ld.global.u64": 1, "st.global.v4.u32": 2}
    entry = {"instructions": copy, "registers": 32, "spill_stores": 0, "spill_loads": 0}
    return {"kernels": {"copy_rows": {"sm_80": entry | {"stack": 0, "shared": 0} | changes}}}


def test_ptx_table_and_verdict():
    head, (row,) = study_kernels.ptx_table(report())
    assert dict(zip(head, row, strict=True)) == {
        "kernel": "`copy_rows`",
        "target": "sm_80",
        "16-byte loads": 2,
        "other loads": 1,
        "16-byte stores": 2,
        "other stores": 0,
        "registers": 32,
        "spilled bytes": 0,
        "shared bytes": 0,
    }
    assert study_kernels.wide(report())
    assert not study_kernels.wide(report(spill_stores=8))
    narrow = {"ld.global.v4.u32": 1, "st.global.v4.u32": 1, "st.global.u64": 1}
    assert not study_kernels.wide(report(instructions=narrow))
    assert not study_kernels.wide(report(instructions=narrow | {"ld.local.u32": 1}))
    bare = {"kernels": {"copy_rows": {"sm_80": {"instructions": narrow}}}}
    assert study_kernels.ptx_table(bare)[1][0][-3:] == ["?"] * 3  # no assembler
