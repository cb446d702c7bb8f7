"""The level of a claim, computed from the records on file and never typed.

gap < mechanism < diagnostic < reproduction. A claim that rests on stale records counts one level
lower. A level says how far the evidence goes, not that it agrees with the claim: what the claim
leads one to expect is tested against the records seed by seed, and a disagreement is a result too.
"""

from dataclasses import dataclass
from typing import Any

from repro import evidence, notebooks, profiles, records, sanitize
from repro.errors import ReproError
from repro.evidence import Status, prose
from repro.evidence.receipts import claims as on_devices
from repro.paths import EVIDENCE

LEVELS = ("gap", "mechanism", "diagnostic", "reproduction")
SEEDS_NEEDED = 3


@dataclass(frozen=True)
class Finding:
    """One expectation of a claim, and in how many of the seeds on file it held."""

    text: str
    held: int
    seeds: int

    @property
    def where(self) -> str:
        """In how many seeds, as words to follow the text."""
        return f"in {self.held} of {self.seeds} seeds" if self.seeds else "(no record of it yet)"


@dataclass(frozen=True)
class Verdict:
    """A claim's computed level, its flags, what the next level would take, what was found."""

    level: str
    flags: tuple[str, ...]
    missing: tuple[str, ...]
    runs: int  # records that count
    findings: tuple[Finding, ...]


def judge(claim: dict[str, Any]) -> Verdict:
    """The level of `claim` from what is on file, and the reasons it is not higher."""
    on_file = claim["evidence"]
    seen = _seen(on_file)
    held = [s for s in seen if s.record]
    missing = _lacks_mechanism(on_file, held)
    level = 0
    if not missing:
        level, missing = 1, _lacks_diagnostic(on_file, held)
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
    if level and _confirmed(on_file):
        flags.append("re-verified")
    if on_devices.unmet(claim) == []:
        flags.append(on_devices.FLAG)
    # An expectation is held against the sizes that the claim names: a notebook's default size is
    # made to run in a minute, and says nothing for or against a paper.
    sized = [s for s in held if s.profile == on_file.get("profile")]
    findings = tuple(_finding(expected, sized) for expected in claim.get("expects", ()))
    if level and any(f.seeds and not f.held for f in findings):
        flags.append("negative")
    elif level and any(f.held < f.seeds for f in findings):
        flags.append("mixed")
    planned = [*claim["needs"].get(_next(level), ())] if level < 3 else []
    reasons = tuple(dict.fromkeys([*missing, *planned]))
    return Verdict(LEVELS[level], tuple(flags), reasons, len(held), findings)


def explain(name: str) -> str:
    """One claim in words: what is published, what is on file, what the next level takes.

    Raises ReproError for an unknown claim.
    """
    claim = next((c for c in evidence.claims() if c["id"] == name), None)
    if claim is None:
        known = ", ".join(c["id"] for c in evidence.claims())
        raise ReproError(f"Claim {name!r} is unknown; there are: {known}.")
    verdict, published = judge(claim), claim["published"]
    lines = [f"{name}: {claim['title']}", f"Level: {verdict.level}"]
    if verdict.flags:
        lines.append(f"Flags: {', '.join(verdict.flags)}")
    if published:
        lines.append(f"Published: {published['value']} ({published['where']})")
    lines.append("On file:")
    seen = _seen(claim["evidence"])
    for s in seen:
        why = f": {s.why}" if s.why else ""
        lines.append(f"  {s.key}, {s.profile}, seed {s.seed}: {s.state}{why}")
    lines += [] if seen else ["  nothing"]
    for found in verdict.findings:
        lines.append(f"  {found.text}: {found.where}")
    if verdict.level != LEVELS[-1]:
        lines.append(f"Missing for {_next(LEVELS.index(verdict.level))}:")
        lines += [f"  - {text}" for text in verdict.missing]
    lines += ["Deviations:", *(f"  - {text}" for text in claim["deviations"])]
    return "\n".join(lines)


def _seen(on_file: dict[str, Any]) -> list[Status]:
    return [s for key in on_file["notebooks"] for s in _on_file(key, on_file.get("profile"))]


def _on_file(key: str, profile: str | None) -> list[Status]:
    if key not in notebooks.keys():
        return [Status(key, profile or "default", None, "missing", "no such notebook")]
    committed = evidence.of_profile(key, profile) if profile else []
    return committed if any(s.record for s in committed) else [evidence.live(key)]


def _all_held(on_file: dict[str, Any]) -> list[Status]:
    """The committed results that speak of a claim."""
    if not (profile := on_file.get("profile")) or profile not in profiles.names():
        return []
    keys = [k for k in on_file["notebooks"] if k in notebooks.keys()]
    return [s for k in keys for s in evidence.of_profile(k, profile) if s.record]


def _lacks_mechanism(on_file: dict[str, Any], held: list[Status]) -> list[str]:
    """Mechanism: all checks green in every record, and every deliberate fault caught."""
    if not on_file["notebooks"]:
        return ["no notebook executes this mechanism yet"]
    lacks = [f"{key} has no record" for key in on_file["notebooks"] if not _has(held, key)]
    for status in held:
        red = [c["name"] for c in status.record["checks"] if not c["passed"]]
        uncaught = [name for name, checks in status.record["faults"].items() if not checks]
        if red or not status.record["checks"]:
            lacks.append(f"{status.key}: checks not green: {', '.join(red) or 'there are none'}")
        if uncaught or not status.record["faults"]:
            lacks.append(f"{status.key}: faults not caught: {', '.join(uncaught) or 'none tried'}")
    return lacks


def _lacks_diagnostic(on_file: dict[str, Any], held: list[Status]) -> list[str]:
    """Diagnostic: real input, three seeds, the claim's metrics, paired arms that differ."""
    if not on_file.get("metrics"):
        return ["no measured number speaks of this claim"]
    lacks = []
    for key in on_file["notebooks"]:
        mine = [s.record for s in held if s.key == key]
        seeds = {r["parameters"]["seed"] for r in mine}
        if len(seeds) < SEEDS_NEEDED:
            lacks.append(f"{key}: {len(seeds)} seeds on file, {SEEDS_NEEDED} needed")
        if not all(r["inputs"]["assets"] for r in mine):
            lacks.append(f"{key}: no public model or data was used")
    names = {m["name"] for s in held for m in s.record["metrics"]}
    lacks += [f"metric {name} is not measured" for name in on_file["metrics"] if name not in names]
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
    return lacks + (on_devices.unmet(claim) or [])


def _finding(expected: dict[str, Any], held: list[Status]) -> Finding:
    """Test one expectation, ``{metric, above | below: another metric or a number}``, by seed."""
    (side,) = {"above", "below"} & expected.keys()
    name, other = expected["metric"], expected[side]
    text = f"{name} {side} {other}"
    answers = []
    for status in held:
        values = {m["name"]: m["value"] for m in status.record["metrics"]}
        limit = values.get(other) if isinstance(other, str) else other
        if name in values and limit is not None:
            answers.append(values[name] > limit if side == "above" else values[name] < limit)
    return Finding(text, sum(answers), len(answers))


def informative(comparison: dict[str, Any]) -> bool:
    """Whether any two arms differ on any item: identical arms say nothing, not 'no effect'."""
    first, *others = comparison["arms"].values()
    return any(other != first for other in others)


def _confirmed(on_file: dict[str, Any]) -> bool:
    """Whether a record made elsewhere was accepted for every notebook of the claim."""
    from repro.evidence import verdict  # scipy takes a while, and most claims have none

    folders = [verdict.CONFIRMATIONS / key for key in on_file["notebooks"]]
    return all(f.is_dir() for f in folders) and all(
        verdict.confirmations(key, on_file.get("profile")) for key in on_file["notebooks"]
    )


def _has(held: list[Status], key: str) -> bool:
    return any(s.key == key for s in held)


def _next(level: int) -> str:
    return LEVELS[min(level + 1, 3)]


def check() -> list[str]:
    """What in the claims file or the prose says more than the evidence; empty when sound."""
    evidence.freeze(True)
    try:
        said = prose.overclaims() + prose.overclaimed(evidence.claims_file()) + prose.badges()
        return inconsistent() + said
    finally:
        evidence.freeze(False)


def inconsistent() -> list[str]:
    """What the claims file names and is not there, and records that are not in order."""
    found = []
    known = notebooks.keys()
    for claim in evidence.claims():
        if claim["paper"] not in evidence.papers():
            found.append(f"claim {claim['id']}: unknown paper {claim['paper']!r}")
        on_file = claim["evidence"]
        found += [
            f"claim {claim['id']}: no notebook {k}" for k in on_file["notebooks"] if k not in known
        ]
        if (profile := on_file.get("profile")) and profile not in profiles.names():
            found.append(f"claim {claim['id']}: no profile {profile!r}")
        held = _all_held(on_file)
        whole = all(_has(held, key) for key in on_file["notebooks"])  # else it is a gap as it is
        names = {m["name"] for s in held for m in s.record["metrics"]}
        for expected in claim.get("expects", ()) if names and whole else ():
            asked = {v for v in expected.values() if isinstance(v, str)}
            found += [f"claim {claim['id']}: no metric {n!r}" for n in sorted(asked - names)]
        odd = on_devices.odd_devices(claim)
        found += [f"claim {claim['id']}: {n!r} is no accelerator that is listed" for n in odd]
    return found + [f"record {p}: {e}" for p, e in bad_records()]


def bad_records() -> list[tuple[str, str]]:
    """Committed records and confirmations that are not in order: place, and what is wrong."""
    bad = []
    for path in sorted((EVIDENCE / "records").glob("*/*/*/*.json")):
        place = path.relative_to(EVIDENCE / "records")
        try:
            record = records.load(path)
        except ReproError as error:
            bad.append((str(place), str(error)))
            continue
        made = record["inputs"]["parameters"]
        if record["parameters"] != made:
            bad.append((str(place), "its parameters are not the hashed ones"))
        if (record["notebook"], f"seed-{made['seed']}", made["fault"]) != (
            str(place.parent.parent),
            path.stem,
            "",
        ):
            bad.append((str(place), "it is of another notebook or seed, or of a fault"))
        bad += _dirty(str(place), record)
    for path in sorted((EVIDENCE / "confirmations").glob("*/*/*/*.json")):
        name = str(path.relative_to(EVIDENCE))
        try:
            bad += _dirty(name, records.load(path))
        except ReproError as error:
            bad.append((name, str(error)))
    return bad


def _dirty(place: str, record: dict[str, Any]) -> list[tuple[str, str]]:
    try:
        sanitize.require_clean(record, "it", sanitize.RECORD_HASHES)
    except ReproError as error:
        return [(place, str(error))]
    return []
