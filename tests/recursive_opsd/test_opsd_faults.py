"""Checks are green without a fault; every fault turns one red, and not nearly all of them."""

from repro import digest


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
