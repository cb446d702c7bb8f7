"""A record is complete, valid and whole, or it is refused by name."""

import copy
import json

import pytest

from repro import assets, files, records
from repro.errors import ReproError

INPUTS = {
    "cells": "0" * 64,
    "modules": {},
    "parameters": {"seed": 42, "fault": ""},
    "assets": {},
    "packages": {"numpy": "2.4.6"},
}


@pytest.fixture
def run() -> records.Run:
    run = records.Run("demo/a", {"seed": 42, "fault": "", "record": ""}, INPUTS)
    run.check("one", True, "one is one")
    run.metric("share", 0.5, unit="fraction", direction="higher", split="base", n=3)
    run.compare(
        "budget", unit="entries", item="trace", ids=["a", "b"], arms={"x": [1, 2], "y": [1, 3]}
    )
    run.faults({"broken": ["one"]})
    return run


def test_round_trip(run, tmp_path):
    value = run.record()
    path = tmp_path / "seed-42.json"
    files.write_atomic(path, records.dumps(value))
    assert records.load(path) == value
    assert value["device"] == "CPU" and value["versions"].keys() == {"python", "numpy"}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_metric_must_be_a_number(run, bad):
    with pytest.raises(ValueError, match=r"metric other=(nan|inf) is not finite"):
        run.metric("other", bad, unit="x", direction="none", split="s", n=1)


def test_names_are_used_once(run):
    with pytest.raises(ValueError, match="check name='one' is used twice"):
        run.check("one", True, "again")


def test_pairs_must_be_complete(run):
    with pytest.raises(ValueError, match=r"arms\['y'\] has 1 values; accepted: 2"):
        run.compare("m", unit="u", item="i", ids=["a", "b"], arms={"x": [1, 2], "y": [1]})


@pytest.mark.parametrize(
    "where, value, says",
    [
        (("schema",), 2, "$.schema"),
        (("digest",), "1" * 64, "$.digest does not match"),
        (("inputs", "cells"), "1" * 64, "$.digest does not match"),
        (("metrics", 0, "direction"), "up", "$.metrics[0].direction"),
        (("metrics", 0, "n"), 0, "$.metrics[0].n"),
        (("started",), "yesterday", "$.started"),
        (("device",), "/dev/nvidia0", "$.device"),
        (("comparisons", 0, "ids"), ["a"], "misses pairs"),
        (("host",), "me", "must not contain"),
    ],
)
def test_tampered_record_is_refused_by_field(run, where, value, says):
    record = copy.deepcopy(run.record())
    target = record
    for part in where[:-1]:
        target = target[part]
    target[where[-1]] = value
    with pytest.raises(ReproError) as error:
        records.validate(record)
    assert says in str(error.value)


def test_truncated_record_is_refused(run, tmp_path):
    path = tmp_path / "seed-42.json"
    path.write_text(records.dumps(run.record())[:200])
    with pytest.raises(ReproError, match="not readable as JSON"):
        records.load(path)


def test_finish_raises_on_red_unless_a_fault_is_planted(run, capsys):
    run.check("two", False, "two is three")
    with pytest.raises(records.CheckFailed, match="red without a planted fault: two"):
        run.finish()
    run.parameters = run.parameters | {"fault": "broken"}
    run.finish()


def test_finish_writes_where_the_parameter_says(run, tmp_path):
    run.parameters = run.parameters | {"record": str(tmp_path / "deep" / "r.json")}
    run.finish()
    assert json.loads((tmp_path / "deep" / "r.json").read_text())["notebook"] == "demo/a"


def test_write_atomic_keeps_the_old_file_when_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "x"
    files.write_atomic(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError):
        files.write_atomic(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_asset_that_is_read_has_to_be_declared(run, monkeypatch):
    monkeypatch.setattr(assets, "USED", {*assets.USED, "some-data"})
    with pytest.raises(ReproError, match="reads some-data, which records.start does not name"):
        run.record()
