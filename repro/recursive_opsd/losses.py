"""Divergences between teacher and student, position by position (arXiv 2609.30652, Eq. 4).

The teacher comes first: KL(q || p) = sum_v q(v) log(q(v) / p(v)) over the whole vocabulary, with
q the teacher and p the student. In PyTorch's ``kl_div`` the *first* argument is the student.
Gradient with respect to the student's logits: p - q. Everything is taken from log-probabilities
in float32 or better, shapes [m, V]: m answer tokens, V vocabulary entries. Units: nats.
"""

import math

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd import clipping

KINDS = ("forward", "reverse", "jsd", "top_k")
RESTS = ("renormalise", "bucket")


def position_losses(
    student: Tensor,
    teacher: Tensor,
    kind: str = "forward",
    temperature: float = 1.0,
    k: int = 50,
    rest: str = "renormalise",
    clip: float | None = None,
    bound: float | None = None,
) -> Tensor:
    """Loss [m] from logits [m, V] of both sides; no gradient reaches the teacher.

    kind: ``forward`` (the paper's main form), ``reverse``, ``jsd`` (weights 1/2 each) or
    ``top_k`` (forward on the teacher's `k` most likely tokens, see `top_k_kl`).
    temperature: divides the logits of both sides, never of one.
    clip: cap of each vocabulary entry's term, OPSD's option (arXiv 2601.18734); it turns gradients
    round (`clipping.clip_entries`), so it is off. bound: `clipping.bound_positions` instead.
    Raises BadParameter for unequal shapes, non-finite logits and unknown or clashing options.
    """
    accept.one_of("kind", kind, KINDS)
    if student.shape != teacher.shape or student.ndim != 2:
        raise BadParameter(
            f"student logits {tuple(student.shape)} and teacher logits {tuple(teacher.shape)} are "
            "refused; accepted: [m, V] of equal width on both sides."
        )
    if clip is not None and (kind != "forward" or bound is not None):
        raise BadParameter(f"clip={clip!r} is refused; accepted with kind=forward, without bound.")
    log_p = log_probs(student, temperature)
    log_q = detached(log_probs(teacher, temperature))
    if kind == "reverse":
        found = reverse_kl(log_q, log_p)
    elif kind == "jsd":
        found = jsd(log_q, log_p)
    elif kind == "top_k":
        found = top_k_kl(log_q, log_p, k, rest)
    elif clip is not None:
        found = clipping.clip_entries(terms(log_q, log_p), clip).sum(-1)
    else:
        found = forward_kl(log_q, log_p)
    return found if bound is None else clipping.bound_positions(found, bound)


def log_probs(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """log softmax(logits / temperature), in float32 where the logits are of lower precision."""
    accept.positive("temperature", temperature)
    if not torch.isfinite(logits).all():
        raise BadParameter("logits hold NaN or infinity; accepted: finite values.")
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(wide / temperature, dim=-1)


def detached(log_q: Tensor) -> Tensor:
    """The teacher as a constant: the gradient is the student's alone."""
    return log_q.detach()


def terms(log_q: Tensor, log_p: Tensor) -> Tensor:
    """What each vocabulary entry adds to KL(teacher || student): [m, V]; 0 log 0 is 0."""
    gap = torch.where(log_q > -math.inf, log_q - log_p, torch.zeros_like(log_p))
    return log_q.exp() * gap


def forward_kl(log_q: Tensor, log_p: Tensor) -> Tensor:
    """KL(teacher || student), [m]."""
    return terms(log_q, log_p).sum(-1)


def reverse_kl(log_q: Tensor, log_p: Tensor) -> Tensor:
    """KL(student || teacher), [m]; gradient p_v (log(p_v / q_v) - KL)."""
    return terms(log_p, log_q).sum(-1)


def jsd(log_q: Tensor, log_p: Tensor, beta: float = 0.5) -> Tensor:
    """beta KL(q || m) + (1 - beta) KL(p || m), m = beta q + (1 - beta) p, [m] (2601.18734, Eq. 7).

    It goes to zero at both ends, so beta is no dial from one KL to the other: only the open
    interval is accepted, and `position_losses` takes 1/2.
    """
    beta = accept.between("beta", beta, 0, 1)
    mixed = torch.logaddexp(log_q + math.log(beta), log_p + math.log1p(-beta))
    return beta * forward_kl(log_q, mixed) + (1 - beta) * forward_kl(log_p, mixed)


def top_k_kl(log_q: Tensor, log_p: Tensor, k: int, rest: str = "renormalise") -> Tensor:
    """KL(teacher || student) seen through the teacher's `k` most likely tokens, [m].

    rest: ``renormalise`` both sides on those tokens (OPSD's repository), which forgets the mass
    outside, or put all others into one ``bucket``, which never exceeds the full KL.
    """
    accept.one_of("rest", rest, RESTS)
    if accept.count("k", k) > log_q.shape[-1]:
        raise BadParameter(f"k={k} is refused; accepted: 1 to the vocabulary's {log_q.shape[-1]}.")
    best = log_q.topk(k, dim=-1).indices
    top_q, top_p = log_q.gather(-1, best), log_p.gather(-1, best)
    if rest == "renormalise":
        return forward_kl(_renormalised(top_q), _renormalised(top_p))
    if k == log_q.shape[-1]:
        return forward_kl(top_q, top_p)
    others = torch.zeros_like(log_q, dtype=torch.bool).scatter(-1, best, True)
    tail_q, tail_p = (x.masked_fill(others, -math.inf).logsumexp(-1) for x in (log_q, log_p))
    inside = forward_kl(top_q, top_p)
    return inside + forward_kl(tail_q[:, None], tail_p[:, None])


def sampled_token(log_q: Tensor, log_p: Tensor, tokens: Tensor, direction: str) -> Tensor:
    """-A log p(token) with A = log q(token) - log p(token) held constant, [m] (2601.18734, Eq. 9).

    tokens: [m], drawn from the student. Averaged over draws, its gradient is that of the *reverse*
    KL, so `direction` must say ``reverse``; it has no forward form.
    """
    if direction != "reverse":
        raise BadParameter(
            f"direction={direction!r} is refused for the sampled-token loss; accepted: reverse."
        )
    own = log_p.gather(-1, tokens[:, None])[:, 0]
    gap = log_q.gather(-1, tokens[:, None])[:, 0] - own
    return -gap.detach() * own


def _renormalised(log_x: Tensor) -> Tensor:
    return log_x - log_x.logsumexp(-1, keepdim=True)
