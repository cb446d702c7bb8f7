"""Planting, removing and auditing deliberate faults."""

import pytest

from repro import faults, files
from repro.errors import BadParameter

TABLE = {
    "upside_down": faults.Fault("reversed", "repro.files:digest", lambda f: lambda v: f(v)[::-1]),
    "harmless": faults.Fault("nothing changes", "repro.files:digest", lambda f: f),
}


def known_value():
    if not files.digest([]).startswith("4f53cda1"):
        raise AssertionError("the hash of an empty list")


def test_a_fault_is_seen_and_removed():
    original = files.digest
    with faults.plant(TABLE, "upside_down"):
        assert faults.red({"known": known_value}) == {"known": "the hash of an empty list"}
    assert files.digest is original
    assert faults.red({"known": known_value}) == {}


def test_audit_names_what_caught_each_fault():
    assert faults.audit(TABLE, {"known": known_value}) == {"upside_down": ["known"], "harmless": []}


def test_unknown_fault_lists_the_known_ones():
    with pytest.raises(BadParameter, match=r"fault='x' is not known here; accepted: '' or \['harm"):
        faults.plant(TABLE, "x")


def test_no_fault_plants_nothing():
    original = files.digest
    faults.plant(TABLE, "")
    assert files.digest is original
