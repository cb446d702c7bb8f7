"""Interests: learned queries over a compressed history, a score that adapts to each candidate.

Source: arXiv 2609.23677 as the project's notes give it (sections 3.3 to 3.6): the attention over
queries, the score and the penalty (Eq. 12) are reported; the exact next-K objective and the
fusion (Eq. 14) are our reconstruction. M interests, d dimensions, cosines throughout.
"""

import torch
from torch.nn import functional

from repro.errors import BadParameter

CORRECTIONS = ("none", "q", "nq")


def attend(
    queries: torch.Tensor,
    encoded: torch.Tensor,
    mask: torch.Tensor | None = None,
    sizes: torch.Tensor | None = None,
) -> torch.Tensor:
    """u_m = softmax(q_m H^T / sqrt(d)) H: interests [B, M, d].

    queries: [M, d]. encoded: H, [B, Lc, d]. mask: [B, Lc], true where there is a token.
    sizes: [B, Lc], actions behind each token; its log is added to the logits, so that a pooled
        token weighs as much as its actions would. Not in the paper as far as the notes tell.
    Raises BadParameter for other shapes and for a user without any token.
    """
    if encoded.ndim != 3 or queries.ndim != 2 or encoded.shape[-1] != queries.shape[-1]:
        raise BadParameter(
            f"encoded has shape {tuple(encoded.shape)} and queries {tuple(queries.shape)}; "
            "accepted: [B, Lc, d] and [M, d] with the same d."
        )
    if mask is None:
        mask = torch.ones(encoded.shape[:2], dtype=torch.bool)
    if mask.shape != encoded.shape[:2]:
        shape = tuple(encoded.shape[:2])
        raise BadParameter(f"mask has shape {tuple(mask.shape)}; accepted: {shape}.")
    if not mask.any(-1).all():
        user = int((~mask.any(-1)).nonzero()[0])
        raise BadParameter(f"history of user {user} is empty; accepted: one action or more.")
    logits = queries @ encoded.transpose(-1, -2) / encoded.shape[-1] ** 0.5
    if sizes is not None:
        logits = logits + torch.log(sizes.to(logits).clamp(min=1))[:, None]
    return torch.softmax(logits.masked_fill(~mask[:, None], -torch.inf), -1) @ encoded


def cosines(interests: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """cos(u_m, e_i) of interests [..., M, d] and items [n, d]: [..., M, n].

    Raises BadParameter for another dimension or for a zero vector, which has no direction.
    """
    if interests.shape[-1] != items.shape[-1]:
        raise BadParameter(
            f"items have dimension {items.shape[-1]}; accepted: {interests.shape[-1]}, that of "
            "interests."
        )
    for name, vectors in (("interests", interests), ("items", items)):
        if not (vectors.detach().norm(dim=-1) > 0).all():
            raise BadParameter(f"{name} hold a zero vector or NaN; accepted: lengths above 0.")
    unit = functional.normalize(interests, dim=-1)
    return unit @ functional.normalize(items, dim=-1).transpose(-1, -2)


def score(cos: torch.Tensor, tau: float) -> torch.Tensor:
    """sum_m alpha_m cos_m with alpha = softmax_m(cos / tau), for cosines [..., M, n]: [..., n].

    The paper's s(i) is this divided by tau. At tau = 0, the limit: the largest cosine. The score
    lies below it by at most tau log M, since the entropy of alpha is at most log M.
    """
    if not tau >= 0:
        raise BadParameter(f"tau={tau!r} is refused; accepted: 0 or more.")
    if tau == 0:
        return cos.amax(-2)
    return (torch.softmax(cos / tau, -2) * cos).sum(-2)


def orthogonality(interests: torch.Tensor) -> torch.Tensor:
    """Eq. 12: sum over m != n of (u_m . u_n)^2 for unit vectors, mean over users [B, M, d]."""
    unit = functional.normalize(interests, dim=-1)
    gram = unit @ unit.transpose(-1, -2)
    apart = ~torch.eye(gram.shape[-1], dtype=torch.bool)
    return (gram[..., apart] ** 2).sum(-1).mean()


def next_k(
    positive: torch.Tensor,
    negative: torch.Tensor,
    log_q: torch.Tensor,
    hit: torch.Tensor | None = None,
    correction: str = "nq",
) -> torch.Tensor:
    """Mean over the next K actions of -log exp(s+) / (exp(s+) + sum_j exp(s_j - c_j)).

    positive: [B, K], logits s / tau. negative: [B, N], of N items drawn from Q with replacement.
    log_q: [N]. hit: [B, K, N], true where a drawn item is the positive itself; it is left out.
    correction: c_j is 0 for ``none``, log Q(j) for ``q`` (as the notes write it) and log N Q(j) for
        ``nq``. Only with the last, and with hits left out, is the expected denominator that of
        the softmax over all items; ``q`` makes it about N times as large.
    """
    if correction not in CORRECTIONS:
        raise BadParameter(f"correction={correction!r} is not known; accepted: {CORRECTIONS}.")
    if positive.ndim != 2 or not positive.shape[1]:
        raise BadParameter(f"positive has shape {tuple(positive.shape)}; accepted: [B, K], K > 0.")
    n = negative.shape[-1]
    if negative.shape[:1] != positive.shape[:1] or log_q.shape != (n,) or not n:
        raise BadParameter(
            f"negative has shape {tuple(negative.shape)} and log_q {tuple(log_q.shape)}; accepted: "
            f"[{len(positive)}, N] and [N], N > 0."
        )
    shift = torch.zeros_like(log_q) if correction == "none" else log_q
    if correction == "nq":
        shift = shift + torch.log(torch.tensor(float(n), dtype=log_q.dtype))
    other = (negative - shift)[:, None].expand(-1, positive.shape[1], -1)
    if hit is not None:
        other = other.masked_fill(hit, -torch.inf)
    total = torch.logsumexp(torch.cat([positive[..., None], other], -1), -1)
    return (total - positive).mean()


# Fusion of cached and fresh interests -------------------------------------------------------------


def match(long: torch.Tensor, short: torch.Tensor) -> torch.Tensor:
    """pi: for each long-term interest [M, d] its own short-term one [M, d], greedily by cosine."""
    if long.shape != short.shape or long.ndim != 2:
        raise BadParameter(
            f"long has shape {tuple(long.shape)} and short {tuple(short.shape)}; accepted: [M, d] "
            "for both."
        )
    cos = cosines(long, short).detach().clone()
    found = torch.empty(len(long), dtype=torch.long)
    for _ in range(len(long)):
        m, n = divmod(int(cos.argmax()), len(long))
        found[m] = n
        cos[m], cos[:, n] = -torch.inf, -torch.inf
    return found


def fuse(
    long: torch.Tensor, short: torch.Tensor, age: float, new: int, w: torch.Tensor, bias: float = 0
) -> torch.Tensor:
    """norm((1 - beta_m) u_L + beta_m u_S), beta = sigmoid(w . [u_L; u_S; log1p(age); log1p(new)]).

    long, short: [M, d], both unit-normalised here. w: [2 d + 2]. new: actions since the cached
    vectors were computed. age: seconds from then to the newest action, and not to the present: a
    user who did nothing is not stale, and gets bit by bit what a fresh computation would give.
    Raises BadParameter for a clock that runs backwards.
    """
    if not age >= 0 or new < 0:
        raise BadParameter(f"age={age!r}, new={new!r} is refused; accepted: both 0 or more.")
    if w.shape != (2 * long.shape[-1] + 2,):
        raise BadParameter(f"w has shape {tuple(w.shape)}; accepted: ({2 * long.shape[-1] + 2},).")
    short = short[match(long, short)]
    long, short = functional.normalize(long, dim=-1), functional.normalize(short, dim=-1)
    stale = torch.log1p(torch.tensor([float(age), float(new)], dtype=long.dtype))
    seen = torch.cat([long, short, stale.expand(len(long), 2)], -1)
    beta = torch.sigmoid(seen @ w + bias)[:, None]
    return functional.normalize((1 - beta) * long + beta * short, dim=-1)
