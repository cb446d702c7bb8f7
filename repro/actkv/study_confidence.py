"""What the confidence notebook measures: every token signal of a real trace, and what monitors do.

A monitor is one signal in one orientation; at the end of each round it asks Algorithm 2 of ActKV
(arXiv 2609.31395) for the budget. Signals are in nats, one value a generated token, [n].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from repro.actkv import attention, confidence
from repro.actkv.confidence import BudgetDecision

T = "topk_mean_neglogp"


@dataclass(frozen=True)
class Read:
    """The signals of one trace's generated tokens, each [n], in the order of the trace."""

    name: str  # the trace's tasks
    rounds: np.ndarray  # round of each token
    ends: np.ndarray  # generated tokens so far at the end of each round [rounds]
    t: dict[int, np.ndarray]  # T by k
    rises: dict[int, np.ndarray]  # by k: whether T is larger for P sharpened by 1 %
    others: dict[str, np.ndarray]  # sampled_surprisal, entropy, max_logp


def read(model: Any, trace: Any, ks: Sequence[int]) -> Read:
    """All signals of `trace`, teacher-forced: each token is predicted from the true ones before it.

    "Sampled" is the token that the trace holds. One pass; logits are dropped chunk by chunk.
    """
    parts = [_signals(logits, trace.ids[at], ks) for at, logits in _chunks(model, trace)]
    at = np.concatenate([at for at, _ in parts])
"""
