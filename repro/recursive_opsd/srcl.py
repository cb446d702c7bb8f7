"""Self-refined concise learning: likelihood of accepted rewrites (arXiv 2609.30652, section 3.2).

    L_SRCL = -(1 / N_k) sum_i A_i sum_t log p(c_it | x_i, c_i<t),   N_k = sum_i A_i |c_i|

The rewrite is learned in the *student's* prompt, question alone, and its end token is a target.
A token mean over the batch, unlike DCE's mean over answers. N_k = 0 drops the term.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.recursive_opsd import gates, losses, means


@dataclass(frozen=True)
class Ledger:
    """What became of a batch's rewrites: indices accepted, N_k, and counts by reason."""

    accepted: tuple[int, ...]
    tokens: int
    reasons: dict[str, int]

    @property
    def by_gate(self) -> dict[int, int]:
        """Rejections by gate 1 to 4."""
        found = Counter({gate: 0 for gate in (1, 2, 3, 4)})
        for reason, times in self.reasons.items():
            if reason != gates.ACCEPTED:
                found[gates.REASONS[reason]] += times
        return dict(found)


def ledger(outcomes: Sequence[str], lengths: Sequence[int]) -> Ledger:
    """Book `outcomes` of `gates.book`; `lengths`: tokens of the rewrites, end token included."""
    accepted = tuple(i for i, outcome in enumerate(outcomes) if outcome == gates.ACCEPTED)
    return Ledger(accepted, sum(lengths[i] for i in accepted), dict(Counter(outcomes)))


def token_losses(logits: Tensor, tokens: Sequence[int]) -> Tensor:
    """-log p of each target, [m], from student logits [m, V]; the end token is one of them."""
    targets = torch.tensor(list(tokens), dtype=torch.long, device=logits.device)
    return -losses.log_probs(logits).gather(-1, targets[:, None])[:, 0]


def loss(logits: Sequence[Tensor], rewrites: Sequence[Sequence[int]], tokens: int) -> Tensor | None:
    """L_SRCL of (a micro-batch of) accepted rewrites; None when there are none.

    tokens: N_k of the whole batch.
    """
    if not rewrites:
        return None
    each = [token_losses(own, ids) for own, ids in zip(logits, rewrites, strict=True)]
    return means.token_mean(each, tokens)
