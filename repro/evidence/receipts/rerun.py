"""Execute a receipt's run again, on the CPU of this machine, and say in a receipt what came out.

The same notebook with the same parameters, but for the device. Numbers are held against the
receipt to the tolerance of the profile; where the receipt is of another device class, numbers with
a unit of time or speed are left out, and the comparison says so.
"""

from collections.abc import Mapping
from typing import Any

from repro import profiles, repeat, runs
from repro.evidence import receipts
from repro.evidence.receipts import attempt, build

TIMES = ("s", "ms", "us", "ns")


def again(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the run of a notebook's receipt and write the counter-receipt, which is returned.

    Raises ReproError for a run that cannot be planned today.
    """
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
