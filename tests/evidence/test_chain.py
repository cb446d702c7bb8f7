"""The list of records and its chain: whatever changes a byte of either is seen."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from desk import made
from hypothesis import given, settings
from hypothesis import strategies as st

from repro import evidence, files, paths, records, runs
from repro.errors import ReproError
from repro.evidence import chain, manifest, source
from repro.evidence.chain import FIRST, Chain

LIST = Chain("evidence/list.jsonl", ("path", "sha256"))


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(paths, "EVIDENCE", tmp_path / "evidence")
    return tmp_path


def grow(n):
    for i in range(n):
        with chain.lock():
            LIST.append({"path": f"p{i}", "sha256": f"{i}"})


def test_each_line_names_the_hash_of_the_one_before(room):
    grow(3)
    lines = (room / LIST.name).read_text().splitlines()
    told = [json.loads(line)["previous"] for line in lines]
    assert told[0] == FIRST and [e["path"] for e in LIST.entries()] == ["p0", "p1", "p2"]
    import hashlib

    assert told[1:] == [hashlib.sha256(line.encode()).hexdigest() for line in lines[:2]]
    assert LIST.problems() == []
    with pytest.raises(ValueError, match="accepted"):
        LIST.append({"path": "x"})


@settings(max_examples=30)
@given(st.data())
def test_a_changed_removed_or_moved_line_breaks_the_chain(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("chain")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ROOT", "BUILD", "EVIDENCE"):
            patch.setattr(paths, name, folder)
        patch.setattr(source, "committed", lambda name: "")
        grow(4)
        path = folder / LIST.name
        whole = path.read_bytes()
        end = whole.rindex(b"\n", 0, -1)  # the last line is held by what it names
        at = data.draw(st.integers(0, end), label="at")
        byte = data.draw(st.integers(0, 255).filter(lambda b: b != whole[at]), label="byte")
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        assert LIST.problems()
        with pytest.raises(ReproError, match="Nothing is built on a broken list"):
            LIST.append({"path": "x", "sha256": "y"})
        lines = whole.splitlines(keepends=True)
        i = data.draw(st.integers(0, 2), label="line")
        for other in (
            lines[:i] + lines[i + 1 :],
            lines[:i] + [lines[i + 1], lines[i]] + lines[i + 2 :],
            lines[: i + 1] + lines[i:],
        ):
            path.write_bytes(b"".join(other))
            assert LIST.problems()
        path.write_bytes(whole[:-1])
        assert LIST.problems()


def test_two_writers_at_once_do_not_fork_the_chain(room):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: grow(4), range(4)))
    assert len(LIST.entries()) == 16 and LIST.problems() == []


FORK = """
import sys
from pathlib import Path
from repro import paths
root = Path(sys.argv[1])
paths.ROOT, paths.BUILD, paths.EVIDENCE = root, root / "_build", root / "evidence"
from repro.evidence import chain
for i in range(8):
    with chain.lock():
        chain.Chain("evidence/list.jsonl", ("path", "sha256")).append({"path": "p", "sha256": "s"})
"""


def test_nor_do_two_processes(room):
    import subprocess
    import sys

    command = [sys.executable, "-c", FORK, str(room)]
    for one in [subprocess.Popen(command) for _ in range(3)]:
        assert one.wait(60) == 0
    assert len(LIST.entries()) == 24 and LIST.problems() == []


def test_a_failed_write_leaves_the_list_as_it_was(room, monkeypatch):
    grow(2)
    before = (room / LIST.name).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        grow(1)
    assert (room / LIST.name).read_bytes() == before
    assert [p.name for p in (room / "evidence").iterdir()] == ["list.jsonl"]


def test_a_run_enters_its_record_and_an_edited_number_is_seen(desk):
    assert manifest.problems() == [] and not manifest.edited(desk.record)
    whole = desk.record.read_text()
    desk.record.write_text(whole.replace('"value": 0.5', '"value": 0.9'))
    assert records.load(desk.record)["metrics"][0]["value"] == 0.9  # valid by its schema
    name = "evidence/records/actkv/kernels/cpu/seed-42.json"
    assert manifest.problems() == [f"{name} is not what was recorded: its SHA-256 is another"]
    assert manifest.edited(desk.record)
    status = evidence._of_file("actkv/kernels", "cpu", desk.record)
    assert status.state == "missing" and "edited after it was written" in status.why
    desk.record.write_text(whole)
    assert evidence._of_file("actkv/kernels", "cpu", desk.record).state == "fresh"


def test_the_runner_writes_record_and_line(desk):
    record = made(desk.inputs, 0.7)
    run = runs.plan("actkv/kernels", "cpu", 42)
    from desk import executed

    outcome = runs.Outcome(run, "done", "fine.", json.dumps(executed(record)))
    assert runs.keep(outcome, force=True).status == "done"
    assert records.load(desk.record) == record and manifest.problems() == []
    assert len(manifest.CHAIN.entries()) == 2
    (desk.root / manifest.CHAIN.name).write_text("broken\n")
    kept = runs.keep(
        runs.Outcome(run, "done", "fine.", json.dumps(executed(made(desk.inputs)))), force=True
    )
    assert kept.status == "failed" and "not in the list of records" in kept.message
    assert records.load(desk.record) == made(desk.inputs)  # what was found is not lost


def test_new_removed_and_changed_records_are_told_and_can_be_vouched_for(desk):
    other = desk.record.with_name("seed-43.json")
    other.write_text(desk.record.read_text())
    assert manifest.problems() == [
        "evidence/records/actkv/kernels/cpu/seed-43.json is not in evidence/records/index.jsonl"
    ]
    assert manifest.reindex() == ["evidence/records/actkv/kernels/cpu/seed-43.json: new"]
    assert manifest.problems() == [] and manifest.reindex() == []
    other.unlink()
    assert manifest.problems() == ["evidence/records/actkv/kernels/cpu/seed-43.json is gone"]
    assert manifest.reindex() == ["evidence/records/actkv/kernels/cpu/seed-43.json: removed"]
    assert manifest.problems() == []
    other.write_text(desk.record.read_text())  # and back again
    assert manifest.problems() and manifest.reindex() and manifest.problems() == []
    assert len(manifest.CHAIN.entries()) == 4  # nothing is ever taken out


def test_committed_lines_cannot_be_taken_back(desk):
    desk.keep(made(desk.inputs, 0.7))
    desk.commit()
    index = desk.root / manifest.CHAIN.name
    first = index.read_text().splitlines(keepends=True)[0]
    index.write_text(first)
    desk.record.write_text(records.dumps(made(desk.inputs)))  # the older version, whole in itself
    assert manifest.problems() == [
        "evidence/records/index.jsonl: lines that are committed were removed or changed"
    ]
