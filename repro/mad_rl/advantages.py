"""From rewards to an update: group-relative advantages and the clipped surrogate.

GRPO's scheme, as the public re-implementation of MaD-RL (arXiv 2609.31644) uses it [C]; the paper's
own details are unknown [U]. B prompts with G samples each; rewards and advantages are [B, G].
"""

from typing import Any

import numpy as np

from repro.errors import BadParameter

SCALES = ("none", "group", "batch")
_SAME = 1e-9  # rewards closer than this are the same reward, computed twice
FLOOR = 1e-3  # no deviation counts as smaller: rounding noise must not become an advantage


def advantages(rewards: Any, scale: str = "none") -> np.ndarray:
    """A = (r - mean of the group) / s, [B, G]; exactly 0 in a group whose rewards are all equal.

    scale: s is 1 ("none"), the group's or the batch's population deviation, at least `FLOOR`.
    Near the target the rewards are sampling noise, and dividing makes noise of any size look
    alike; so "none" is the default.
    """
    if scale not in SCALES:
        raise BadParameter(f"scale={scale!r} is refused; accepted: {', '.join(SCALES)}.")
    rewards = _rewards(rewards)
    centred = rewards - rewards.mean(-1, keepdims=True)
    centred[no_signal(rewards)] = 0.0  # the mean of equal numbers can be off by a rounding
    if scale == "none":
        return centred
    spread = np.sqrt((centred**2).mean(-1 if scale == "group" else None, keepdims=True))
    return centred / np.maximum(spread, FLOOR)


def no_signal(rewards: Any) -> np.ndarray:
    """Which groups [B] have equal rewards throughout: nothing can be learnt from them.

    Judged a group at a time, also where the deviation is the batch's.
    """
    rewards = _rewards(rewards)
    return rewards.max(-1) - rewards.min(-1) <= _SAME


def chance_of_no_signal(share: Any, group: int) -> np.ndarray:
    """Probability that all `group` samples are of one category that has probability `share`."""
    return np.asarray(share, dtype=np.float64) ** group


def surrogate(ratio: Any, advantage: Any, clip: float = 0.2) -> Any:
    """min(ratio A, clip(ratio, 1 - clip, 1 + clip) A), elementwise; to be maximised.

    ratio: probability of the sample under the new policy over that under the one that drew it.
    NumPy arrays or torch tensors. A sample stops counting once it has moved by `clip` in the
    direction its advantage asks for.
    """
    if not 0 < clip < 1:
        raise BadParameter(f"clip={clip!r} is refused; accepted: between 0 and 1.")
    free = ratio * advantage
    held = ratio.clip(1 - clip, 1 + clip) * advantage
    return free - (free - held).clip(0)  # the smaller of the two, for arrays and tensors alike


def _rewards(rewards: Any) -> np.ndarray:
    rewards = np.asarray(rewards, dtype=np.float64)
    if rewards.ndim != 2 or rewards.shape[-1] < 2:
        says = f"rewards have shape {rewards.shape}"
        raise BadParameter(f"{says}; accepted: [B, G] with groups of 2 samples or more.")
    if not np.isfinite(rewards).all():
        raise BadParameter("rewards hold NaN or infinite entries; accepted: finite numbers.")
    return rewards
