"""The gated delta kernel without a GPU or simulator: PTX, bytes against the notes, refusals."""

import json
import os
import subprocess
import sys

import pytest
import torch

from kernels import gated_delta, ptx
from repro.deltas import delta, drift
from repro.paths import ROOT

REPORT = """
import json
from kernels import ptx
ptx.KERNELS.clear()
ptx.KERNELS["gated delta"] = ("kernels.gated_delta", (128,))
print(json.dumps(ptx.report()))
"""


@pytest.fixture(scope="module")
def compiled():
    if reason := ptx.missing():
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)["kernels"]["gated delta"]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_ptx_without_local_memory(compiled, target):
    entry = compiled[target]
    assert not [i for i in entry["instructions"] if ".local" in i]
    loads = {i for i in entry["instructions"] if i.startswith("ld.global")}
    assert loads and any(i.startswith("st.shared") for i in entry["instructions"])
    if ptx.assembler() is None:
        pytest.skip("no ptxas: install the wheel nvidia-cuda-nvcc to see registers and spills")
    assert entry["spill_stores"] == entry["spill_loads"] == entry["stack"] == 0
    assert 0 < entry["registers"] <= 168
    assert 32 * 1024 <= entry["shared"] <= 48 * 1024


def test_bytes_of_the_signal_are_the_notes():
    """24 layers of 32 heads, 128 x 128: about 201 MB a chunk by copy and compare, section 4."""
    alone = 24 * gated_delta.separate_traffic(1, 32, 128, 128)
    assert alone == pytest.approx(201e6, rel=0.005)
    fused = 24 * gated_delta.traffic(1, 128, 32, 128, 128)["norms"]
    assert fused < alone / 5000
    state = 24 * gated_delta.traffic(1, 128, 32, 128, 128)["state"]
    assert state == 2 * 48 * 2**20


def test_the_reference_is_the_chapter_s_recurrence():
    g = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 5, 2, 8, generator=g)
    log_decay, beta = -torch.rand(2, 5, 2, generator=g), torch.rand(2, 5, 2, generator=g)
    state = torch.randn(2, 2, 8, 8, generator=g)
    out, after, _ = delta.recurrent(q, k, v, log_decay, beta, state)
    found = gated_delta.step_reference(state, delta.unit(q), delta.unit(k), v, log_decay, beta)
    torch.testing.assert_close(torch.tensor(found[0]).float(), out, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.tensor(found[1]).float(), after, rtol=1e-4, atol=1e-5)
    norms = torch.tensor(found[2])
    torch.testing.assert_close(gated_delta.drift(norms).float(), drift.drift([state], [after]))


def test_a_cpu_tensor_without_simulator_is_refused():
    one = torch.ones(1, 1, 1, 8)
    gates = torch.zeros(1, 1, 1)
    with pytest.raises(ValueError, match="state is on cpu; accepted: a CUDA device"):
        gated_delta.step_(torch.ones(1, 1, 8, 8), one, one, one, gates, gates)
