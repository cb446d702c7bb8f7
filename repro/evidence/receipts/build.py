"""Make receipts from what runs leave: a committed record, a session's file, or a failed attempt.

Little is typed: device, inputs, numbers and outcome come from the runtime and from the run. The
code has to be committed and the very code that ran.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from repro import notebooks, paths, records, runs, sanitize, store
from repro.errors import BadParameter, ReproError
from repro.evidence import receipts, source
from repro.evidence.receipts import devices

EXPIRES_DAYS = 365
_OUTCOMES = {  # words in the runner's messages
    "timed_out": ("took longer than", "CellTimeoutError"),
    "out_of_memory": ("GiB of memory", "MemoryError", "OutOfMemory", "out of memory"),
}


def from_file(path: Path, supersedes: str | None = None) -> dict[str, Any]:
    """Write the receipt of a committed record or of a session's file, by what the file is."""
    records_of = (paths.EVIDENCE / "records").resolve()
    if path.resolve().is_relative_to(records_of):
        return from_record(path, supersedes)
    from repro.evidence.receipts import session

    return session.from_session(path, supersedes)


def superseding(name: str, path: Path | None = None) -> dict[str, Any]:
    """Write the receipt that takes the place of the one whose id begins with `name`.

    path: a record or session's file; by default the record that the earlier one names.
    Raises BadParameter for a receipt of another run, or one that names no record.
    """
    old = receipts.find(name)
    if path is None:
        held = [f["path"] for f in old["files"] if f["role"] == "record"]
        if not held:
            raise BadParameter(f"receipt={name!r} names no record; accepted: name a file as well.")
        path = paths.ROOT / held[0]
    if old["kind"] == "counter":
        raise BadParameter(f"receipt={name!r} is a counter-receipt; accepted: one of a run.")
    return from_file(path, old["receipt_id"])


def from_record(path: Path, supersedes: str | None = None) -> dict[str, Any]:
    """Write the receipt of a committed record, with its executed notebook where that is here.

    Raises ReproError for a record of other code than is committed now, or of another device.
    """
    record, place = records.load(path), inside(path)
    key, seed = record["notebook"], record["parameters"]["seed"]
    profile = path.resolve().parent.name
    if path.resolve() != records.path(key, profile, seed).resolve():
        raise ReproError(f"{place} is no committed record; accepted: evidence/records/….")
    kept = [named("record", path, path.read_bytes())]
    limits, extra = [], {}
    executed = _executed(record)
    if executed is None:
        limits.append("The executed notebook of this very record is not on file.")
    else:
        copy = paths.EVIDENCE / "executed" / key / profile / f"seed-{seed}.ipynb"
        extra[copy] = executed
        kept.append(named("executed", copy, executed))
    device = devices.describe("CPU") if record["device"] == "CPU" else devices.here("auto")
    if device["name"] != devices.plain(record["device"]):
        raise ReproError(
            f"The record was made on {record['device']}, and the device here is {device['name']}. "
            "Make its receipt where it ran."
        )
    receipt = assemble(
        subject=key,
        kind="notebook",
        entry=f"notebooks/{key}.ipynb",
        command=["repro", "run", key, "--profile", profile, "--seeds", str(seed)],
        files=kept,
        device=device,
        supersedes=supersedes,
        limitations=limits,
        **_of_record(record),
    )
    receipts.write(receipt, extra)
    return receipt


def of_attempt(
    outcome: runs.Outcome, started: str, wall_s: float, repeats: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The receipt (not yet written) of a run that just ended here, whatever came of it.

    started: UTC, such as 2026-12-01T10:00:00Z. wall_s: seconds. repeats: for a counter-receipt.
    """
    run = outcome.run
    key, given = run.key, run.inputs["parameters"]
    changed = {n: v for n, v in given.items() if v != notebooks.read(key).parameters[n].default}
    record = store.find_record(json.loads(outcome.notebook)) if outcome.notebook else None
    found = _of_record(record) if record else _of_nothing(outcome, started, wall_s)
    return assemble(
        subject=key,
        kind="counter" if repeats else "notebook",
        entry=f"notebooks/{key}.ipynb",
        command=[
            "repro",
            "run",
            key,
            *(w for n, v in changed.items() for w in ("-p", n, str(v) or "''")),
        ],
        files=[],
        device=devices.here(given["device"]),
        supersedes=None,
        limitations=["No file of this run is kept beside its receipt."],
        repeats=dict(repeats) if repeats else None,
        **found,
    )


def outcome_of(message: str, status: str = "failed") -> str:
    """The outcome that a runner's status and message stand for."""
    if status in ("done", "kept"):
        return "passed"
    if status in ("lost", "skipped"):
        return {"lost": "aborted"}.get(status, status)
    told = [name for name, words in _OUTCOMES.items() if any(w in message for w in words)]
    return "failed" if not told else told[0]


def says_otherwise(receipt: Mapping[str, Any], record: Mapping[str, Any] | None) -> bool:
    """Whether a receipt's fields are not those that its record gives."""
    return record is None or any(receipt[k] != v for k, v in _of_record(record).items())


def assemble(*, entry: str, inputs: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole receipt, signed by nobody yet. Raises ReproError for code that is not committed."""
    commit = source.head()
    if changed := source.unclean(source.files_of(entry, inputs)):
        raise ReproError(f"Not committed: {', '.join(changed[:5])}. Commit, then execute again.")
    if odd := source.other_code(commit, entry, inputs):
        raise ReproError(f"The run had other code than is committed: {', '.join(odd[:5])}.")
    body = {
        "schema": "receipt/v2",
        "repeats": None,
        "source": {"commit": commit, "clean": True, "entry": entry},
        "inputs": dict(inputs),
        "privacy": {"rules": sanitize.RULES_VERSION, "rules_sha256": sanitize.rules_sha256()},
    } | fields
    end = receipts.ended(body) + timedelta(days=EXPIRES_DAYS)
    body["expires"] = end.strftime(receipts.TIME)
    return body | {"receipt_id": receipts.identity(body)}


def _of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a record alone gives."""
    counted = checks(record["checks"])
    return {
        "inputs": record["inputs"],
        "versions": record["versions"],
        "seeds": [record["parameters"]["seed"]],
        "started": record["started"],
        "wall_s": record["wall_s"],
        "peak_memory_bytes": record["peak_memory_bytes"],
        "checks": counted,
        "metrics": record["metrics"],
        "outcome": "failed" if counted["red"] else "passed",
        "reason": f"red: {', '.join(counted['red'])}" if counted["red"] else "",
    }


def _of_nothing(outcome: runs.Outcome, started: str, wall_s: float) -> dict[str, Any]:
    return {
        "inputs": outcome.run.inputs,
        "versions": records.versions(outcome.run.inputs["packages"]),
        "seeds": [outcome.run.parameters["seed"]],
        "started": started,
        "wall_s": math.ceil(wall_s * 10) / 10,
        "peak_memory_bytes": None,
        "checks": {"green": 0, "red": []},
        "metrics": [],
        "outcome": outcome_of(outcome.message, outcome.status),
        "reason": outcome.message[:1000] or outcome.status,
    }


def checks(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A receipt's ``checks`` from those of a record or a session."""
    red = [c["name"] for c in found if not c["passed"]]
    return {"green": len(found) - len(red), "red": red}


def _executed(record: Mapping[str, Any]) -> bytes | None:
    """The executed notebook of just this record, scanned; None where it is not kept here."""
    path = store.EXECUTED / record["notebook"] / f"{record['digest'][:16]}.ipynb"
    executed = store.load_executed(path)
    if executed is None or store.find_record(executed) != record:
        return None
    sanitize.require_clean(executed, "The executed notebook", (), sanitize.scan_notebook)
    return path.read_bytes()


def named(role: str, path: Path, content: bytes) -> dict[str, Any]:
    """An entry of a receipt's ``files``."""
    sha = hashlib.sha256(content).hexdigest()
    return {"role": role, "path": inside(path), "sha256": sha, "bytes": len(content)}


def inside(path: Path) -> str:
    """`path` relative to the repository; raises ReproError for one outside it."""
    try:
        return path.resolve().relative_to(paths.ROOT.resolve()).as_posix()
    except ValueError:
        raise ReproError(f"path={path.name} is outside the repository; accepted: inside.") from None
