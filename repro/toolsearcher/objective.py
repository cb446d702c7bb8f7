"""The clipped loss of ToolSearcher (arXiv 2609.30906, Eq. 4 as one re-implementation numbers it).

Token u of trajectory i with mask m, advantage A (its turn's, see `tokens`) and ratio rho:

    l = max(-A rho, -A clip(rho, 1 - low, 1 + high)),  and  l = min(l, -dual A)  where A < 0
    L = mean_i  sum_u m (l + beta k3) / sum_u m

The authors' repository runs it with low = high = 0.2, dual = 3, beta = 0.001, no entropy bonus; the
re-implementation has no dual clip (dual=None). Masked values are replaced *before* any exp, so that
infinity or NaN at a position that is not trained on reaches neither the loss nor a gradient.
All arrays are [B, S] tensors; log-probabilities are natural.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.errors import BadParameter

AVERAGING, GRADIENTS = ("trajectory", "token"), ("k3", "k2")
_FAR = 20.0  # log ratios are clipped here before exp, and k3 at 10 (repository)
_K3_MOST = 10.0


@dataclass(frozen=True)
class Totals:
    """What the whole optimiser batch holds: trajectories, and trainable tokens in all of them."""

    trajectories: int
    tokens: int


@dataclass(frozen=True)
class Objective:
    """loss: scalar to minimise. policy, kl: its two parts, kl before beta. clipped: share of the
    trainable tokens whose loss is on a clipped branch. coverage: share of tokens in the mask."""

    loss: Tensor
    policy: Tensor
    kl: Tensor
    clipped: float
    coverage: float


def token_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """log p(ids[u] | ids[< u]) at position u: logits [B, S, V], ids [B, S] -> [B, S].

    The logits at u - 1 predict token u, so the result lines up with `ids` and with every mask. The
    first token has no prediction: 0.
    """
    if logits.shape[:2] != ids.shape:
        raise BadParameter(
            f"logits {tuple(logits.shape)} do not fit ids {tuple(ids.shape)}; accepted: [B, S, V]."
        )
    scores = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return torch.nn.functional.pad(scores, (1, 0))


def selected(values: Tensor, mask: Tensor) -> Tensor:
    """`values` in the mask and 0 outside, chosen, not multiplied: NaN outside leaves no trace."""
    return torch.where(mask, values, torch.zeros_like(values))


def ratio(logp: Tensor, old: Tensor) -> Tensor:
    """rho = exp(clip(log pi - log pi_old, -20, 20))."""
    return (logp - old).clamp(-_FAR, _FAR).exp()


def clipped_loss(
    rho: Tensor, advantage: Tensor, low: float = 0.2, high: float = 0.2, dual: float | None = 3.0
) -> Tensor:
    """The policy term l of each token; the dual clip bounds it where the advantage is negative."""
    if not 0 <= low < 1 or not 0 <= high < math.inf:
        raise BadParameter(f"low={low}, high={high} is refused; accepted: 0 <= low < 1, high >= 0.")
    if dual is not None and not 1 < dual < math.inf:
        raise BadParameter(f"dual={dual} is refused; accepted: a number > 1, or None.")
    loss = torch.maximum(-advantage * rho, -advantage * rho.clamp(1 - low, 1 + high))
    if dual is None:
        return loss
    return torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def k3(logp: Tensor, reference: Tensor, gradient: str = "k3") -> Tensor:
    """exp(d) - d - 1 with d = log pi_ref - log pi, never negative, for each token.

    gradient="k3" differentiates that (repository). On samples of pi its mean gradient is the one of
    KL(ref || pi). "k2" keeps the value and has the gradient of d²/2, whose mean is the one of
    KL(pi || ref), the divergence that the value estimates.
    """
    if gradient not in GRADIENTS:
        raise BadParameter(f"gradient={gradient!r} is refused; accepted: {GRADIENTS}.")
    d = (reference - logp).clamp(-_FAR, _FAR)
    value = (d.exp() - d - 1).clamp(-_K3_MOST, _K3_MOST)
    if gradient == "k3":
        return value
    square = d.square() / 2
    return value.detach() + square - square.detach()


def totals(mask: Tensor) -> Totals:
    """Count a whole optimiser batch; hand the result to each of its micro-batches."""
    return Totals(len(mask), int(mask.sum()))


def average(values: Tensor, mask: Tensor, averaging: str = "trajectory", of: Totals | None = None):
    """One number from [B, S] values.

    "trajectory": mean over the tokens of each row, then over rows (re-implementation; default).
    "token": sum over all tokens by their number (repository, there per micro-batch). Divisors come
    from `of`, the whole optimiser batch, so that the micro-batches' results *add up* to that of one
    large batch, however it is split. A row without a trainable token adds 0 and counts as a row.
    Raises BadParameter for another rule.
    """
    if averaging not in AVERAGING:
        raise BadParameter(f"averaging={averaging!r} is refused; accepted: {AVERAGING}.")
    of = of or totals(mask)
    values = selected(values, mask)
    if averaging == "token":
        return values.sum() / max(of.tokens, 1)
    return (values.sum(1) / mask.sum(1).clamp(min=1)).sum() / max(of.trajectories, 1)


def objective(
    logp: Tensor,
    old: Tensor,
    advantage: Tensor,
    mask: Tensor,
    reference: Tensor | None = None,
    *,
    low: float = 0.2,
    high: float = 0.2,
    dual: float | None = 3.0,
    beta: float = 0.001,
    kl_gradient: str = "k3",
    averaging: str = "trajectory",
    of: Totals | None = None,
) -> Objective:
    """L of a batch or of one of its micro-batches (then with `of`). All tensors [B, S], mask bool.

    logp carries the gradient; old and reference are constants. Without a reference there is no KL
    term. A token with advantage 0 (a useless search, a closed gate, a group without spread) has no
    policy gradient, but it has its KL term and it counts in every divisor.
    Raises BadParameter for other shapes or a mask that is not bool.
    """
    given = {"old": old, "advantage": advantage, "mask": mask, "reference": reference}
    for name, value in given.items():
        if value is not None and value.shape != logp.shape:
            raise BadParameter(
                f"{name} has shape {tuple(value.shape)}; accepted: {tuple(logp.shape)}, as logp."
            )
    if mask.dtype != torch.bool:
        raise BadParameter(f"mask is {mask.dtype}; accepted: torch.bool, True where trained on.")
    logp, old, advantage = (selected(v, mask) for v in (logp, old.detach(), advantage.detach()))
    rho = ratio(logp, old)
    tokens = clipped_loss(rho, advantage, low, high, dual)
    policy = average(tokens, mask, averaging, of)
    kl = torch.zeros((), dtype=logp.dtype)
    if reference is not None:
        estimate = k3(logp, selected(reference.detach(), mask), kl_gradient)
        kl = average(estimate, mask, averaging, of)
    clipped = (tokens.detach() != -advantage * rho.detach()) & mask
    return Objective(
        loss=policy + beta * kl,
        policy=policy.detach(),
        kl=kl.detach(),
        clipped=float(clipped.sum() / mask.sum().clamp(min=1)),
        coverage=float(mask.float().mean()),
    )
