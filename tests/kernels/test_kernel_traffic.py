"""Counts of bytes: the tables that ActKV's traffic analysis gives, recomputed."""

import numpy as np
import pytest

from kernels import traffic
from kernels.plan import plan

QWEN = traffic.GEOMETRIES["Qwen3-8B"]
ORDER = ("A30", "A100-40", "A100-80", "H200")


def agrees(found: float, printed: str) -> bool:
    """Half a unit of the last printed digit, and 0.6 %: some printed figures leave out indices,
    query and log-sum-exp.
    """
    _, _, decimals = printed.partition(".")
    value = float(printed)
    return abs(found - value) <= 0.5 * 10.0 ** -len(decimals) + 0.006 * value


def check_times(count: float, printed: str) -> None:
    """`count` bytes take the printed microseconds on each device."""
    for name, text in zip(ORDER, printed.split(), strict=True):
        found = traffic.lower_bound(count, name) * 1e6
        assert agrees(found, text), f"{name}: {found:.3f}, printed {text}"


@pytest.mark.parametrize(
    ("name", "row", "kib"),
    [
        ("Qwen3-8B", 4096, 144),
        ("Qwen3-30B-A3B", 2048, 96),
        ("GPT-OSS-20B", 2048, 48),
        ("Qwen3-0.6B", 4096, 112),
    ],
)
def test_bytes_of_a_token(name, row, kib):
    found = traffic.GEOMETRIES[name]
    assert found.row == row
    assert found.row * found.layers == kib * 1024


@pytest.mark.parametrize(
    ("slots", "mega", "times"),
    [
        (512, "2.1", "2.3 1.4 1.0 0.44"),
        (2048, "8.4", "9.0 5.4 4.1 1.8"),
        (4096, "16.8", "18.0 10.8 8.2 3.5"),
        (8192, "33.6", "36.0 21.6 16.5 7.0"),
        (33000, "135", "145 86.9 66.3 28.2"),
    ],
)
def test_decode_table(slots, mega, times):
    count = traffic.decode_attention(slots, QWEN)
    assert agrees(slots * QWEN.row / 1e6, mega)
    check_times(count, times)


@pytest.mark.parametrize(
    ("slots", "kept", "moved", "requests", "mega", "gather", "copy", "both"),
    [
        (1024, 512, 256, 1, "2.1", "4.2", "2.2 1.3 1.0 0.4", "4.6 2.7 2.1 0.9"),
        (1024, 512, 256, 64, "134", "268", "144 86 66 28", "292 175 134 57"),
        (2048, 1536, 384, 1, "3.1", "12.6", "3.4 2.0 1.5 0.7", "8.0 4.8 3.7 1.6"),
        (2048, 1536, 384, 64, "201", "805", "216 129 99 42", "513 308 235 100"),
        (6144, 4096, 1365, 1, "11.2", "33.6", "12.0 7.2 5.5 2.3", "25.9 15.5 11.8 5.0"),
        (6144, 4096, 1365, 64, "716", "2147", "767 460 351 149", "1657 994 758 322"),
    ],
)
def test_compaction_table(slots, kept, moved, requests, mega, gather, copy, both):
    assert traffic.expected_moves(slots, kept) == pytest.approx(moved, abs=0.5)
    count = requests * traffic.compaction(moved, QWEN)
    assert agrees(count / 1e6, mega)
    assert agrees(requests * traffic.gather_compaction(kept, QWEN) / 1e6, gather)
    check_times(count, copy)
    check_times(count + requests * traffic.score_recovery(slots, QWEN), both)


@pytest.mark.parametrize(
    ("slots", "kept", "moved", "ratio"),
    [(1024, 512, 256, 2.5), (2048, 1536, 384, 3.4), (6144, 4096, 1365, 3.0)],
)
def test_ratio_to_gather(slots, kept, moved, ratio):
    ours = traffic.compaction(moved, QWEN) + traffic.score_recovery(slots, QWEN)
    theirs = traffic.gather_compaction(kept, QWEN) + traffic.gather_scoring(slots, QWEN)
    assert theirs / ours == pytest.approx(ratio, abs=0.06)


def test_scores_cost_half_of_decoding():
    share = traffic.score_recovery(8192, QWEN) / traffic.decode_attention(8192, QWEN)
    assert share == pytest.approx(0.52, abs=0.005)


def test_one_pass_reads_keys_once():
    many, once = (
        40 * traffic.score_recovery(8192, QWEN),
        traffic.score_recovery_one_pass(8192, QWEN, 40),
    )
    assert 35 < many / once < 40


def test_random_survivors_move_as_expected():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(50):
        keep = np.zeros(6144, bool)
        keep[rng.choice(6144, 4096, replace=False)] = True
        found.append(len(plan(keep, 6144, 16).src))
    assert np.mean(found) == pytest.approx(traffic.expected_moves(6144, 4096), rel=0.005)


def test_ridge_points():
    for name, ridge in (("A30", 177), ("A100-40", 200), ("H200", 206)):
        device = traffic.DEVICES[name]
        assert device.tensor / device.bandwidth == pytest.approx(ridge, rel=0.005)


@pytest.mark.parametrize(
    ("name", "cores", "gigahertz"),
    [("A30", 3584, 1.44), ("A100-40", 6912, 1.41), ("A100-80", 6912, 1.41), ("H200", 16896, 1.98)],
)
def test_fp32_rate_is_cores_times_clock(name, cores, gigahertz):
    """A multiply and an add a clock and core, at boost clock: figures of public data sheets."""
    found = traffic.DEVICES[name].fp32
    assert found == pytest.approx(2 * cores * gigahertz * 1e9, rel=0.005)


def test_arithmetic_decides_when_it_is_more():
    flops = traffic.attention_flops(8192, QWEN, actions=40)
    count = traffic.score_recovery_one_pass(8192, QWEN, 40)
    assert traffic.lower_bound(count, "H200", flops) == flops / 67e12
    assert traffic.lower_bound(count, "H200", flops, "tensor") == count / 4.8e12


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="device='V100'"):
        traffic.lower_bound(1, "V100")
    with pytest.raises(ValueError, match="cores='int8'"):
        traffic.lower_bound(1, "H200", 1, "int8")
