"""Deliberate faults kill checks, and a fault that kills none is told."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from repro import cli, faults
from repro.actkv import confidence_checks, confidence_faults
from repro.errors import ReproError
from repro.evidence import teeth


def test_every_fault_of_a_notebook_is_caught_without_the_notebook():
    found = teeth.bite("actkv/confidence")
    assert found.sound and found.checks == len(confidence_checks.CHECKS)
    assert found.caught.keys() == confidence_faults.FAULTS.keys() == found.summaries.keys()


def test_a_fault_that_breaks_nothing_is_told(monkeypatch):
    name = next(iter(confidence_faults.FAULTS))
    target = confidence_faults.FAULTS[name].target
    idle = faults.Fault("changes nothing", target, lambda original: original)
    monkeypatch.setitem(confidence_faults.FAULTS, "idle", idle)
    found = teeth.bite("actkv/confidence")
    assert found.uncaught == ["idle"] and not found.sound


def test_a_red_check_is_told(monkeypatch):
    def failing():
        raise AssertionError("as it is")

    monkeypatch.setitem(confidence_checks.CHECKS, "failing", failing)
    found = teeth.bite("actkv/confidence")
    assert found.red == {"failing": "as it is"} and not found.sound


def test_a_notebook_without_tables_is_named(monkeypatch):
    monkeypatch.setattr(teeth.notebooks, "read", lambda key: type("N", (), {"cells": ("x = 1",)}))
    with pytest.raises(ReproError, match="some/where imports no CHECKS"):
        teeth.bite("some/where")


def test_the_command_lists_each_fault_and_fails_where_one_is_not_caught(monkeypatch):
    arguments = ["evidence", "faults", "actkv/confidence"]
    found = CliRunner().invoke(cli.main, arguments)
    assert found.exit_code == 0 and "NOT CAUGHT" not in found.output
    assert all(name in found.output for name in confidence_faults.FAULTS)
    target = next(iter(confidence_faults.FAULTS.values())).target
    idle = faults.Fault("changes nothing", target, lambda original: original)
    monkeypatch.setitem(confidence_faults.FAULTS, "idle", idle)
    found = CliRunner().invoke(cli.main, arguments)
    assert found.exit_code == 1 and "idle (changes nothing): NOT CAUGHT" in found.output


def test_kernels_are_found_from_any_folder(tmp_path):
    command = [sys.executable, "-m", "repro.cli", "evidence", "faults", "actkv/kernels"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "NOT CAUGHT" not in done.stdout, done.stderr
