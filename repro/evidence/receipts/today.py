"""Does a receipt still speak of today's code, parameters, assets and versions?"""

from collections.abc import Mapping
from typing import Any

from repro import assets, digest, records, runs
from repro.errors import ReproError


def differences(receipt: Mapping[str, Any]) -> list[str]:
    """Inputs that are not today's, in words; empty for a receipt that is not stale."""
    try:
        return digest.differences(receipt["inputs"], inputs(receipt))
    except (ReproError, OSError) as error:
        return [str(error)]


def inputs(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """What the same run would depend on today. Raises ReproError where it cannot be planned."""
    from repro.evidence.receipts import session

    given = receipt["inputs"]["parameters"]
    if receipt["kind"] == "session":
        return session.inputs(given)
    return runs.plan(receipt["subject"], given=dict(given)).inputs


def elsewhere(receipt: Mapping[str, Any]) -> list[str]:
    """What is not here as it was there: versions that are installed, and bytes of assets."""
    held = records.versions({n: "" for n in receipt["versions"] if n != "python"})
    found = [
        f"version of {name} ({version} → {held[name] or 'not installed'})"
        for name, version in receipt["versions"].items()
        if name != "python" and held[name] != version
    ]
    lacking = assets.lacking(receipt["inputs"]["assets"])
    return found + ([lacking] if lacking else [])
