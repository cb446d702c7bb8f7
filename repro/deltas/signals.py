"""Scores of a chunk, by name: what DeltaS (arXiv 2609.27470) reads from the states, and variants.

A signal is a function of `Seen` that returns a score a chunk [B], a token [B, T], or, for signals
that judge old tokens anew, one for every cached token [B, S + T].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from repro.deltas import drift
from repro.deltas.memory import Pass
from repro.errors import BadParameter


@dataclass
class Seen:
    """What a signal may look at after a chunk of T tokens: states [B, H, d_k, d_v] a layer."""

    chunk: int
    inputs: Tensor
    before: list[Tensor]
    after: list[Tensor]
    told: Pass
    memory: Any
    index: np.ndarray  # arrival numbers of all cached tokens, [B, S + T]


def _gates(seen: Seen) -> Sequence[Tensor]:
    if seen.told.log_decay is None:
        raise BadParameter(
            "signal needs the decay gates, which this model does not show; accepted: 'drift', "
            "'head', or a model with in_proj_a."
        )
    return seen.told.log_decay


def _committed(seen: Seen) -> Tensor:
    if seen.told.committed is None:
        raise BadParameter(
            "signal='residual' needs beta * |e| of each token, which this model does not show; "
            "accepted: 'drift', 'head', 'write', 'decay'."
        )
    return drift.residual(seen.told.committed)


SIGNALS: dict[str, Callable[[Seen], Tensor]] = {
    "drift": lambda s: drift.drift(s.before, s.after),
    "head": lambda s: drift.drift(s.before, s.after, "head"),
    "write": lambda s: drift.write_drift(s.before, s.after, _gates(s)),
    "decay": lambda s: drift.decay_drift(s.before, _gates(s)),
    "residual": _committed,
}
