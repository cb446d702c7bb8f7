"""The smallest model that has the paper's parts: fixed item vectors, M learned queries, one loss.

Source: arXiv 2609.23677 as the project's notes give it (section 3). Item vectors are given and not
trained; there is no encoder between tokens and queries, so that what differs between two arms is
the part that is named. Everything runs in float32 on the CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from repro.errors import BadParameter
from repro.muser import interests, transformer


@dataclass(frozen=True)
class Settings:
    """M queries; tau; lam, weight of Eq. 12; steps of AdamW; users a batch; drawn negatives."""

    queries: int = 6
    tau: float = 0.07
    lam: float = 0.01
    steps: int = 150
    batch: int = 16
    negatives: int = 64
    rate: float = 0.03

    def __post_init__(self):
        if min(self.queries, self.steps, self.batch, self.negatives) < 1:
            raise BadParameter(f"{self}; accepted: counts of 1 or more.")
        if not (self.tau > 0 and self.lam >= 0 and self.rate > 0):
            raise BadParameter(f"{self}; accepted: tau and rate above 0, lam of 0 or more.")


def train(
    tokens: Sequence[torch.Tensor],
    future: np.ndarray,
    items: torch.Tensor,
    seed: int,
    settings: Settings = Settings(),  # noqa: B008  (frozen)
    sizes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queries [M, d] after training on users with tokens [Lc_i, d] and next items [users, K].

    sizes: [users, Lc], as for `interests.attend`. Negatives are uniform over the catalogue; the
    same seed draws the same users and negatives whatever the arm.
    """
    if len(tokens) != len(future) or not len(tokens):
        raise BadParameter(
            f"tokens of {len(tokens)} users, future of {len(future)}; accepted: as many, not 0."
        )
    items = items.float()
    draw = torch.Generator().manual_seed(seed)
    start = torch.randn(settings.queries, items.shape[1], generator=draw)
    # An own stream for the batches: the number of queries must not change them.
    draw = torch.Generator().manual_seed(seed + 1)
    queries = (4 * torch.nn.functional.normalize(start, dim=-1)).requires_grad_()
    step = torch.optim.AdamW([queries], settings.rate, weight_decay=0.0)
    log_q = torch.full((settings.negatives,), -float(np.log(len(items))))
    padded, mask = transformer.pad([x.float() for x in tokens])
    ahead = torch.as_tensor(future)
    for _ in range(settings.steps):
        users = torch.randint(len(tokens), (settings.batch,), generator=draw)
        other = torch.randint(len(items), (settings.negatives,), generator=draw)
        size = None if sizes is None else sizes[users]
        u = interests.attend(queries, padded[users], mask[users], size)
        good = ahead[users]
        logits = interests.score(interests.cosines(u, items), settings.tau) / settings.tau
        loss = interests.next_k(
            logits.gather(1, good), logits[:, other], log_q, good[..., None] == other
        )
        loss = loss + settings.lam * interests.orthogonality(u)
        step.zero_grad()
        loss.backward()
        step.step()
    return queries.detach()


def users(
    queries: torch.Tensor, tokens: Sequence[torch.Tensor], sizes: torch.Tensor | None = None
) -> torch.Tensor:
    """Interests [B, M, d] of users with tokens [Lc_i, d]."""
    padded, mask = transformer.pad([x.float() for x in tokens])
    return interests.attend(queries, padded, mask, sizes)


def ranks(u: torch.Tensor, items: torch.Tensor, wanted: np.ndarray, tau: float = 0.0) -> np.ndarray:
    """Rank, from 0, of each wanted item [B, F] among all items under the score; [B, F]."""
    scores = interests.score(interests.cosines(u, items.float()), tau)
    good = scores.gather(1, torch.as_tensor(wanted))
    return (scores[:, None] > good[..., None]).sum(-1).numpy()


def recall(ranks: np.ndarray, k: int, which: np.ndarray | None = None) -> np.ndarray:
    """Share of each user's wanted items [B, F] ranked in the first k; NaN for a user with none."""
    which = np.ones(ranks.shape, bool) if which is None else which
    with np.errstate(invalid="ignore"):
        return ((ranks < k) & which).sum(1) / which.sum(1)


def collapsed(u: torch.Tensor) -> float:
    """Mean |cos| between two different interests of a user, over users [B, M, d]; NaN for M = 1."""
    if u.shape[1] < 2:
        return float("nan")
    unit = torch.nn.functional.normalize(u, dim=-1)
    gram = unit @ unit.transpose(1, 2)
    apart = ~torch.eye(u.shape[1], dtype=torch.bool)
    return float(gram[:, apart].abs().mean())


def dead(u: torch.Tensor, items: torch.Tensor, k: int = 50) -> float:
    """Share of queries that win none of the first k candidates of any user [B, M, d]."""
    cos = interests.cosines(u, items.float())
    top = interests.score(cos, 0.0).topk(k, dim=-1).indices
    winner = cos.argmax(1).gather(1, top)
    return 1 - len(winner.unique()) / u.shape[1]
