"""Checks are green without a fault, and every fault turns one red by an assertion of its own."""

from repro import digest


def test_the_mechanism_needs_no_torch():
    for name in ("rewards", "divergences", "advantages", "combine", "simulation"):
        _, packages = digest.closure(f"from repro.mad_rl import {name}")
        assert set(packages).isdisjoint({"torch", "transformers"}), name
