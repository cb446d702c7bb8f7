"""`repro evidence` and scripts/validate_gpu_evidence.py from end to end; no byte changes unseen."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from desk import ENVIRONMENT, KEY, made, session
from project import CHECK, Project

from repro import levels, records
from repro.evidence import receipts, validate
from repro.evidence.receipts import build, sign
from repro.paths import ROOT

CLAIMS = """
papers:
  demo: {name: Demo, title: Demo, arxiv: "0000.00000", seed_row: x, cost: x}
claims:
  - {id: demo-one, paper: demo, title: One, statement: one, published: null, source: none,
     evidence: {notebooks: [demo/a], profile: tiny, receipts: {devices: [A30]}},
     needs: {}, deviations: []}
"""
PROFILE = "summary: tiny\nseeds: [1, 2]\nnotebooks: {demo/a: {word: small}}\n"
METRIC = "run.metric('m', 0.5, unit='x', direction='none', split='s', n=1)"


# tampering


@pytest.fixture
def everything(desk, tmp_path_factory):
    """A desk with a superseded, a signed and a session's receipt, and records under two seeds."""
    key = tmp_path_factory.mktemp("private") / "key.pem"
    sign.keygen(key, 365, datetime(2026, 12, 3, tzinfo=UTC))
    first = build.from_record(desk.record)
    desk.keep(made(desk.inputs, 0.7))
    signed = build.superseding(first["receipt_id"])
    sign.sign(signed, key, datetime(2026, 12, 4, tzinfo=UTC))
    other = desk.root / "_build/session.json"
    other.write_text(json.dumps(session()))
    build.from_file(other)
    assert validate.validate().problems == []
    return desk


# One file of each kind, and how many bytes apart the changes are (primes, to meet every column).
KINDS = {
    "evidence/records/actkv/kernels/cpu/seed-42.json": 307,
    "evidence/records/index.jsonl": 13,
    "evidence/receipts/index.jsonl": 23,
    "evidence/receipts/actkv/kernels/*[0-9a-f].json": 383,
    "evidence/receipts/actkv/kernels/*.dsse.json": 1009,
    "evidence/receipts/kernels/session/*.json": 809,
    "evidence/executed/actkv/kernels/cpu/seed-42.ipynb": 401,
    "evidence/executed/kernels/session/*.json": 167,
    "evidence/keys/*.json": 41,
    "book/receipts/*.md": 13,
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_changed_byte_goes_unseen(everything, monkeypatch, kind):
    monkeypatch.setattr(validate.source, "reachable", lambda commit: None)  # saves time
    monkeypatch.setattr("repro.evidence.source.committed", lambda name: "")
    paths = sorted(everything.root.glob(kind))
    assert paths
    for path in paths:
        whole = path.read_bytes()
        tried = [*range(0, len(whole), KINDS[kind]), len(whole) - 1]
        for at in tried:
            for change in (whole[at] ^ 1, whole[at] ^ 128) if at % 5 == 0 else (whole[at] ^ 1,):
                path.write_bytes(whole[:at] + bytes([change]) + whole[at + 1 :])
                assert validate.validate().problems, f"{path.name}, byte {at}"
        for other in (whole + b"\n", whole[:-1], whole.replace(b"1", b"2"), b""):
            path.write_bytes(other)
            assert other == whole or validate.validate().problems, path.name
        path.write_bytes(whole)
    assert validate.validate().problems == []


def test_removed_added_and_exchanged_files_are_seen(everything):
    root = everything.root
    for pattern in KINDS:
        for path in root.glob(pattern):
            if path.name.endswith(receipts.ENVELOPE):
                continue  # a receipt without signature is legal
            whole = path.read_bytes()
            path.unlink()
            assert validate.validate().problems, path.name
            path.write_bytes(whole)
    for name in ("evidence/executed/x/y.ipynb", "book/receipts/x.md", "evidence/receipts/x.json"):
        stray = root / name
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text("{}")
        assert any(stray.name in told for told in validate.validate().problems)
        stray.unlink()
    one, two, *_ = receipts.on_disk()
    a, b = one.read_bytes(), two.read_bytes()
    one.write_bytes(b), two.write_bytes(a)
    assert validate.validate().problems
    one.write_bytes(a), two.write_bytes(b)
    assert validate.validate().problems == []


@pytest.mark.parametrize("held", [False, True])
def test_another_commit_is_seen(everything, monkeypatch, held):
    """A commit that is here but not before HEAD is a fault; one that is not here is told."""
    (receipt,) = [r for r in receipts.current() if r["subject"] == KEY]
    lonely = receipt["source"] | {"commit": "1" * 40}
    body = receipt | {"source": lonely, "supersedes": receipt["receipt_id"]}
    receipts.write(body | {"receipt_id": receipts.identity(body)})
    if held:
        monkeypatch.setattr("repro.evidence.source.reachable", lambda commit: False)
    report = validate.validate()
    told = report.problems if held else report.notes
    assert any("in the history" in line or "in the git history" in line for line in told)


# end to end, in a project of its own


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project in git with two committed records, made by `repro run`."""
    made_ = Project(tmp_path_factory.mktemp("project"))
    folder = made_.folder
    for name in ("receipts", "executed", "keys", "confirmations"):
        shutil.rmtree(folder / "evidence" / name, ignore_errors=True)
    (folder / "evidence/claims.yml").write_text(CLAIMS)
    (folder / "profiles/tiny.yml").write_text(PROFILE)
    (folder / ".gitignore").write_text("_build/\n__pycache__/\n")
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/validate_gpu_evidence.py", folder / "scripts")
    made_.write("a", CHECK, METRIC)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    code, said = made_.repro("run", "demo/a", "--profile", "tiny")
    assert code == 0, said
    return made_


def git(folder, *arguments):
    subprocess.run(["git", *ENVIRONMENT, *arguments], cwd=folder, check=True)


def script(project, *arguments):
    done = subprocess.run(
        [sys.executable, "scripts/validate_gpu_evidence.py", *arguments],
        cwd=project.folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_whole_path(project, tmp_path):
    record = "evidence/records/demo/a/tiny/seed-1.json"
    assert script(project) == (
        0,
        "integrity: 0 receipts (0 current, 0 signed, 0 expired), 2 records, 0 executed notebooks: "
        "consistent.\n",
    )
    code, said = project.repro("evidence", "receipt", record)
    assert code == 0 and "(passed)" in said, said
    (path,) = (project.folder / "evidence/receipts/demo/a").glob("*.json")
    name = path.stem
    assert project.repro("evidence", "keygen", str(tmp_path / "key.pem"))[0] == 0
    assert project.repro("evidence", "sign", name, "--key", str(tmp_path / "key.pem"))[0] == 0
    code, said = script(project, "--level", "inputs")
    assert code == 0 and said.startswith("inputs: 1 receipts (1 current, 1 signed"), said
    code, said = script(project, "--level", "rerun", name)
    assert code == 0 and "Executing demo/a again" in said and "2 receipts (1 current" in said
    code, said = project.repro("evidence", "list")
    assert code == 0 and f"{name}  demo/a  CPU" in said
    assert "passed, repeated, 1 of 1 agree; key" in said

    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-q", "-m", "x")
    code, said = project.repro("evidence", "supersede", name)
    assert code == 0, said
    crate = tmp_path / "crate"
    code, said = project.repro("evidence", "export", name, str(crate))
    assert code == 0 and (crate / "ro-crate-metadata.json").is_file(), said

    # a number edited by hand, in a record that no receipt names
    other = project.folder / record.replace("seed-1", "seed-2")
    whole = other.read_text()
    other.write_text(whole.replace('"value": 0.5', '"value": 0.6'))
    code, said = script(project)
    assert code == 1 and "seed-2.json is not what was recorded" in said and "1 problems" in said
    assert "edited after it was written" in project.repro("status")[1]
    other.write_text(whole)

    # a module of the run changes: integrity holds, inputs tells
    notebook = project.folder / "notebooks/demo/a.ipynb"
    kept = notebook.read_text()
    notebook.write_text(kept.replace("0.5, unit", "0.4, unit"))
    assert script(project)[0] == 0
    code, said = script(project, "--level", "inputs")
    assert code == 1 and "the notebook's code changed" in said
    code, said = project.repro("evidence", "receipt", "demo/a")
    assert code == 1 and "Not committed: notebooks/demo/a.ipynb" in said
    notebook.write_text(kept)


@pytest.mark.parametrize(
    "arguments",
    [("--level", "deep"), ("--what",), ("--level",), ("a", "b"), ("ffffffff", "--level", "inputs")],
)
def test_unusable_arguments_are_exit_code_2(project, arguments):
    assert script(project, *arguments)[0] == 2


def test_a_claim_that_names_no_accelerator_is_seen(project):
    claims = project.folder / "evidence/claims.yml"
    claims.write_text(CLAIMS.replace("A30", "CPU"))
    code, said = script(project)
    claims.write_text(CLAIMS)
    assert code == 1 and "claim demo-one: 'CPU' is no accelerator that is listed" in said


def test_without_git_it_says_what_it_could_not_tell(project):
    moved = project.folder / "git"
    (project.folder / ".git").rename(moved)
    try:
        code, said = script(project)
        assert code == 0 and ("0 receipts" in said or "not in the git history here" in said)
    finally:
        moved.rename(project.folder / ".git")


# the book's own evidence


def test_what_is_on_file_in_this_book_is_consistent():
    report = validate.validate("integrity")
    assert report.problems == []
    assert levels.inconsistent() == [] and records  # claims included


def test_no_receipt_on_file_is_of_an_accelerator_unless_the_runtime_said_so():
    for receipt in receipts.everything():
        assert receipt["device"]["class"] in ("CPU", "other") or receipt["device"]["memory_bytes"]
