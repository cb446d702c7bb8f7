"""A reader's verdict on records made elsewhere."""

import json
from copy import deepcopy

import numpy as np
import pytest
from click.testing import CliRunner

from repro import cli, evidence, files, levels, profiles, provenance, records
from repro.errors import ReproError
from repro.evidence import verdict

KEY = "actkv/confidence"
MODULE = "repro.actkv.confidence"


def made(seed, value=0.5, **changed):
    inputs = {
        "cells": "0" * 64,
        "modules": {MODULE: "1" * 64},
        "parameters": {"seed": seed, "fault": "", "top_k": 20},
        "assets": {"bfcl-v4": "2" * 64},
        "packages": {"numpy": "2.4.0"},
    } | changed.pop("inputs", {})
    return {
        "schema": 1,
        "notebook": KEY,
        "digest": files.digest(inputs),
        "inputs": inputs,
        "parameters": inputs["parameters"],
        "checks": [{"name": "ladder", "passed": True, "sentence": "it holds"}],
        "metrics": [{"name": "share", "value": value, "unit": "fraction", "direction": "none",
                     "split": "base", "n": 9}],
        "comparisons": [],
        "faults": {"sign": ["ladder"]},
        "versions": {"python": "3.11.1", "numpy": "2.4.0"},
        "device": "CPU",
        "started": f"2026-12-01T00:00:{seed:02d}Z",
        "wall_s": 1.0,
        "peak_memory_bytes": 1,
    } | changed  # fmt: skip


@pytest.fixture
def on_file(monkeypatch, tmp_path):
    """Puts records of seeds 1 to n on file, in one profile."""

    def put(n):
        held = [
            evidence.Status(KEY, "cpu", s, "fresh", record=made(s, 0.5 + 0.01 * (s % 3)))
            for s in range(1, n + 1)
        ]
        monkeypatch.setattr(profiles, "names", lambda: ["default", "cpu"])
        monkeypatch.setattr(evidence, "of_profile", lambda key, p: held if key == KEY else [])
        monkeypatch.setattr(verdict, "CONFIRMATIONS", tmp_path / "confirmations")
        return held

    return put


def test_the_same_seed_is_held_to_the_tolerance(on_file):
    on_file(3)
    assert verdict.read(made(2, 0.52)).verdict == "inside"
    found = verdict.read(made(2, 0.55))
    assert found.verdict == "outside" and found.outside == ("share was 0.52, is 0.55",)


def test_another_seed_needs_five_on_file_and_their_interval(on_file):
    on_file(4)
    found = verdict.read(made(9))
    assert found.verdict == "not comparable" and "takes 5 seeds, not 4" in found.why
    on_file(5)
    assert verdict.read(made(9, 0.51)).verdict == "inside"
    found = verdict.read(made(9, 0.60))
    assert found.verdict == "outside" and "predicted" in found.why


def test_the_prediction_interval_by_hand():
    # mean 3, s = sqrt(2.5), t(4) = 2.776, sqrt(1 + 1/5)
    low, high = verdict.predicted([1, 2, 3, 4, 5])
    assert (low, high) == pytest.approx((3 - 4.8087, 3 + 4.8087), abs=1e-3)
    with pytest.raises(ValueError, match="n >= 5"):
        verdict.predicted([1.0, 2.0])


def test_the_interval_holds_95_percent_of_new_runs():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2000, 6))
    inside = [low <= x <= high for *held, x in draws for low, high in [verdict.predicted(held)]]
    assert 0.935 < np.mean(inside) < 0.965


@pytest.mark.parametrize(
    "inputs, says",
    [
        ({"cells": "9" * 64}, "the notebook's code changed"),
        ({"modules": {MODULE: "9" * 64}}, f"module {MODULE}"),
        ({"parameters": {"seed": 2, "fault": "", "top_k": 1}}, "parameter top_k (20 → 1)"),
        ({"assets": {"bfcl-v4": "9" * 64}}, "asset bfcl-v4"),
        ({"packages": {"numpy": "1.0"}}, "package numpy (2.4.0 → 1.0)"),
    ],
)
def test_the_first_differing_input_is_named(on_file, inputs, says):
    on_file(3)
    found = verdict.read(made(2, 0.52, inputs=inputs))
    assert found.verdict == "not comparable" and says in found.why


def test_installed_versions_device_and_fault_are_inputs_too(on_file):
    on_file(3)
    for changed, says in (
        ({"versions": {"python": "3.12.0", "numpy": "2.5.0"}}, "version of numpy (2.4.0 → 2.5.0)"),
        ({"device": "A100-SXM4-80GB"}, "device class (CPU → A100-SXM4-80GB)"),
    ):
        assert says in verdict.read(made(2, 0.52, **changed)).why
    planted = made(2, inputs={"parameters": {"seed": 2, "fault": "sign", "top_k": 20}})
    assert "was planted" in verdict.read(planted).why
    assert verdict.read(made(2, versions={"python": "3.12.0", "numpy": "2.4.0"})).profile == "cpu"


def test_a_confirmation_is_kept_counted_and_lost_with_its_reason(on_file):
    on_file(3)
    other = made(2, 0.52, started="2026-12-02T00:00:00Z")
    path = verdict.accept(other, verdict.read(other))
    assert records.load(path) == other and verdict.accept(other, verdict.read(other)) == path
    assert len(verdict.confirmations(KEY, "cpu")) == 1
    assert provenance.confirmed([KEY]) == "1 accepted record of other executions"
    assert levels._confirmed({"notebooks": [KEY], "profile": "cpu"})
    assert not levels._confirmed({"notebooks": [KEY, "actkv/eviction"], "profile": "cpu"})
    held = on_file(3)
    held[1].record["metrics"][0]["value"] = 0.9  # what is on file has changed since
    assert verdict.confirmations(KEY, "cpu") == []
    assert provenance.confirmed([KEY]) == "no accepted records of other executions"


def test_what_disagrees_or_names_a_machine_is_not_kept(on_file):
    on_file(3)
    with pytest.raises(ReproError, match="outside is no confirmation"):
        verdict.accept(made(2, 0.9), verdict.read(made(2, 0.9)))
    leaky = made(2, 0.52)
    leaky["checks"][0]["sentence"] = "see " + "/".join(["", "srv", "alice", "data"])
    with pytest.raises(ReproError, match="The record holds what must not be.*/checks/0/sentence"):
        verdict.accept(leaky, verdict.read(leaky))


def test_the_command_says_it_in_its_exit_code(on_file, tmp_path):
    on_file(3)
    for value, code, word in ((0.52, 0, "inside"), (0.9, 1, "outside")):
        path = tmp_path / "seed-2.json"
        path.write_text(records.dumps(made(2, value)))
        found = CliRunner().invoke(cli.main, ["verdict", str(path)])
        assert found.exit_code == code and found.output.startswith(word)
    broken = deepcopy(made(2))
    broken["digest"] = "0" * 64
    path.write_text(json.dumps(broken))
    assert CliRunner().invoke(cli.main, ["verdict", str(path)]).exit_code == 1
