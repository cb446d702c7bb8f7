"""Checks are green without a fault; every fault turns one red, and not nearly all of them."""

import time

import pytest

from repro import digest, faults
from repro.recursive_opsd import (
    answers_checks,
    answers_faults,
    divergences_checks,
    divergences_faults,
    prompts_checks,
    prompts_faults,
)

PAIRS = {
    "answers": (answers_checks.CHECKS, answers_faults.FAULTS),
    "divergences": (divergences_checks.CHECKS, divergences_faults.FAULTS),
    "prompts": (prompts_checks.CHECKS, prompts_faults.FAULTS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_checks_are_green_and_fast(name):
    prompts_checks.model()  # importing transformers is no check
    start = time.perf_counter()
    assert faults.red(PAIRS[name][0]) == {}
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("name", PAIRS)
def test_every_fault_is_caught_told_apart_and_then_gone(name):
    checks, table = PAIRS[name]
    assert len(table) >= 10
    caught = faults.audit(table, checks)
    assert [fault for fault, red in caught.items() if not red] == []
    assert all(len(red) < len(checks) / 2 for red in caught.values()), caught
    assert faults.red(checks) == {}


def test_changes_reach_only_the_notebooks_that_use_them():
    def modules(name):
        code = f"from repro.recursive_opsd import {name}, {name}_checks, {name}_faults"
        found, packages = digest.closure(code)
        return {m.rpartition(".")[2] for m in found}, set(packages)

    ours, packages = modules("answers")
    assert {"gates", "srcl", "verifier"} <= ours and "prompts" not in ours
    assert "transformers" not in packages
    ours, _ = digest.closure("from repro.recursive_opsd import losses, divergences_checks")
    assert not any(name.endswith(("prompts", "answers")) for name in ours)
