"""What is on file: the claims, and for every result whether it is fresh, stale or missing.

A result whose inputs differ from today's is stale. It is still shown, as such.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from repro import assets, digest, files, notebooks, profiles, records, runs, schemas, store
from repro.errors import ReproError
from repro.evidence import manifest
from repro.paths import EVIDENCE


@dataclass(frozen=True)
class Status:
    """Whether a result is ``fresh``, ``stale`` or ``missing``, and why."""

    key: str
    profile: str
    seed: int | None
    state: str
    why: str = ""
    record: Any = field(default=None, repr=False)  # as `records` describes it; None without one
    path: Path | None = None  # the executed notebook, for a live result


_frozen: dict[tuple[str, ...], Any] | None = None


def freeze(on: bool) -> None:
    """While on, each state is read once: a build asks often, and shows what was on file first."""
    global _frozen
    _frozen = {} if on else None


def _once(name: tuple[str, ...], read: Callable[[], Any]) -> Any:
    if _frozen is None:
        return read()
    if name not in _frozen:
        _frozen[name] = read()
    return _frozen[name]


@cache
def claims_file() -> dict[str, Any]:
    """evidence/claims.yml, checked against its schema.

    Raises ReproError naming the first entry that breaks it.
    """
    data = files.read_yaml(EVIDENCE / "claims.yml")
    schemas.check("claims", data, "evidence/claims.yml")
    ids = [claim["id"] for claim in data["claims"]]
    if twice := {i for i in ids if ids.count(i) > 1}:
        raise ReproError(f"evidence/claims.yml: claim ids used twice: {sorted(twice)}.")
    return data


def papers() -> dict[str, dict[str, Any]]:
    return claims_file()["papers"]


def claims(paper: str | None = None) -> list[dict[str, Any]]:
    """All claims, or one paper's."""
    if paper is not None and paper not in papers():
        raise ReproError(f"Paper {paper!r} is unknown; there are: {', '.join(papers())}.")
    return [c for c in claims_file()["claims"] if paper in (None, c["paper"])]


def live(key: str) -> Status:
    """The executed copy of notebook `key` at its default parameters."""
    return _once(("live", key), lambda: _live(key))


def _live(key: str) -> Status:
    run = runs.plan(key)
    seed = run.parameters["seed"]
    if executed := run.kept():
        record = store.find_record(executed)
        return Status(key, "default", seed, "fresh", "", record, run.executed)
    for path in reversed(store.copies(key)):
        record = store.record_of(path)
        if record and _same_parameters(record, run.inputs):
            odd = digest.differences(record["inputs"], run.inputs)
            told = "; ".join(odd or ["the cells are cut otherwise"])
            return Status(key, "default", seed, "stale", told, record, path)
    why = assets.lacking(notebooks.read(key).assets) or "not executed here yet"
    return Status(key, "default", seed, "missing", why)


def _same_parameters(record: dict[str, Any], inputs: dict[str, Any]) -> bool:
    """Whether a run was made with today's defaults, so that only code or data can have changed."""
    old, new = record["parameters"], inputs["parameters"]
    return all(old[name] == new[name] for name in old.keys() & new.keys())


def of_profile(key: str, profile: str) -> list[Status]:
    """Every seed of `profile`: those on file and those the profile names but nobody ran."""
    return _once((key, profile), lambda: _of_profile(key, profile))


def _of_profile(key: str, profile: str) -> list[Status]:
    found = []
    folder = EVIDENCE / "records" / key / profile
    files = [p for p in folder.glob("seed-*.json") if p.is_file() and p.stem[5:].isdigit()]
    for path in sorted(files, key=lambda p: int(p.stem[5:])):
        found.append(_of_file(key, profile, path))
    there = {status.seed for status in found}
    for seed in profiles.read(profile).seeds:
        if seed not in there and key in profiles.read(profile).parameters:
            found.append(Status(key, profile, seed, "missing", "no record on file"))
    return found


def _of_file(key: str, profile: str, path: Path) -> Status:
    seed = int(path.stem.removeprefix("seed-"))
    try:
        record = records.load(path)
        expected = runs.plan(key, profile, seed)
    except ReproError as error:
        return Status(key, profile, seed, "missing", str(error))
    if manifest.edited(path):
        why = "the record was edited after it was written; see `repro evidence validate`"
        return Status(key, profile, seed, "missing", why)
    made = record["inputs"]["parameters"]  # these are hashed
    if record["notebook"] != key or made.get("seed") != seed or made.get("fault"):
        why = f"the record is of {record['notebook']}, seed {made.get('seed')}, or of a fault"
        return Status(key, profile, seed, "missing", why)
    odd = digest.differences(record["inputs"], expected.inputs)
    return Status(key, profile, seed, "stale" if odd else "fresh", "; ".join(odd), record)


def statuses() -> list[Status]:
    """Every notebook's live result and every committed record."""
    found = []
    for key in notebooks.keys():
        found.append(live(key))
        for profile in profiles.names()[1:]:
            found += of_profile(key, profile)
    return found
