"""What the faults of one notebook reach stays out of the other."""

from repro import digest


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
