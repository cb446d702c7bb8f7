"""The list of committed records: evidence/records/index.jsonl, one line a version of a record.

`repro run` adds a line when it commits a record. A record edited by hand no longer has the hash of
its line. Its author can add one (`repro evidence reindex`), which is then there to be seen.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

from repro import files, paths
from repro.errors import ReproError
from repro.evidence.chain import Chain, lock

CHAIN = Chain("evidence/records/index.jsonl", ("path", "sha256"))


def commit(path: Path, text: str) -> None:
    """Write a record's text, then its line in the list. Raises ReproError for a broken list."""
    with lock():
        files.write_atomic(path, text)  # first: what a long run has found is not lost
        sha = hashlib.sha256(text.encode()).hexdigest()
        if latest().get(_name(path)) != sha:
            CHAIN.append({"path": _name(path), "sha256": sha})


def latest() -> dict[str, str | None]:
    """Path (relative to the repository) -> SHA-256 of its last line; None: it was removed."""
    return {e["path"]: e["sha256"] for e in CHAIN.entries()}


def versions(name: str) -> set[str]:
    """SHA-256 of every version of a record that the list knows."""
    return {e["sha256"] for e in CHAIN.entries() if e["path"] == name}


def edited(path: Path) -> bool:
    """Whether a record's bytes are not those that the list has for it; unlisted ones are not."""
    try:
        stamp = (paths.ROOT / CHAIN.name).stat().st_mtime_ns
    except OSError:
        return False
    known = _latest(paths.ROOT, stamp).get(_name(path))
    return known is not None and known != files.sha256(path)


def problems() -> list[str]:
    """What is wrong with the list, and which records are not those that it names."""
    if broken := CHAIN.problems():
        return broken
    known, here = latest(), _here()
    found = [f"{n} is not in {CHAIN.name}" for n in here if known.get(n) is None]
    found += [
        f"{n} is not what was recorded: its SHA-256 is another"
        for n, sha in here.items()
        if known.get(n) not in (None, sha)
    ]
    return found + [f"{n} is gone" for n, sha in known.items() if sha and n not in here]


def reindex() -> list[str]:
    """Accept the records as they lie there now; returns what changed, in words."""
    with lock():
        known, here = latest(), _here()
        changed: dict[str, str | None] = {n: h for n, h in here.items() if known.get(n) != h}
        changed |= {n: None for n, sha in known.items() if sha and n not in here}
        if changed:
            CHAIN.append(*({"path": n, "sha256": sha} for n, sha in changed.items()))
    words = {True: "removed", False: "changed"}
    return [f"{n}: {words[sha is None] if n in known else 'new'}" for n, sha in changed.items()]


def _here() -> dict[str, str]:
    folder = paths.EVIDENCE / "records"
    return {_name(p): files.sha256(p) for p in sorted(folder.glob("*/*/*/*.json"))}


def _name(path: Path) -> str:
    return path.resolve().relative_to(paths.ROOT.resolve()).as_posix()


@lru_cache(maxsize=2)
def _latest(root: Path, stamp: int) -> dict[str, str | None]:
    """`latest`, read again only when the file has changed; `problems` tells of a broken one."""
    try:
        return latest()
    except ReproError:
        return {}
