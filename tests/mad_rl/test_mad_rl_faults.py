"""Checks are green without a fault, and every fault turns one red by an assertion of its own."""

import time

import pytest

from repro import digest, faults
from repro.mad_rl import (
    rewards_checks,
    rewards_faults,
    simulation_checks,
    simulation_faults,
    training_checks,
    training_faults,
)

PAIRS = {
    "rewards": (rewards_checks.CHECKS, rewards_faults.FAULTS),
    "simulation": (simulation_checks.CHECKS, simulation_faults.FAULTS),
    "training": (training_checks.CHECKS, training_faults.FAULTS),
}


SECONDS = {"rewards": 1, "simulation": 1, "training": 5}  # of this process


@pytest.mark.parametrize("name", PAIRS)
def test_checks_are_green_and_fast(name):
    checks = PAIRS[name][0]
    faults.red(checks)  # imports and makes the tiny model
    start = time.process_time()
    assert faults.red(checks) == {}
    assert time.process_time() - start < SECONDS[name]


@pytest.mark.parametrize("name", PAIRS)
def test_every_fault_is_caught_by_few_checks_and_then_gone(name):
    """By assertions of their own, not by a crash that any change would cause."""
    checks, table = PAIRS[name]
    assert len(table) >= 5
    for fault in table:
        with faults.plant(table, fault):
            messages = faults.red(checks)
        assert 0 < len(messages) <= len(checks) / 2, f"{fault}: {messages}"
    assert faults.red(checks) == {}


def test_the_mechanism_needs_no_torch():
    for name in ("rewards", "divergences", "advantages", "combine", "simulation"):
        _, packages = digest.closure(f"from repro.mad_rl import {name}")
        assert set(packages).isdisjoint({"torch", "transformers"}), name
