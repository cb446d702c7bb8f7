"""Export to RO-Crate: what the specification and the profile require, and byte for byte again."""

import copy
import json

import pytest

from repro.errors import BadParameter, ReproError
from repro.evidence import receipts
from repro.evidence.receipts import build, crate


@pytest.fixture
def exported(desk, tmp_path_factory):
    receipt = build.from_record(desk.record)
    folder = tmp_path_factory.mktemp("crate") / "out"
    return receipt, crate.export(receipt, folder)


def of(described, name):
    (entity,) = [e for e in described["@graph"] if e["@id"] == name]
    return entity


def test_a_crate_has_the_receipt_its_files_and_the_run(desk, exported):
    receipt, path = exported
    described = json.loads(path.read_text())
    assert path.name == "ro-crate-metadata.json" and crate.check(described, path.parent) == []
    assert described["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    run, root = of(described, "#run"), of(described, "./")
    assert run["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert run["startTime"] == "2026-12-01T10:00:00Z" and run["endTime"] == "2026-12-01T10:00:12Z"
    assert root["identifier"] == receipt["receipt_id"]
    record = of(described, receipt["files"][0]["path"])
    assert record["sha256"] == receipt["files"][0]["sha256"]
    assert (path.parent / record["@id"]).read_bytes() == desk.record.read_bytes()
    assert json.loads((path.parent / "receipt.json").read_text()) == receipt
    metric = of(described, "#metric-1")
    assert (metric["name"], metric["value"], metric["unitText"]) == ("share", 0.5, "fraction")
    tool = of(described, run["instrument"]["@id"])
    assert tool["version"] == receipt["source"]["commit"]
    assert of(described, run["agent"]["@id"])["@type"] == "Organization"  # a role, no person


def test_it_is_made_again_byte_for_byte(exported, tmp_path_factory):
    receipt, path = exported
    again = crate.export(receipt, tmp_path_factory.mktemp("again") / "out")
    for one in path.parent.rglob("*"):
        if one.is_file():
            assert (again.parent / one.relative_to(path.parent)).read_bytes() == one.read_bytes()


def test_a_run_that_failed_is_a_failed_action(desk, exported):
    receipt, _ = exported
    failed = receipt | {"outcome": "timed_out", "reason": "took longer than 6 s"}
    run = of(crate.metadata(failed), "#run")
    assert run["actionStatus"].endswith("FailedActionStatus") and "longer" in run["error"]
    assert crate.check(crate.metadata(failed)) == []


def test_what_is_missing_is_told(exported):
    _, path = exported
    good = json.loads(path.read_text())

    def broken(change):
        bad = copy.deepcopy(good)
        change(bad)
        return "; ".join(crate.check(bad, path.parent))

    for change, says in (
        (lambda c: c["@graph"].remove(of(c, "ro-crate-metadata.json")), "does not describe ./"),
        (lambda c: of(c, "./").pop("license"), "./ has no license"),
        (lambda c: of(c, "./").pop("datePublished"), "./ has no datePublished"),
        (lambda c: of(c, "./").pop("conformsTo"), "conforms to"),
        (lambda c: of(c, "./").pop("mentions"), "just one CreateAction"),
        (lambda c: of(c, "./")["hasPart"].pop(), "is not part of ./"),
        (lambda c: of(c, "#run").pop("instrument"), "the action has no instrument"),
        (lambda c: of(c, "#run").pop("endTime"), "the action has no endTime"),
        (lambda c: of(c, "#run").update(actionStatus="x"), "neither completed nor failed"),
        (lambda c: of(c, "#run").update(error="x"), "error without failure"),
        (lambda c: of(c, "#run").update(agent={"@id": "receipt.json"}), "of another type"),
        (lambda c: c["@graph"].remove(of(c, "#runner")), "which is not there"),
        (lambda c: c["@graph"].append(of(c, "#run")), "used twice"),
        (lambda c: c.update({"@context": []}), "@context"),
        (lambda c: c.update({"@graph": [{}]}), "no list of entities"),
        (lambda c: of(c, "receipt.json").update(contentSize="1"), "another contentSize"),
        (lambda c: of(c, "receipt.json").update(sha256="0" * 64), "another sha256"),
    ):
        assert says in broken(change), says
    (path.parent / "receipt.json").unlink()
    assert "receipt.json: no such file" in broken(lambda c: None)


def test_a_changed_file_and_a_full_folder_are_refused(desk, exported, tmp_path_factory):
    receipt, path = exported
    with pytest.raises(BadParameter, match="is not empty"):
        crate.export(receipt, path.parent)
    desk.record.write_text(desk.record.read_text() + "\n")
    with pytest.raises(ReproError, match="absent or not the one"):
        crate.export(receipt, tmp_path_factory.mktemp("x"))
    assert receipts.everything() == [receipt]
