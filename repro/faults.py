"""Deliberate faults: break one mechanism on purpose and see which checks go red.

A chapter that cannot show its checks failing has not shown that they check anything. A fault
names its target as text, so that listing faults imports no mechanism.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.errors import BadParameter


@dataclass(frozen=True)
class Fault:
    """One planted error.

    target: ``"module:attribute"`` or ``"module:Class.method"``, replaced while planted.
    replacement: maps the original object to the broken one.
    """

    summary: str
    target: str
    replacement: Callable[[Any], Any]


class Planted:
    """A fault in place; leaving the ``with`` block or `remove` restores the original."""

    def __init__(self, fault: Fault | None):
        self._restore: Callable[[], None] = lambda: None
        if fault is None:
            return
        module, _, dotted = fault.target.partition(":")
        *owners, name = dotted.split(".")
        owner = importlib.import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        original = vars(owner)[name]
        setattr(owner, name, fault.replacement(original))
        self._restore = lambda: setattr(owner, name, original)

    def remove(self) -> None:
        self._restore()
        self._restore = lambda: None

    def __enter__(self) -> "Planted":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def plant(table: Mapping[str, Fault], name: str) -> Planted:
    """Plant fault `name` of `table`; the empty name plants nothing.

    Raises BadParameter for a name that the table does not list.
    """
    if name and name not in table:
        raise BadParameter(f"fault={name!r} is not known here; accepted: '' or {sorted(table)}.")
    return Planted(table[name] if name else None)


def red(checks: Mapping[str, Callable[[], None]]) -> dict[str, str]:
    """Run every check; return the failing ones with their message."""
    failed = {}
    for name, check in checks.items():
        try:
            check()
        except (AssertionError, ValueError) as error:
            failed[name] = str(error) or type(error).__name__
    return failed


def audit(
    table: Mapping[str, Fault], checks: Mapping[str, Callable[[], None]]
) -> dict[str, list[str]]:
    """For each fault, the checks that it turns red (an empty list: nothing caught it)."""
    caught = {}
    for name in table:
        with plant(table, name):
            caught[name] = sorted(red(checks))
    return caught
