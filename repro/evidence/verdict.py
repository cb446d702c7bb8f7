"""A reader's verdict: does a record made elsewhere agree with those on file?

The same seed is held against its record, to the tolerance of the profile. Another seed is held
against the 95 % prediction interval of the seeds on file, m -+ t s sqrt(1 + 1/n), which takes at
least five. Where an input differs the two are not comparable, and the first difference is named.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from repro import digest, evidence, files, profiles, records, repeat, sanitize
from repro.errors import ReproError
from repro.paths import EVIDENCE

NEEDED = 5
CONFIRMATIONS = EVIDENCE / "confirmations"


@dataclass(frozen=True)
class Reading:
    """verdict: inside, outside or not comparable. against: profile, and what it was held to."""

    verdict: str
    why: str
    profile: str | None = None
    outside: tuple[str, ...] = ()


def read(record: dict[str, Any]) -> Reading:
    """Hold a valid record against the fresh ones on file of the same notebook and parameters."""
    key, seed = record["notebook"], record["parameters"]["seed"]
    if record["parameters"].get("fault"):
        return Reading("not comparable", f"the fault {record['parameters']['fault']!r} was planted")
    on_file = {p: evidence.of_profile(key, p) for p in profiles.names()[1:]}
    fresh = {p: [s.record for s in held if s.state == "fresh"] for p, held in on_file.items()}
    found = {p: held for p, held in fresh.items() if held}
    if not found:
        return Reading("not comparable", f"no fresh record of {key} is on file")
    reasons = {p: first_difference(record, held[0]) for p, held in found.items()}
    profile = next((p for p, why in reasons.items() if not why), None)
    if profile is None:
        return Reading("not comparable", min(reasons.values(), key=_parameters_last))
    held = found[profile]
    if same := [one for one in held if one["parameters"]["seed"] == seed]:
        tolerance = profiles.read(profile).tolerance_of(key)
        told = repeat.differences(same[0], record, tolerance)
        where = f"seed {seed} on file, to {tolerance:g}"
    elif len(held) < NEEDED:
        why = f"seed {seed} is not on file, and an interval takes {NEEDED} seeds, not {len(held)}"
        return Reading("not comparable", why, profile)
    else:
        told, where = _outside(record, held), f"the prediction interval of {len(held)} seeds"
    if told:
        return Reading("outside", f"of {where}: {'; '.join(told)}", profile, tuple(told))
    return Reading("inside", f"all {len(record['metrics'])} metrics, {where}", profile)


def first_difference(record: dict[str, Any], other: dict[str, Any]) -> str:
    """The first input that differs, seed apart: code, parameter, asset, version, device; or ""."""
    mine, theirs = (_seedless(one["inputs"]) for one in (record, other))
    if found := digest.differences(theirs, mine):
        return found[0]
    for name, version in other["versions"].items():
        if name != "python" and record["versions"].get(name) != version:
            return f"version of {name} ({version} → {record['versions'].get(name)})"
    if record["device"] != other["device"]:
        return f"device class ({other['device']} → {record['device']})"
    return ""


def predicted(values: Any) -> tuple[float, float]:
    """95 % prediction interval of one more run, from those of n >= 5 runs."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or values.size < NEEDED:
        raise ValueError(f"values has shape {values.shape}; accepted: [n], n >= {NEEDED}.")
    n, spread = values.size, values.std(ddof=1)
    half = stats.t.ppf(0.975, n - 1) * spread * np.sqrt(1 + 1 / n)
    return float(values.mean() - half), float(values.mean() + half)


def accept(record: dict[str, Any], reading: Reading) -> Path:
    """Keep a record that agrees, under evidence/confirmations; returns its place.

    Raises ReproError for one that does not agree or that names a machine.
    """
    if reading.verdict != "inside" or reading.profile is None:
        raise ReproError(f"A record that is {reading.verdict} is no confirmation: {reading.why}.")
    sanitize.require_clean(record, "The record", sanitize.RECORD_HASHES)
    own = records.path(record["notebook"], reading.profile, record["parameters"]["seed"])
    if own.is_file() and records.load(own)["started"] == record["started"]:
        raise ReproError("That is the record on file itself; accepted: one of another execution.")
    folder = CONFIRMATIONS / record["notebook"] / reading.profile
    path = folder / f"{files.digest(record)[:16]}.json"
    files.write_atomic(path, records.dumps(record))
    return path


def confirmations(key: str, profile: str | None = None) -> list[dict[str, Any]]:
    """The accepted records of a notebook that still agree with what is on file."""
    places = sorted((CONFIRMATIONS / key).glob(f"{profile or '*'}/*.json"))
    return [one for one in map(_whole, places) if one and read(one).verdict == "inside"]


def _whole(path: Path) -> dict[str, Any] | None:
    try:
        return records.load(path)
    except ReproError:  # `repro ledger --check` names it
        return None


def _outside(record: dict[str, Any], held: list[dict[str, Any]]) -> list[str]:
    told = []
    for metric in record["metrics"]:
        name, value = metric["name"], metric["value"]
        values = [m["value"] for one in held for m in one["metrics"] if m["name"] == name]
        if len(values) < NEEDED:
            told.append(f"{name} is new")
            continue
        low, high = predicted(values)
        if not low - 1e-12 <= value <= high + 1e-12:
            told.append(f"{name} is {value:.6g}, predicted {low:.6g} to {high:.6g}")
    return told


def _seedless(inputs: dict[str, Any]) -> dict[str, Any]:
    return inputs | {"parameters": {k: v for k, v in inputs["parameters"].items() if k != "seed"}}


def _parameters_last(why: str) -> tuple[bool, str]:
    """Of several profiles, tell about the one whose parameters are the record's."""
    return (why.startswith("parameter "), why)
