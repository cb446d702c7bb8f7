"""Three ways to ask for right answers and for a mix at once.

How MaD-RL (arXiv 2609.31644) joins the two is unknown [U]; these are the obvious candidates, and
the notebook `simulation` shows where each comes to rest. Arrays are one group, [G].
"""

from typing import Any

import numpy as np

from repro.errors import BadParameter
from repro.mad_rl import advantages, rewards

RULES = ("sum", "gate", "apart")


def combined(
    rule: str, divergence: str, categories: Any, correct: Any, target: Any, weight: float = 1.0
) -> np.ndarray:
    """Rewards [G] of one group.

    "sum": 1 for right, plus `weight` times the divergence's reward, whose mix counts all outputs.
    "gate": a wrong output counts as invalid, so the target is one for right outputs, and wrong ones
        are unwanted like any forbidden category; `weight` is not used.
    "apart": both are brought to deviation 1 in the group first, then added with `weight`.
    """
    if rule not in RULES:
        raise BadParameter(f"rule={rule!r} is refused; accepted: {', '.join(RULES)}.")
    if not 0 <= weight < np.inf:
        raise BadParameter(f"weight={weight!r} is refused; accepted: 0 or more.")
    right, categories = rewards.correctness(correct), np.asarray(categories)
    if right.shape != categories.shape:
        says = f"correct has shape {right.shape}"
        raise BadParameter(f"{says}; accepted: that of categories, {categories.shape}.")
    if rule == "gate":
        gated = np.where(right > 0, categories, rewards.INVALID)
        return rewards.group(divergence, gated, target)
    mix = rewards.group(divergence, categories, target)
    if rule == "apart":
        right, mix = (advantages.advantages(r[None], "group")[0] for r in (right, mix))
    return right + weight * mix
