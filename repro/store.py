"""The store of executed notebooks: found again only if whole, sealed and valid."""

import json
from pathlib import Path
from typing import Any

from repro import records, redact
from repro.errors import ReproError
from repro.paths import BUILD

EXECUTED = BUILD / "executed"


def find_record(executed: dict[str, Any]) -> dict[str, Any] | None:
    """The record inside an executed notebook's last code cell, if it is there."""
    code = [c for c in executed["cells"] if c["cell_type"] == "code"]
    for output in code[-1]["outputs"] if code else []:
        if records.MIME in output.get("data", {}):
            return output["data"][records.MIME]
    return None


def record_of(path: Path) -> dict[str, Any] | None:
    """The record of an executed notebook on disk; None if absent, damaged or edited by hand."""
    executed = load_executed(path)
    return None if executed is None else find_record(executed)


def load_executed(path: Path) -> dict[str, Any] | None:
    """An executed notebook on disk whose seal holds, else None (it will be made again)."""
    try:
        executed = json.loads(path.read_text())
        if executed["metadata"]["repro"]["seal"] != redact.seal(executed["cells"]):
            return None
        record = find_record(executed)
        if record is not None:
            records.validate(record)
        return executed
    except (OSError, ValueError, KeyError, TypeError, ReproError):
        return None


def copies(key: str) -> list[Path]:
    """The executed copies of one notebook, oldest first."""
    return sorted((EXECUTED / key).glob("*.ipynb"), key=lambda p: p.stat().st_mtime)
