"""Every notebook's own checks: green as they are, and each deliberate fault turns a few red."""

import pytest

from repro import faults, notebooks
from repro.evidence import teeth


@pytest.mark.parametrize("key", notebooks.keys())
def test_each_fault_is_caught_told_apart_and_then_gone(key):
    found = teeth.bite(key)
    assert found.sound, f"red as they are: {found.red}; uncaught: {found.uncaught}"
    assert len(found.caught) >= 3
    for fault, red in found.caught.items():  # by assertions of its own, not by a crash
        assert len(red) < 2 / 3 * found.checks, f"{fault} breaks nearly everything: {red}"
    assert faults.red(teeth.table(key, "CHECKS")) == {}, "a fault stayed in place"
