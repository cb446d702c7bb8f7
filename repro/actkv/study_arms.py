"""The arms of an equal-budget comparison: their names, their policies, their outcomes.

An arm is a policy, or a policy with one change after "@": "snapkv@round" is SnapKV that compresses
when ActKV (arXiv 2609.31395) does, "actkv@decay=0" is ActKV with another decay, and `CHANGES` and
`MONITOR` name the open points of Algorithms 1 and 2 that can be decided otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.actkv.accept import count
from repro.actkv.policies import POLICIES
from repro.actkv.policies.base import Policy
from repro.errors import BadParameter

LRFU = ("lrfu-all", "actkv", "actkv-adaptive")  # policies with a decay and a hit mass
ALWAYS = ("fullkv", "actkv")  # ceiling, subject
CHANGES: dict[str, dict[str, Any]] = {
    "group=mean": {"options": {"group_reduce": "mean"}},
    "heads=max": {"options": {"head_reduce": "max"}},
    "layers=shared": {"shared": True},
    "prefix=in_mass": {"options": {"prefix_in_mass": True}},
    "ties=older": {"options": {"ties": "older"}},
}
MONITOR: dict[str, dict[str, Any]] = {
    "fit=since_raise": {"monitor": {"fit": "since_raise"}},
    "sign=negated": {"sign": -1},
}
SNAP, RECENT = 32, 8  # windows of SnapKV and R-KV in their authors' configurations
GROWTH = 1.75  # ActKV's factor


@dataclass(frozen=True)
class Outcome:
    """One trace under one policy; the first four have a value an action token, [n]."""

    nll: np.ndarray  # of the true token, nats
    agree: np.ndarray  # 1 where the most likely token is that of the full cache
    right: np.ndarray  # 1 where the most likely token is the true one
    kl: np.ndarray  # from the full cache's distribution to this one, nats
    sizes: np.ndarray  # [passes, 2]: entries cached, prefix included, before and after eviction
    raises: int  # of the budget; 0 unless it is adaptive
    prefix_kept: bool  # all P entries are still cached in every layer at the end

    @property
    def peak(self) -> int:
        return int(self.sizes.max())

    @property
    def evictions(self) -> int:
        return int((self.sizes[:, 1] < self.sizes[:, 0]).sum())


def percents(text: str) -> list[int]:
    """Budgets in percent from "10, 26", rising."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 100 for part in parts):
        raise BadParameter(f"budgets={text!r} is refused; accepted: 1 to 100, as in '10, 26'.")
    return sorted({int(part) for part in parts})


def chosen(text: str, always: Sequence[str] = ALWAYS) -> list[str]:
    """Arms from "snapkv, snapkv@round" or "all, actkv@decay=0"; those of `always` are added."""
    asked = [part.strip() for part in text.split(",")] if text or always else []
    names = [n for part in asked for n in (POLICIES if part == "all" else [part])]
    for name in names:
        policy, changed, change = name.partition("@")
        if policy not in POLICIES or (changed and _change(policy, change) is None):
            raise BadParameter(
                f"policies={name!r} is not known; accepted: all, {[*POLICIES]}, each also with "
                f"@round, {LRFU} with @decay=0 to @decay=1, @mass=0.1 to @mass=1 and "
                f"@{', @'.join(CHANGES)}, actkv-adaptive with @{', @'.join(MONITOR)}."
            )
    order = [*POLICIES]
    return sorted({*names, *always}, key=lambda n: ("@" in n, order.index(n.partition("@")[0]), n))


def slug(arm: str, percent: int | None = None) -> str:
    """The arm as part of a metric's name."""
    text = "".join(c if c.isalnum() else "_" for c in arm)
    return text if percent is None else f"{text}_{percent}"


def build(
    arms: Sequence[str], layers: int, protected: int, least: int, seed: int, **lrfu: Any
) -> dict[str, Policy]:
    """Fresh policies. Windows take at most half of `least`, the smallest budget.

    lrfu: decay and mass of the policies in `LRFU`.
    """
    window, made = max(1, count("least", least) // 2), {}
    options = {name: lrfu for name in LRFU} | {
        "snapkv": {"window": min(SNAP, window)},
        "rkv": {"window": min(RECENT, window)},
        "random": {"seed": seed},
    }
    for arm in arms:
        name, _, change = arm.partition("@")
        mine = options.get(name, {}) | (_change(name, change) or {})
        made[arm] = POLICIES[name](layers=layers, protected=protected, **mine)
        if change == "round":
            made[arm].trigger = "round"
    return made


def span(budget: int) -> tuple[int, int]:
    """First and largest budget of the adaptive arm: one step below and one above `budget`."""
    return max(1, int(budget / GROWTH)), int(budget * GROWTH)


def _change(policy: str, change: str) -> dict[str, Any] | None:
    """Arguments of `policy` that a change stands for; None for an unknown one."""
    if change == "round":
        return {}  # the trigger is no argument
    if policy == "actkv-adaptive" and change in MONITOR:
        return MONITOR[change]
    if policy not in LRFU:
        return None
    name, _, text = change.partition("=")
    if name in ("decay", "mass"):
        try:
            value = float(text)
        except ValueError:
            return None
        return {name: value} if 0 <= value <= 1 and (value or name == "decay") else None
    return CHANGES.get(change)
