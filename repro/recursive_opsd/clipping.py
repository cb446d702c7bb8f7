"""Two ways to bound what one position can say: OPSD's cap on entries, and one that keeps direction.

OPSD (arXiv 2601.18734, v3) caps the term of every vocabulary entry and differentiates through the
cap. With U the entries that are not capped and Q_U their teacher mass, the gradient on logit j is
p_j Q_U - q_j [j in U]. A capped j gets +p_j Q_U > 0: descent *lowers* the student's logit of just
the tokens that the teacher wants most. The capped sum can be negative. DCE's text has no cap.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from repro import accept


@dataclass(frozen=True)
class Capped:
    """How much a cap touches: share of entries, and share of the teacher's mass on them."""

    entries: float
    teacher_mass: float


def clip_entries(terms: Tensor, cap: float) -> Tensor:
    """min(term, cap) entry by entry, [m, V]; `terms` from `losses.terms`."""
    return terms.clamp(max=accept.positive("clip", cap))


def capped(terms: Tensor, log_q: Tensor, cap: float) -> Capped:
    """What `clip_entries` would cap; both shares belong into the log of a run that clips."""
    over = terms > accept.positive("clip", cap)
    mass = (log_q.exp() * over).sum() / max(1, len(terms))
    return Capped(over.float().mean().item(), mass.item())


def bound_positions(losses: Tensor, bound: float) -> Tensor:
    """losses [m] times min(1, bound / loss), the factor held constant: the direction stays."""
    accept.positive("bound", bound)
    held = losses.detach()
    return losses * torch.clamp(bound / held.clamp(min=torch.finfo(held.dtype).tiny), max=1.0)
