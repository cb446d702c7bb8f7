"""The policy loss on step rows: one ratio for a whole step, or one for each token.

Source: arXiv 2609.28963, Eq. 3 and 4.
"""

from typing import Any

from repro.errors import BadParameter


def step_ratio(new: Any, old: Any, mask: Any) -> Any:
    """exp of the mean log-ratio over a step's tokens, [R] (Eq. 3).

    new, old: [R, L] log-probabilities of the taken tokens; old carries no gradient. mask: [R, L],
    1 on the tokens of the step. Raises BadParameter for a step without tokens.
    """
    held = _check(new, old, mask)
    length = held.sum(-1)
    return (((new - old.detach()) * held).sum(-1) / length).exp()


def step_loss(new: Any, old: Any, mask: Any, advantage: Any, clip: float = 0.2) -> Any:
    """Minus the clipped objective, averaged over step rows (Eq. 4). advantage: [R]."""
    ratio = step_ratio(new, old, mask)
    return -_clipped(ratio, _rows(advantage, ratio), clip).mean()


def token_loss(new: Any, old: Any, mask: Any, advantage: Any, clip: float = 0.2) -> Any:
    """The usual form: each token has its own ratio; mean over a step's tokens, then over steps."""
    held = _check(new, old, mask)
    ratio = (new - old.detach()).exp()
    each = _clipped(ratio, _rows(advantage, ratio[:, 0])[:, None], clip) * held
    return -(each.sum(-1) / held.sum(-1)).mean()


def _clipped(ratio: Any, advantage: Any, clip: float) -> Any:
    import torch

    if not 0 < clip < 1:
        raise BadParameter(f"clip={clip} is refused; accepted: between 0 and 1.")
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def _check(new: Any, old: Any, mask: Any) -> Any:
    if not new.shape == old.shape == mask.shape or new.ndim != 2:
        raise BadParameter(
            f"new, old and mask have shapes {tuple(new.shape)}, {tuple(old.shape)}, "
            f"{tuple(mask.shape)}; accepted: the same [R, L]."
        )
    held = mask.to(new.dtype)
    if (held.sum(-1) == 0).any():
        raise BadParameter("mask leaves a step without tokens; accepted: one or more in each row.")
    return held


def _rows(advantage: Any, like: Any) -> Any:
    if advantage.shape != like.shape or not bool(advantage.isfinite().all()):
        raise BadParameter(
            f"advantage has shape {tuple(advantage.shape)}; accepted: {tuple(like.shape)}, finite."
        )
    return advantage.to(like.dtype)
