"""Which claims name device classes, and whether a receipt on file is of one of them."""

from collections.abc import Mapping
from typing import Any

from repro.errors import ReproError
from repro.evidence import receipts
from repro.evidence.receipts import devices, today

FLAG = "gpu-receipt"


def unmet(claim: Mapping[str, Any]) -> list[str] | None:
    """Why no receipt shows a claim's run on the devices that count for it; empty where one does.

    None for a claim that names no devices. A receipt of another card stays on file and is named
    here. One of older code does not count.
    """
    asked = claim["evidence"].get("receipts")
    if asked is None:
        return None
    of, classes = asked.get("of") or claim["evidence"]["notebooks"], asked["devices"]
    why = [f"no receipt of {' or '.join(of)} on {' or '.join(classes)}"]
    try:
        found = [r for r in receipts.current() if r["subject"] in of]
    except ReproError as error:
        return [*why, str(error)]
    for receipt in found:
        told = receipts.counts(receipt, classes)
        if not told and (changed := today.differences(receipt)):
            told = f"it is stale ({changed[0]})"
        if not told:
            return []
        why.append(f"receipt {receipt['receipt_id'][:16]} does not count: {told}")
    return why


def odd_devices(claim: Mapping[str, Any]) -> list[str]:
    """Device classes of a claim that are no accelerator of evidence/devices.json."""
    asked = claim["evidence"].get("receipts", {}).get("devices", ())
    return [name for name in asked if name == "CPU" or name not in devices.names()]
