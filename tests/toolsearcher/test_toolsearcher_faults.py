"""Checks are green without a fault; every fault turns one red, by an assertion of its own."""

from functools import cache

import pytest

from repro import digest, faults
from repro.toolsearcher import credit_checks, credit_faults, objective_checks, objective_faults

PAIRS = {
    "credit": (credit_checks.CHECKS, credit_faults.FAULTS),
    "objective": (objective_checks.CHECKS, objective_faults.FAULTS),
}
# What the issue and the notes' section 7 ask for by name, and the check that must catch it.
ASKED = {
    "retrieved_in_loss": ("objective", "nothing_outside_the_mask_has_a_gradient"),
    "mask_off_by_one": ("objective", "event_boundaries_are_sharp"),
    "logits_off_by_one": ("objective", "event_boundaries_are_sharp"),
    "mask_multiplied": ("objective", "infinities_outside_the_mask_leave_no_trace"),
    "gate_removed": ("credit", "worked_selection_advantages"),
    "repeats_credited": ("credit", "finding_again_earns_nothing"),
    "negative_search_credit": ("credit", "search_credit_is_never_negative"),
    "nan_at_zero_variance": ("credit", "identical_rewards_give_zero"),
}


@cache
def caught(name):
    return faults.audit(PAIRS[name][1], PAIRS[name][0])


@pytest.mark.parametrize("fault", ASKED)
def test_the_faults_that_were_asked_for_are_caught_where_they_should_be(fault):
    name, check = ASKED[fault]
    assert check in caught(name)[fault]


@pytest.mark.parametrize("name", PAIRS)
def test_every_check_can_fail(name):
    """A check that no fault turns red has not been seen to check anything."""
    seen = {check for red in caught(name).values() for check in red}
    assert set(PAIRS[name][0]) - seen == set()


def test_credit_needs_no_torch_and_neither_knows_the_other():
    _, packages = digest.closure(
        "from repro.toolsearcher import credit, credit_checks, credit_faults"
    )
    assert "torch" not in packages
    modules, _ = digest.closure("from repro.toolsearcher import objective, tokens")
    assert "repro.toolsearcher.credit" not in modules
