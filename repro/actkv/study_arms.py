"""The arms of an equal-budget comparison: their names, their policies, their outcomes.

An arm is a policy, or a policy with one change after "@": "snapkv@round" is SnapKV that compresses
when ActKV (arXiv 2609.31395) does, "actkv@decay=0" is ActKV with another decay.
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
ALWAYS = ("fullkv", "random", "actkv")  # ceiling, weak arm, subject
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


def chosen(text: str) -> list[str]:
    """Arms from "snapkv, snapkv@round" or "all, actkv@decay=0"; those of `ALWAYS` are added."""
    asked = [part.strip() for part in text.split(",")]
    names = [n for part in asked for n in (POLICIES if part == "all" else [part])]
    for name in names:
        policy, changed, change = name.partition("@")
        decays = change.startswith("decay=") and policy in LRFU and _number(change[6:])
        if policy not in POLICIES or (changed and change != "round" and not decays):
            raise BadParameter(
                f"policies={name!r} is not known; accepted: all, {[*POLICIES]}, each also with "
                f"@round, and {LRFU} with @decay=0 to @decay=1."
            )
    order = [*POLICIES]
    return sorted({*names, *ALWAYS}, key=lambda n: ("@" in n, order.index(n.partition("@")[0]), n))


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
        mine = options.get(name, {})
        if change.startswith("decay="):
            mine = mine | {"decay": float(change[6:])}
        made[arm] = POLICIES[name](layers=layers, protected=protected, **mine)
        if change == "round":
            made[arm].trigger = "round"
    return made


def span(budget: int) -> tuple[int, int]:
    """First and largest budget of the adaptive arm: one step below and one above `budget`."""
    return max(1, int(budget / GROWTH)), int(budget * GROWTH)


def _number(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
