"""Do the checks behind each claim fail when its mechanism is broken?

Every notebook imports its two tables, `CHECKS` and `FAULTS`; here they are run without the
notebook: all checks as they are, then once under every planted fault.
"""

import ast
import importlib
import sys
from dataclasses import dataclass

from repro import faults, notebooks
from repro.errors import ReproError
from repro.paths import ROOT


@dataclass(frozen=True)
class Teeth:
    """One notebook. red: checks that fail as they are. caught: fault -> checks it turns red."""

    key: str
    checks: int
    red: dict[str, str]
    caught: dict[str, list[str]]
    summaries: dict[str, str]

    @property
    def uncaught(self) -> list[str]:
        return [name for name, checks in self.caught.items() if not checks]

    @property
    def sound(self) -> bool:
        return bool(self.checks and self.caught) and not self.red and not self.uncaught


def bite(key: str) -> Teeth:
    """Run the checks of notebook `key`, and run them under each of its faults.

    Raises ReproError for a notebook that imports no CHECKS or no FAULTS.
    """
    checks, planted = (table(key, name) for name in ("CHECKS", "FAULTS"))
    return Teeth(
        key=key,
        checks=len(checks),
        red=faults.red(checks),
        caught=faults.audit(planted, checks),
        summaries={name: fault.summary for name, fault in planted.items()},
    )


def table(key: str, name: str) -> dict:
    """What notebook `key` imports as CHECKS or FAULTS. Raises ReproError where it does not."""
    if str(ROOT) not in sys.path:  # for kernels/, which is not installed
        sys.path.insert(0, str(ROOT))
    for node in ast.walk(ast.parse("\n".join(notebooks.read(key).cells))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return getattr(importlib.import_module(str(node.module)), name)
    raise ReproError(f"{key} imports no {name}; accepted: a table of them, as in repro.faults.")
