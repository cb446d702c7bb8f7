"""How much SRCL weighs beside DCE: by measured gradient norms, not by the paper's constants.

The published weights (5e4 and 12.5 to 35) depend on an averaging rule that is not stated: read one
way SRCL cannot matter, read the other it dominates. So the DCE weight is 1 and the SRCL weight is
chosen once such that its share of the summed norms is a stated fraction; both norms are logged.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter


def norm(gradients: Iterable[Tensor | None]) -> float:
    """Euclidean norm over all `gradients` together."""
    squares = [float(g.double().pow(2).sum()) for g in gradients if g is not None]
    return math.sqrt(sum(squares))


def weight(guidance: float, concise: float, share: float) -> float:
    """w with share = w |g_S| / (|g_G| + w |g_S|), from the two norms.

    Raises BadParameter where a norm is not above 0: then nothing was measured.
    """
    accept.between("share", share, 0, 1)
    for name, value in (("guidance norm", guidance), ("concise norm", concise)):
        if not (math.isfinite(value) and value > 0):
            raise BadParameter(f"{name}={value!r} is refused; accepted: a finite number above 0.")
    return share / (1 - share) * guidance / concise


def combined(
    guidance: Sequence[Tensor | None],
    concise: Sequence[Tensor | None],
    weights: tuple[float, float],
) -> list[Tensor | None]:
    """weights[0] * guidance + weights[1] * concise, parameter by parameter; None counts as 0."""
    found: list[Tensor | None] = []
    for one, other in zip(guidance, concise, strict=True):
        parts = [w * g for w, g in zip(weights, (one, other), strict=True) if g is not None]
        found.append(torch.stack(parts).sum(0) if parts else None)
    return found
