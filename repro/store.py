"""The store of executed notebooks: found again only if whole, sealed and valid."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro import records, redact
from repro.digest import code_hash
from repro.errors import ReproError
from repro.paths import BUILD

EXECUTED = BUILD / "executed"


def find_record(executed: dict[str, Any]) -> dict[str, Any] | None:
    """The record inside an executed notebook's last code cell; None unless there is just one."""
    found = [
        (cell, output["data"][records.MIME])
        for cell in code_cells(executed)
        for output in cell["outputs"]
        if records.MIME in output.get("data", {})
    ]
    last = code_cells(executed)[-1:]
    return found[0][1] if len(found) == 1 and found[0][0] is last[0] else None


def code_cells(executed: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in executed["cells"] if cell["cell_type"] == "code"]


def same_cells(executed: dict[str, Any], cells: Sequence[str]) -> bool:
    """Whether the code is divided into cells as in `cells`, so that outputs can be matched."""
    skip = {"parameters", "injected-parameters"}
    sources = [
        "".join(cell["source"])
        for cell in code_cells(executed)
        if not skip & set(cell["metadata"].get("tags", []))
    ]
    return [code_hash(text) for text in sources] == [code_hash(text) for text in cells]


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
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        ReproError,
    ):
        return None


def copies(key: str) -> list[Path]:
    """The executed copies of one notebook, oldest first."""
    return sorted((EXECUTED / key).glob("*.ipynb"), key=lambda p: p.stat().st_mtime)
