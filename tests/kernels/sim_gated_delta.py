"""Under the simulator: the gated delta rule with fused drift against its reference, its bytes."""

from collections import Counter

import numpy as np
import pytest
import torch

from kernels import gated_delta
from kernels.vector16 import SIMULATED
from repro.deltas import delta, drift

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1 (test_kernel_simulated.py does)"


def case(seed=0, rows=2, tokens=3, heads=2, dim=8, values=8, strength=1.0):
    g = torch.Generator().manual_seed(seed)
    q, k = (delta.unit(torch.randn(rows, tokens, heads, dim, generator=g)) for _ in "qk")
    v = torch.randn(rows, tokens, heads, values, generator=g)
    log_decay = -strength * torch.rand(rows, tokens, heads, generator=g)
    beta = torch.rand(rows, tokens, heads, generator=g)
    state = torch.randn(rows, heads, dim, values, generator=g)
    return dict(state=state, q=q, k=k, v=v, log_decay=log_decay, beta=beta)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"tokens": 1, "rows": 1},
        {"values": 5},
        {"dim": 24, "values": 40, "heads": 1, "rows": 1},
        {"strength": 20.0},
    ],
)
def test_equals_reference(shape):
    given = case(**shape)
    expected = gated_delta.step_reference(**given)
    out, norms = gated_delta.step_(**given)  # changes given["state"]
    for name, found, right in zip(
        ("output", "state", "norms"), (out, given["state"], norms), expected, strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6, err_msg=name)


def test_drift_is_that_of_the_chapter():
    given = case(3, tokens=5)
    before = given["state"].clone()
    _, norms = gated_delta.step_(**given)
    found = gated_delta.drift(norms)
    torch.testing.assert_close(found, drift.drift([before], [given["state"]]))


def test_two_chunks_are_one():
    given, whole = case(4, tokens=4), case(4, tokens=4)
    gated_delta.step_(**whole)
    for here in (slice(0, 1), slice(1, 4)):
        parts = {n: x if n == "state" else x[:, here] for n, x in given.items()}
        gated_delta.step_(**parts)
    torch.testing.assert_close(given["state"], whole["state"])


class Counted:
    """An array that counts which of its elements are read and written."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape
        self.read, self.written = Counter(), Counter()

    def __getitem__(self, at):
        self.read[at] += 1
        return self.array[at]

    def __setitem__(self, at, value):
        self.written[at] += 1
        self.array[at] = value


def test_bytes_equal_the_formula(monkeypatch):
    seen = []

    def counted(kernel, grid, threads, *args):
        arrays = [Counted(x.numpy()) for x in args]
        seen.extend(arrays)
        kernel[grid, threads](*arrays)

    monkeypatch.setattr(gated_delta, "launch", counted)
    given = case(5, rows=1, tokens=2, heads=2, dim=8, values=40)
    try:
        gated_delta.step_(**given)
    except (TypeError, AttributeError) as error:
        pytest.skip(f"this simulator takes arrays only: {error}")
    state, q, k, v, log_decay, beta, out, norms = seen
    formula = gated_delta.traffic(1, 2, 2, 8, 40)
    once = [set(x.values()) for x in (state.read, state.written, v.read, out.written)]
    assert once[0] == once[1] == once[3] == {1}
    assert 4 * (len(state.read) + len(state.written)) == formula["state"]
    assert 4 * len(norms.written) == formula["norms"]
    blocks = 2
    assert set(q.read.values()) == set(k.read.values()) == {blocks}
    distinct = len(v.read) + len(out.written) + blocks * (len(q.read) + len(k.read))
    distinct += blocks * (len(log_decay.read) + len(beta.read))
    assert 4 * distinct == formula["tokens"]


def change(**parts):
    return case() | parts


GOOD = case()


@pytest.mark.parametrize(
    ("parts", "error", "named"),
    [
        ({"state": GOOD["state"].double()}, TypeError, r"state\.dtype=torch\.float64"),
        ({"state": GOOD["state"].numpy()}, TypeError, "state=ndarray"),
        ({"state": GOOD["state"][:, :, :6]}, ValueError, "state has K=6"),
        ({"state": GOOD["state"].transpose(2, 3)}, ValueError, "not contiguous"),
        ({"q": GOOD["q"][:, :0]}, ValueError, "q has no tokens"),
        ({"k": GOOD["k"][:, :2]}, ValueError, "k has shape"),
        ({"v": GOOD["v"].half()}, TypeError, r"v\.dtype=torch\.float16"),
        ({"beta": GOOD["beta"][..., :1]}, ValueError, "beta has shape"),
    ],
)
def test_bad_input_is_named(parts, error, named):
    with pytest.raises(error, match=named):
        gated_delta.step_(**change(**parts))
