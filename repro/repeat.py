"""Does a re-execution give what the record on file says?"""

from pathlib import Path
from typing import Any

from repro import records
from repro.errors import ReproError

SHOWN = 3  # differing metrics that a message names


def earlier(path: Path, digest: str) -> dict[str, Any] | None:
    """The record in `path`, if it is whole and of the same inputs."""
    try:
        found = records.load(path)
    except (OSError, ReproError):
        return None
    return found if found["digest"] == digest else None


def differences(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> list[str]:
    """Metrics of `new` that are not those of `old`, to `tolerance` x max(1, |old value|)."""
    before = {m["name"]: m["value"] for m in old["metrics"]}
    after = {m["name"]: m["value"] for m in new["metrics"]}
    found = [f"{name} is missing" for name in before.keys() - after.keys()]
    found += [f"{name} is new" for name in after.keys() - before.keys()]
    for name in before.keys() & after.keys():
        if abs(after[name] - before[name]) > tolerance * max(1.0, abs(before[name])):
            found.append(f"{name} was {before[name]:.6g}, is {after[name]:.6g}")
    return sorted(found)


def verdict(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> tuple[bool, str]:
    """Whether `new` repeats `old`, and a sentence that says so."""
    found = differences(old, new, tolerance)
    if not found:
        return True, f"all {len(new['metrics'])} metrics as on file, to {tolerance:g}"
    named = "; ".join(found[:SHOWN]) + (f"; and {len(found) - SHOWN} more" if found[SHOWN:] else "")
    return False, f"not what is on file, to {tolerance:g}: {named}"
