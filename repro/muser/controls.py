"""Controls that a new recommender has to be held against: popularity, item-kNN, routing.

Routing is dynamic routing as in capsule networks and in ComiRec (arXiv 2005.09347), in our own
reading. B users, n items, M interests, d dimensions.
"""

import numpy as np
import torch

from repro.accept import count
from repro.errors import BadParameter
from repro.muser import data


def popularity(rows: data.Rows) -> np.ndarray:
    """Actions on each item before the cut, the same for each user: [B, n]."""
    return np.broadcast_to(rows.counts.astype(float), (len(rows), len(rows.counts)))


def item_knn(rows: data.Rows, neighbours: int = 50) -> np.ndarray:
    """Sum over a user's items of the similarity to each item, [B, n].

    Similarity: users of both / sqrt(users of one x users of the other), of the `neighbours` most
    similar items and 0 beyond. An item that nobody has met is similar to none.
    """
    met = data.seen(rows).astype(np.float64)
    both = met.T @ met
    alone = np.diag(both).copy()
    np.fill_diagonal(both, 0.0)
    similar = both / np.sqrt(np.maximum(np.outer(alone, alone), 1.0))
    if count("neighbours", neighbours) < len(similar):
        least = np.partition(similar, -neighbours, axis=1)[:, -neighbours]
        similar = np.where(similar >= least[:, None], similar, 0.0)
    return met @ similar


def squash(s: torch.Tensor) -> torch.Tensor:
    """s |s| / (1 + |s|^2): the direction of s [..., d], a length below 1."""
    length = s.norm(dim=-1, keepdim=True)
    return s * length / (1 + length**2)


def routing(
    tokens: torch.Tensor, logits: torch.Tensor, mask: torch.Tensor, rounds: int = 3
) -> torch.Tensor:
    """Interests [B, M, d]: each token is shared out among interests that agree with it.

    tokens: [B, Lc, d]. logits: [M, Lc], where the shares start. mask: [B, Lc]. In each round the
    shares are a softmax over interests, an interest is the squashed sum of its shares of tokens,
    and a logit grows by the product of its token and interest. Only the last round is trained
    through. Raises BadParameter for other shapes or a user without a token.
    """
    if logits.shape[1:] != tokens.shape[1:2] or mask.shape != tokens.shape[:2]:
        raise BadParameter(
            f"logits has shape {tuple(logits.shape)} and mask {tuple(mask.shape)}; accepted: "
            f"(M, {tokens.shape[1]}) and {tuple(tokens.shape[:2])}."
        )
    if not mask.any(-1).all():
        raise BadParameter("a history is empty; accepted: one action or more a user.")
    held = tokens.detach()
    b = logits.expand(len(tokens), *logits.shape).clone()
    for at in range(count("rounds", rounds)):
        share = torch.softmax(b, 1) * mask[:, None]
        u = squash(share @ (tokens if at == rounds - 1 else held))
        b = b + u.detach() @ held.transpose(1, 2)
    return u
