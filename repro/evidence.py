"""Claims, the freshness of records, and the level that follows: computed, never typed.

Levels: gap < mechanism < diagnostic < reproduction. A record whose inputs differ from today's is
stale; a claim that rests on stale records counts one level lower.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from repro import assets, digest, notebooks, profiles, records, runs, schemas, store
from repro.errors import ReproError
from repro.paths import EVIDENCE, ROOT

LEVELS = ("gap", "mechanism", "diagnostic", "reproduction")
SEEDS_NEEDED = 3


@dataclass(frozen=True)
class Status:
    """Whether a result is ``fresh``, ``stale`` or ``missing``, and why."""

    key: str
    profile: str
    seed: int | None
    state: str
    why: str = ""
    record: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Verdict:
    """A claim's computed level, its flags, and what the next level would take."""

    level: str
    flags: tuple[str, ...]
    missing: tuple[str, ...]
    runs: int  # records that count


@cache
def claims_file() -> dict[str, Any]:
    """evidence/claims.yml, checked against its schema.

    Raises ReproError naming the first entry that breaks it.
    """
    data = yaml.safe_load((EVIDENCE / "claims.yml").read_text())
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
    run = runs.plan(key)
    if record := store.record_of(run.executed):
        return Status(key, "default", run.parameters["seed"], "fresh", record=record)
    for path in reversed(store.copies(key)):
        record = store.record_of(path)
        if record and _same_parameters(record, run.inputs):
            why = "; ".join(digest.differences(record["inputs"], run.inputs))
            return Status(key, "default", run.parameters["seed"], "stale", why, record)
    why = assets.lacking(notebooks.read(key).assets) or "not executed here yet"
    return Status(key, "default", run.parameters["seed"], "missing", why)


def _same_parameters(record: dict[str, Any], inputs: dict[str, Any]) -> bool:
    """Whether a run was made with today's defaults, so that only code or data can have changed."""
    old, new = record["parameters"], inputs["parameters"]
    return all(old[name] == new[name] for name in old.keys() & new.keys())


def of_profile(key: str, profile: str) -> list[Status]:
    """Every seed of `profile`: those on file and those the profile names but nobody ran."""
    found = []
    folder = EVIDENCE / "records" / key / profile
    for path in sorted(folder.glob("seed-*.json"), key=lambda p: int(p.stem[5:])):
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
    why = digest.differences(record["inputs"], expected.inputs)
    return Status(key, profile, seed, "stale" if why else "fresh", "; ".join(why), record)


def statuses() -> list[Status]:
    """Every notebook's live result and every committed record."""
    found = []
    for key in notebooks.keys():
        found.append(live(key))
        for profile in profiles.names()[1:]:
            found += of_profile(key, profile)
    return found


def judge(claim: dict[str, Any]) -> Verdict:
    """The level of `claim` from what is on file, and the reasons it is not higher."""
    evidence = claim["evidence"]
    seen = [s for key in evidence["notebooks"] for s in _on_file(key, evidence.get("profile"))]
    held = [s for s in seen if s.record]
    missing = _lacks_mechanism(evidence, held)
    level = 0
    if not missing:
        level, missing = 1, _lacks_diagnostic(evidence, held)
        if not missing:
            level, missing = 2, _lacks_reproduction(claim)
            level = 3 if not missing else 2
    flags = []
    stale = [s for s in held if s.state == "stale"]
    if level and stale:
        level -= 1
        flags.append("stale")
        missing = [f"re-execute {s.key} ({s.profile}, seed {s.seed}): {s.why}" for s in stale]
    if level and any(s.record["comparisons"] for s in held):
        flags.append("paired")
    planned = [*claim["needs"].get(_next(level), ())] if level < 3 else []
    reasons = tuple(dict.fromkeys([*missing, *planned]))
    return Verdict(LEVELS[level], tuple(flags), reasons, len(held))


def _on_file(key: str, profile: str | None) -> list[Status]:
    if key not in notebooks.keys():
        return [Status(key, profile or "default", None, "missing", "no such notebook")]
    committed = of_profile(key, profile) if profile else []
    return committed or [live(key)]


def _lacks_mechanism(evidence: dict[str, Any], held: list[Status]) -> list[str]:
    """Mechanism: all checks green in every record, and every deliberate fault caught."""
    if not evidence["notebooks"]:
        return ["no notebook executes this mechanism yet"]
    lacks = [f"{key} has no record" for key in evidence["notebooks"] if not _has(held, key)]
    for status in held:
        red = [c["name"] for c in status.record["checks"] if not c["passed"]]
        uncaught = [name for name, checks in status.record["faults"].items() if not checks]
        if red or not status.record["checks"]:
            lacks.append(f"{status.key}: checks not green: {', '.join(red) or 'there are none'}")
        if uncaught or not status.record["faults"]:
            lacks.append(f"{status.key}: faults not caught: {', '.join(uncaught) or 'none tried'}")
    return lacks


def _lacks_diagnostic(evidence: dict[str, Any], held: list[Status]) -> list[str]:
    """Diagnostic: real input, three seeds, the claim's metrics, paired arms that differ."""
    if not evidence.get("metrics"):
        return ["no measured number speaks of this claim"]
    lacks = []
    for key in evidence["notebooks"]:
        mine = [s.record for s in held if s.key == key]
        seeds = {r["parameters"]["seed"] for r in mine}
        if len(seeds) < SEEDS_NEEDED:
            lacks.append(f"{key}: {len(seeds)} seeds on file, {SEEDS_NEEDED} needed")
        if not all(r["inputs"]["assets"] for r in mine):
            lacks.append(f"{key}: no public model or data was used")
    names = {m["name"] for s in held for m in s.record["metrics"]}
    lacks += [f"metric {name} is not measured" for name in evidence["metrics"] if name not in names]
    comparisons = [c for s in held for c in s.record["comparisons"]]
    if not comparisons:
        lacks.append("no paired comparison on file")
    elif not any(informative(c) for c in comparisons):
        lacks.append("uninformative: all arms are identical on every item")
    return lacks


def _lacks_reproduction(claim: dict[str, Any]) -> list[str]:
    """Reproduction: the paper's own data, model, budget and hardware, no deviation left."""
    lacks = [f"deviation: {text}" for text in claim["deviations"]]
    if claim["evidence"].get("profile") != "paper":
        lacks.append("no run at the paper's scale (profile paper)")
    return lacks


def informative(comparison: dict[str, Any]) -> bool:
    """Whether any two arms differ on any item: identical arms say nothing, not 'no effect'."""
    first, *others = comparison["arms"].values()
    return any(other != first for other in others)


def _has(held: list[Status], key: str) -> bool:
    return any(s.key == key for s in held)


def _next(level: int) -> str:
    return LEVELS[min(level + 1, 3)]


def check() -> list[str]:
    """What in the claims file or the prose says more than the evidence; empty when sound."""
    found = []
    known = notebooks.keys()
    for claim in claims():
        if claim["paper"] not in papers():
            found.append(f"claim {claim['id']}: unknown paper {claim['paper']!r}")
        evidence = claim["evidence"]
        found += [
            f"claim {claim['id']}: no notebook {k}" for k in evidence["notebooks"] if k not in known
        ]
        if (profile := evidence.get("profile")) and profile not in profiles.names():
            found.append(f"claim {claim['id']}: no profile {profile!r}")
    return found + [f"record {p}: {e}" for p, e in _bad_records()] + _overclaims()


def _bad_records() -> list[tuple[str, str]]:
    bad = []
    for path in sorted((EVIDENCE / "records").glob("*/*/*/*.json")):
        try:
            records.load(path)
        except ReproError as error:
            bad.append((str(path.relative_to(EVIDENCE)), str(error)))
    return bad


def _overclaims() -> list[str]:
    """Pages and notebooks that type a level or claim a reproduction in words."""
    found = []
    phrases = ("reproduces the paper", "we reproduce the paper", "fully reproduced", "eb-level")
    pages = [*ROOT.glob("book/**/*.md"), *ROOT.glob("notebooks/*/*.ipynb"), *ROOT.glob("*.md")]
    for path in pages:
        text = " ".join(path.read_text().lower().split())
        found += [f"{path.relative_to(ROOT)}: says {p!r}" for p in phrases if p in text]
    return found
