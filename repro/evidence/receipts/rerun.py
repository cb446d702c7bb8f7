"""Execute a receipt's run again, on the CPU of this machine, and say in a receipt what came out.

The same notebook with the same parameters, but for the device; a GPU session in the simulator,
where correctness alone can be had. Numbers are held against the receipt to the tolerance of the
profile; where the receipt is of another device class, numbers with a unit of time or speed are left
out, and the comparison says so.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro import paths, profiles, repeat, runs
from repro.errors import ReproError
from repro.evidence import receipts
from repro.evidence.receipts import attempt, build, session
from repro.supervise import supervise

LIMITS = profiles.Limits(notebook_s=3600.0)
TIMES = ("s", "ms", "us", "ns")


def again(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the run of a receipt and write the counter-receipt, which is returned.

    Raises ReproError for a run that cannot be planned today.
    """
    if receipt["kind"] == "session":
        return _session(receipt)
    given = receipt["inputs"]["parameters"] | {"device": "cpu"}
    elsewhere = receipt["device"]["class"] != "CPU"
    profile, tolerance = _profile(receipt)
    run = runs.plan(receipt["subject"], profile, given=given)
    found = build.of_attempt(
        *attempt.timed(run),
        {
            "receipt_id": receipt["receipt_id"],
            "agrees": False,
            "tolerance": tolerance,
            "differences": ["not compared"],
        },
    )
    told = differences(receipt, found, tolerance)
    found["repeats"] |= {"agrees": not told, "differences": told}
    if elsewhere:
        found["limitations"].append("Times and rates were not compared: another device class.")
    found["receipt_id"] = receipts.identity(found)
    receipts.write(found)
    return found


def _session(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The session of a receipt once more, in the simulator; its checks are what is compared."""
    given = receipt["inputs"]["parameters"] | {"device": "simulator"}
    with tempfile.TemporaryDirectory(prefix="repro-") as scratch:
        target = Path(scratch) / "session.json"
        options = [w for name, value in given.items() for w in (f"--{name}", str(value))]
        command = [sys.executable, str(paths.ROOT / session.SCRIPT), *options]
        problem = supervise([*command, "--output", str(target)], LIMITS, Path(scratch))
        if not target.is_file():
            raise ReproError(f"The session was not executed: {(problem or ('', 'no file'))[1]}.")
        found = session.made(
            session.read(target.read_bytes(), "the session's file"),
            kind="counter",
            files=[],
            limitations=["Executed in the simulator: no time and no rate was measured."],
            repeats={
                "receipt_id": receipt["receipt_id"],
                "agrees": False,
                "tolerance": 0.0,
                "differences": ["not compared"],
            },
        )
    told = [f"{name} was green, is red" for name in found["checks"]["red"]]
    if receipt["outcome"] == "passed" and found["outcome"] != "passed" and not told:
        told = [f"outcome was passed, is {found['outcome']}: {found['reason']}"[:1000]]
    found["repeats"] |= {"agrees": not told, "differences": told}
    found["receipt_id"] = receipts.identity(found)
    receipts.write(found)
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> list[str]:
    """What a repetition found otherwise, in words: its outcome, its red checks, its numbers."""
    if new["outcome"] != old["outcome"]:
        return [f"outcome was {old['outcome']}, is {new['outcome']}: {new['reason']}"[:1000]]
    if old["outcome"] != "passed":
        return []
    same = old["device"]["class"] == new["device"]["class"]
    before, now = (
        {"metrics": [m for m in one["metrics"] if same or not _is_time(m["unit"])]}
        for one in (old, new)
    )
    return repeat.differences(before, now, tolerance)


def _is_time(unit: str) -> bool:
    return unit in TIMES or unit.endswith("/s")


def _profile(receipt: Mapping[str, Any]) -> tuple[str, float]:
    """The profile of a receipt's record, whose limits hold, and its tolerance."""
    records = [f["path"] for f in receipt["files"] if f["role"] == "record"]
    name = records[0].split("/")[-2] if records else "default"
    name = name if name in profiles.names() else "default"
    return name, profiles.read(name).tolerance_of(receipt["subject"])
