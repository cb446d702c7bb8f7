"""From positions to one number: mean within an answer, then over answers (2609.30652, Eq. 4).

A batch may be cut into micro-batches. So the divisor is an argument that counts over the *whole*
batch; the parts then add up to the same gradient however the batch is cut.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter


def answered(lengths: Sequence[int]) -> int:
    """Answers with at least one token: the divisor of `answer_mean`. Empty ones are left out."""
    return sum(length > 0 for length in lengths)


def answer_mean(losses: Sequence[Tensor], answers: int) -> Tensor:
    """Sum over `losses` ([m_i] each) of the mean within, divided by `answers` of the whole batch.

    An empty answer adds 0 with a live graph. With answers = 0 the result is that 0.
    """
    if not losses:
        raise BadParameter("losses=[] is refused; accepted: one tensor an answer, empty or not.")
    parts = [each.mean() if len(each) else each.sum() for each in losses]
    return torch.stack(parts).sum() / max(1, accept.count("answers", answers, least=0))


def token_mean(losses: Sequence[Tensor], tokens: int) -> Tensor:
    """Sum of all `losses` divided by `tokens`, the count over the whole batch (SRCL's N_k)."""
    if not losses:
        raise BadParameter("losses=[] is refused; accepted: one tensor a rewrite.")
    total = torch.stack([each.sum() for each in losses]).sum()
    return total / max(1, accept.count("tokens", tokens, least=0))
