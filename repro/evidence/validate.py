"""Is everything on file consistent: receipts, lists, records, executed notebooks, keys, claims?

Four levels, each with those before it. ``schema``: every receipt and record has the form and holds
no secret. ``integrity``: everything that is named has the hash that is named, the chains hold,
signatures hold, the code is that of the commit, claims name only devices that exist. ``inputs``:
current receipts are of today's code, parameters, assets and versions. ``rerun``: each is executed
again here on the CPU, and a counter-receipt is written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro import files, paths, records, sanitize, store
from repro.errors import BadParameter, ReproError
from repro.evidence import manifest, receipts, source
from repro.evidence.receipts import build, pages, session, sign, today

LEVELS = ("schema", "integrity", "inputs", "rerun")


@dataclass
class Report:
    """problems: what is wrong. notes: what could not be told here. summary: one line."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summary: str = ""


def validate(
    level: str = "integrity", only: str = "", say: Callable[[str], None] = lambda line: None
) -> Report:
    """Check everything on file.

    only: the beginning of an id; ``inputs`` and ``rerun`` then look at that receipt alone.
    Raises BadParameter for an unknown level or receipt.
    """
    from repro import levels

    if level not in LEVELS:
        raise BadParameter(f"level={level!r}; accepted: {', '.join(LEVELS)}.")
    report, depth = Report(), LEVELS.index(level)
    held = dict(_readable(report))
    if depth == 0:
        report.problems += [f"record {name}: {told}" for name, told in levels.bad_records()]
    else:
        _integrity(held, report)
        report.problems += levels.inconsistent()
    found = _current(report)
    if only:
        found = [receipts.find(only)]
    if depth >= 2:
        for receipt in found:
            odd = today.differences(receipt) + today.elsewhere(receipt)
            report.problems += [f"{_short(receipt)}: {told}" for told in odd]
    if depth == 3 and report.problems:
        report.notes.append("nothing was executed again: what is above comes first")
    elif depth == 3:
        _rerun(found, report, say)
    report.problems = list(dict.fromkeys(report.problems))
    listed = sorted((paths.EVIDENCE / "records").glob("*/*/*/*.json"))
    there = receipts.on_disk()
    signed = sum(sign.envelope_path(p).exists() for p in there)
    expired = sum(receipts.expired(r) for r in found)
    notebooks = sum(f["role"] == "executed" for r in found for f in r["files"])
    counted = f"{len(there)} receipts ({len(found)} current, {signed} signed, {expired} expired)"
    said = f"{len(report.problems)} problems" if report.problems else "consistent"
    report.summary = (
        f"{level}: {counted}, {len(listed)} records, {notebooks} executed notebooks: {said}"
    )
    return report


def _readable(report: Report) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every receipt that has the form of one; the others become problems."""
    for path in receipts.on_disk():
        try:
            receipt = receipts.read(path)
            receipts.validate(receipt)
            if path != receipts.path(receipt):
                raise ReproError("it is not where it belongs")
            yield path, receipt
        except ReproError as error:
            report.problems.append(f"{_name(path)}: {error}")


def _current(report: Report) -> list[dict[str, Any]]:
    try:
        return receipts.current()
    except ReproError as error:
        report.problems.append(str(error))
        return []


def _integrity(held: Mapping[Path, dict[str, Any]], report: Report) -> None:
    say = report.problems.extend
    say(manifest.problems())
    say(receipts.CHAIN.problems())
    say(sign.key_problems())
    try:
        say(_listed(held))
        current = {r["receipt_id"] for r in receipts.current()}
        say(_strays(held.values()))
    except ReproError as error:
        say([str(error)])
        current = {r["receipt_id"] for r in held.values()}
    for path, receipt in held.items():
        told: list[str] = []
        try:
            told.extend(_holds(path, receipt, receipt["receipt_id"] in current, report))
        except ReproError as error:
            told.append(str(error))
        say(f"{_short(receipt)}: {one}" for one in told)


def _listed(held: Mapping[Path, dict[str, Any]]) -> Iterator[str]:
    """The list of receipts against the files, and what they say of one another."""
    earlier: set[str] = set()
    ids = {_name(p): r for p, r in held.items()}
    entries = receipts.CHAIN.entries()
    for entry in entries:
        if receipts.is_signature(entry):
            continue  # held by `_holds`
        receipt = ids.get(entry["path"])
        if receipt is None or receipt["receipt_id"] != entry["receipt_id"]:
            yield f"{entry['path']} is absent or not the receipt that is listed"
            continue
        if (old := receipt["supersedes"]) is not None:
            if old not in earlier:
                yield f"{_short(receipt)}: supersedes what is no earlier, current receipt"
            earlier.discard(old)
        if entry["receipt_id"] in earlier:
            yield f"{_short(receipt)} is listed twice"
        earlier.add(entry["receipt_id"])
    known = {e["path"] for e in entries}
    signed = [_name(p) for p in map(sign.envelope_path, held) if p.exists()]
    yield from (
        f"{name} is in no line of {receipts.CHAIN.name}"
        for name in [*ids, *signed]
        if name not in known
    )


def _strays(held: Any) -> Iterator[str]:
    """Files beside receipts that no receipt knows of."""
    named = {f["path"] for r in held for f in r["files"]}
    for path in sorted(p for p in (paths.EVIDENCE / "executed").rglob("*") if p.is_file()):
        if _name(path) not in named:
            yield f"{_name(path)}: no receipt names it"
    known = {pages.path(r) for r in held}
    for path in sorted((paths.ROOT / "book/receipts").glob("*")):
        if path not in known:
            yield f"{_name(path)}: the page of no receipt"
    for path in sorted((paths.EVIDENCE / "receipts").rglob(f"*{receipts.ENVELOPE}")):
        if not path.with_name(path.name.removesuffix(receipts.ENVELOPE) + ".json").exists():
            yield f"{_name(path)}: the signature of no receipt"


def _holds(path: Path, receipt: Mapping[str, Any], current: bool, report: Report) -> Iterator[str]:
    """Whether what one receipt names is there and is what it names."""
    for entry in receipt["files"]:
        yield from _file(entry, receipt, current)
    page = pages.path(receipt)
    if not page.is_file() or page.read_bytes() != pages.stub(receipt).encode():
        yield f"its page {_name(page)} is absent or was changed"
    try:
        sign.signed_by(receipt, path)
    except ReproError as error:
        yield f"signature: {error}"
    commit = receipt["source"]["commit"]
    known = source.reachable(commit)
    if known is None:
        report.notes.append(f"{_short(receipt)}: its commit is not in the git history here")
    elif not known:
        yield f"commit {commit[:12]} is not in the history of what is checked out"
    elif odd := source.other_code(commit, receipt["source"]["entry"], receipt["inputs"]):
        yield f"commit {commit[:12]} holds other code: {', '.join(odd)}"


def _file(entry: Mapping[str, Any], receipt: Mapping[str, Any], current: bool) -> Iterator[str]:
    name, place = entry["path"], paths.ROOT / entry["path"]
    if not current:  # its record may have been made anew since; the list knows all versions
        if entry["role"] == "record" and entry["sha256"] not in manifest.versions(name):
            yield f"{name} never was what it names"
        return
    if not place.is_file():
        yield f"{name} is gone"
    elif files.sha256(place) != entry["sha256"] or place.stat().st_size != entry["bytes"]:
        yield f"{name} is not what it names: its SHA-256 is another"
    elif entry["role"] == "record":
        if build.says_otherwise(receipt, records.load(place)):
            yield f"it says other things than {name}"
    elif entry["role"] == "session":
        if session.says_otherwise(receipt, session.read(place.read_bytes(), name)):
            yield f"it says other things than {name}"
    else:
        executed = store.load_executed(place)
        if executed is None:
            yield f"{name} is no executed notebook whose seal holds"
        elif found := sanitize.scan_notebook(executed):
            yield f"{name} holds what must not be committed: {found[0].pointer}: {found[0].kind}"
        elif build.says_otherwise(receipt, store.find_record(executed)):
            yield f"it says other things than {name}"


def _rerun(found: list[dict[str, Any]], report: Report, say: Callable[[str], None]) -> None:
    from repro.evidence.receipts import rerun

    for receipt in found:
        say(f"Executing {receipt['subject']} again, for {_short(receipt)} …")
        counter = rerun.again(receipt)
        repeats = counter["repeats"]
        if not repeats["agrees"]:
            told = "; ".join(repeats["differences"][:3])
            report.problems.append(f"{_short(receipt)}: does not repeat here: {told}")


def _short(receipt: Mapping[str, Any]) -> str:
    return f"receipt {receipt['receipt_id'][:16]}"


def _name(path: Path) -> str:
    return path.resolve().relative_to(paths.ROOT.resolve()).as_posix()
