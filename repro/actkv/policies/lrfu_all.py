"""LRFU over all generated queries: a control for ActKV (arXiv 2609.31395).

The same recurrence, hit set, trigger and reductions; only whose queries count differs: reasoning
and action tokens instead of action tokens alone. The difference is the action
signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from repro.actkv.policies.actkv import ActKV


@dataclass(kw_only=True)
class LRFUAll(ActKV):
    """Parameters as `ActKV`."""

    phases: ClassVar[Sequence[str]] = ("reasoning", "action")
