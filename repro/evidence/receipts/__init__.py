"""Receipts: what one run was made of, on what it ran and what came out, under one hash.

A receipt says that something was executed. It does not say that a machine existed or that the
numbers are right. Files: evidence/receipts/<subject>/<first 16 digits of the id>.json, and the list
evidence/receipts/index.jsonl, chained by hashes.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from repro import files, paths, records, sanitize, schemas
from repro.errors import BadParameter, ReproError
from repro.evidence.chain import Chain, lock
from repro.evidence.receipts import devices, pages

CHAIN = Chain("evidence/receipts/index.jsonl", ("path", "receipt_id"))
TIME = "%Y-%m-%dT%H:%M:%SZ"
ENVELOPE = ".dsse.json"
HASHES = (  # pointers of the fields that hold hashes, for the scanner
    "/(receipt_id|supersedes|repeats/receipt_id|source/commit|privacy/rules_sha256)",
    r"/files/\d+/sha256|/inputs/cells|/inputs/(modules|assets)/[^/]+",
)


def identity(receipt: Mapping[str, Any]) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of a receipt without its own id."""
    return files.digest({k: v for k, v in receipt.items() if k != "receipt_id"})


def validate(receipt: Any) -> None:
    """Raises ReproError for what breaks the schema, its own hash, a rule, or the sanitiser."""
    _whole(receipt, "Receipt")
    if found := broken_rules(receipt):
        raise ReproError(f"Receipt of {receipt['subject']}: {'; '.join(found)}.")
    sanitize.require_clean(receipt, "The receipt", HASHES)


def _whole(receipt: Any, what: str) -> None:
    schemas.check("receipt-v2", receipt, what)
    if receipt["receipt_id"] != identity(receipt):
        raise ReproError(f"{what}: $.receipt_id is not the hash of the body.")


def broken_rules(receipt: Mapping[str, Any]) -> list[str]:
    """Rules that no schema can state, each with its place; empty when sound."""
    said, device = [], receipt["device"]
    try:
        if moment(receipt["expires"]) <= ended(receipt):
            said.append("$.expires lies before the end of the run")
    except ValueError:
        said.append("$.started or $.expires is no date")
    if device["list"] == devices.listed()["version"]:
        told = (device["name"], device["memory_bytes"], device["compute_capability"])
        if device["class"] != devices.classify(*told):
            said.append(f"$.device.class is not what {device['name']} is listed as")
    if device["partition"] != devices.partition(device["name"]):
        said.append("$.device.partition is not what the device's name says")
    passed, roles = receipt["outcome"] == "passed", [f["role"] for f in receipt["files"]]
    if passed == bool(receipt["reason"]):
        said.append("$.reason stands where a run did not pass, and only there")
    if passed and (receipt["checks"]["red"] or not receipt["checks"]["green"]):
        said.append("$.outcome is passed with a red check or without any check")
    wanted = {"notebook": "record", "session": "session"}.get(receipt["kind"])
    if passed and wanted and wanted not in roles:
        said.append(f"$.files has no {wanted}")
    if (receipt["kind"] == "counter") != (receipt["repeats"] is not None):
        said.append("$.repeats belongs to counter-receipts, and only to them")
    if (repeats := receipt["repeats"]) and repeats["agrees"] == bool(repeats["differences"]):
        said.append("$.repeats.agrees does not follow from its differences")
    return said


def moment(text: str) -> datetime:
    """A receipt's time; raises ValueError for a day that does not exist."""
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def ended(receipt: Mapping[str, Any]) -> datetime:
    return moment(receipt["started"]) + timedelta(seconds=receipt["wall_s"])


def expired(receipt: Mapping[str, Any], now: datetime | None = None) -> bool:
    return moment(receipt["expires"]) <= (now or datetime.now(UTC))


def path(receipt: Mapping[str, Any]) -> Path:
    """Where a receipt is kept."""
    folder = paths.EVIDENCE / "receipts" / receipt["subject"]
    return folder / f"{receipt['receipt_id'][:16]}.json"


def write(receipt: Mapping[str, Any], extra: Mapping[Path, bytes] | None = None) -> Path:
    """Put a receipt, its page and the files of `extra` in place, and enter it in the list.

    A receipt that is there already is left alone. Raises ReproError for one that is not valid, that
    supersedes what is no current receipt, or that repeats what a current one already says.
    """
    validate(receipt)
    target, entry = path(receipt), {"path": name_of(path(receipt))}
    with lock():
        known = {e["receipt_id"] for e in CHAIN.entries()}
        if receipt["receipt_id"] not in known:
            _fits(receipt)
        for place, content in (extra or {}).items():
            files.write_atomic(place, content)
        files.write_atomic(pages.path(receipt), pages.stub(receipt))
        files.write_atomic(target, records.dumps(dict(receipt)))
        if receipt["receipt_id"] not in known:
            CHAIN.append(entry | {"receipt_id": receipt["receipt_id"]})
    return target


def _fits(receipt: Mapping[str, Any]) -> None:
    """Whether a new receipt may stand beside those on file."""
    now = {r["receipt_id"]: r for r in current()}
    old = receipt["supersedes"]
    if old is not None and old not in now:
        raise ReproError(f"Receipt {old[:16]} is not a current one, so that nothing supersedes it.")
    if receipt["repeats"] and receipt["repeats"]["receipt_id"] not in now:
        raise ReproError("A counter-receipt belongs to a current receipt.")
    mine = {f["path"] for f in receipt["files"]}
    for name, other in now.items():
        if name != old and mine & {f["path"] for f in other["files"]}:
            raise ReproError(
                f"Receipt {name[:16]} is of the same files. To replace it: "
                f"repro evidence supersede {name[:16]}."
            )


def read(where: Path) -> dict[str, Any]:
    """The receipt in a file. Raises ReproError unless it is whole and of the bytes of `write`."""
    try:
        text = where.read_bytes().decode()
        receipt = json.loads(text)
        same = isinstance(receipt, dict) and records.dumps(receipt) == text
    except OSError as error:
        raise ReproError(f"Receipt {where.name}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ReproError(f"Receipt {where.name}: not readable as JSON.") from None
    if not same:
        raise ReproError(f"Receipt {where.name}: its bytes are not as they were written.")
    _whole(receipt, f"Receipt {where.name}")
    return receipt


def on_disk() -> list[Path]:
    """Every receipt file, without the envelopes of signatures."""
    found = (paths.EVIDENCE / "receipts").rglob("*.json")
    return sorted(p for p in found if not p.name.endswith(ENVELOPE))


def everything() -> list[dict[str, Any]]:
    """All receipts, in the order of the list. Raises ReproError for a broken list or file."""
    return [
        read(paths.ROOT / entry["path"]) for entry in CHAIN.entries() if not is_signature(entry)
    ]


def is_signature(entry: Mapping[str, Any]) -> bool:
    """Whether a line of the list is of the envelope that was put on a receipt."""
    return entry["path"].endswith(ENVELOPE)


def current() -> list[dict[str, Any]]:
    """Receipts that no later one supersedes, counter-receipts left out."""
    found = [r for r in everything() if r["kind"] != "counter"]
    replaced = {r["supersedes"] for r in found}
    return [r for r in found if r["receipt_id"] not in replaced]


def find(name: str) -> dict[str, Any]:
    """The receipt whose id begins with `name`. Raises BadParameter unless there is just one."""
    found = [r for r in everything() if len(name) >= 4 and r["receipt_id"].startswith(name)]
    if len(found) != 1:
        known = ", ".join(r["receipt_id"][:16] for r in everything()) or "none"
        raise BadParameter(f"receipt={name!r} fits {len(found)} receipts; accepted: {known}.")
    return found[0]


def counts(receipt: Mapping[str, Any], classes: Sequence[str], now: datetime | None = None) -> str:
    """Why a receipt does not show a run on one of the device `classes`; empty where it does."""
    device = receipt["device"]
    told = (device["name"], device["memory_bytes"], device["compute_capability"])
    if (held := devices.classify(*told)) not in classes:
        return f"it is of {held}, not of {' or '.join(classes)}"
    if device["partition"]:
        return f"it is of a part of a device ({device['partition']})"
    if receipt["outcome"] != "passed":
        return f"its outcome is {receipt['outcome']}"
    return f"it expired {receipt['expires'][:10]}" if expired(receipt, now) else ""


def name_of(place: Path) -> str:
    """`place` relative to the repository."""
    return place.resolve().relative_to(paths.ROOT.resolve()).as_posix()
