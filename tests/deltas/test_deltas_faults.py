"""Checks are green without a fault; every fault turns one red, and not nearly all of them."""

import time

import pytest

from repro import faults
from repro.deltas import (
    drift_checks,
    drift_faults,
    eviction_checks,
    eviction_faults,
    streaming_checks,
    streaming_faults,
)

PAIRS = {
    "drift": (drift_checks.CHECKS, drift_faults.FAULTS),
    "eviction": (eviction_checks.CHECKS, eviction_faults.FAULTS),
    "streaming": (streaming_checks.CHECKS, streaming_faults.FAULTS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_checks_are_green_and_fast(name):
    start = time.process_time()
    assert faults.red(PAIRS[name][0]) == {}
    assert time.process_time() - start < 3


@pytest.mark.parametrize("name", PAIRS)
def test_every_fault_is_caught_told_apart_and_then_gone(name):
    checks, table = PAIRS[name]
    assert len(table) >= 5
    for fault in table:
        with faults.plant(table, fault):
            red = faults.red(checks)
        assert red, f"nothing catches {fault}"
        assert len(red) < len(checks) / 2, f"{fault} breaks nearly everything: {red}"
    assert faults.red(checks) == {}
