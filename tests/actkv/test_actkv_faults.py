"""Checks are green without a fault; every fault turns one red; the two notebooks stay apart."""

import time

import pytest

from repro import digest, faults
from repro.actkv import confidence_checks, confidence_faults, eviction_checks, eviction_faults

PAIRS = {
    "confidence": (confidence_checks.CHECKS, confidence_faults.FAULTS),
    "eviction": (eviction_checks.CHECKS, eviction_faults.FAULTS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_checks_are_green_and_fast(name):
    start = time.perf_counter()
    assert faults.red(PAIRS[name][0]) == {}
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("name", PAIRS)
def test_every_fault_is_caught_and_then_gone(name):
    checks, table = PAIRS[name]
    assert len(table) >= 5
    caught = faults.audit(table, checks)
    assert [fault for fault, red in caught.items() if not red] == []
    assert faults.red(checks) == {}


@pytest.mark.parametrize("name", PAIRS)
def test_faults_are_told_apart(name):
    """Each is caught by an assertion of its own, not by a crash that any change would cause."""
    checks, table = PAIRS[name]
    for fault in table:
        with faults.plant(table, fault):
            messages = faults.red(checks)
        assert len(messages) < len(checks) / 2, f"{fault} breaks nearly everything: {messages}"


def _reached(*names):
    """Modules of this chapter that a notebook with these imports depends on, and packages."""
    modules, packages = digest.closure(f"from repro.actkv import {', '.join(names)}")
    ours = {
        name.removeprefix("repro.actkv.") for name in modules if name.startswith("repro.actkv.")
    }
    return ours, set(packages)


def test_a_change_to_one_mechanism_does_not_touch_the_other_notebook():
    ours, _ = _reached("confidence", "confidence_checks", "confidence_faults", "attention")
    assert ours.isdisjoint({"eviction", "eviction_checks", "eviction_faults", "access"})
    ours, _ = _reached("eviction", "eviction_checks", "eviction_faults", "access", "attention")
    assert ours.isdisjoint({"confidence", "confidence_checks", "confidence_faults", "rows"})


def test_the_mechanisms_need_no_torch():
    for name in ("confidence", "eviction", "access", "confidence_checks", "eviction_checks"):
        _, packages = _reached(name)
        assert packages.isdisjoint({"torch", "transformers"}), name
