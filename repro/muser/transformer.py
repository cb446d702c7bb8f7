"""The light Transformer over compressed tokens: log-bucketed age, segment type, a padding mask.

Source: arXiv 2609.23677 as the project's notes give it (section 3.2). Depth, heads and the buckets
are ours. Ages count back from the user's newest action, never from the present: the encoding of
an unchanged history must not change while nobody acts.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from repro.errors import BadParameter
from repro.muser.compression import Plan

BUCKETS = 32


def buckets(times: np.ndarray, plan: Plan) -> torch.Tensor:
    """Bucket of each token's age, [Lc] int: floor(log2(1 + age)) of its newest action, capped."""
    times = np.asarray(times, dtype=float)
    ages = times[-1] - times[plan.stop - 1] if len(plan) else times[:0]
    return torch.from_numpy(np.minimum(np.log2(1 + ages).astype(np.int64), BUCKETS - 1))


def pad(parts: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ragged [Lc_i, ...] as one zero-padded [B, Lc, ...], and the mask [B, Lc] of real tokens."""
    if not parts:
        raise BadParameter("parts is empty; accepted: one user or more.")
    mask = torch.zeros(len(parts), max(map(len, parts)), dtype=torch.bool)
    for user, part in enumerate(parts):
        mask[user, : len(part)] = True
    return nn.utils.rnn.pad_sequence(list(parts), batch_first=True), mask


class Light(nn.Module):
    """Tokens [B, Lc, d] to H [B, Lc, d]."""

    def __init__(self, d: int, layers: int = 1, heads: int = 4):
        super().__init__()
        if d < 1 or layers < 1 or heads < 1 or d % heads:
            raise BadParameter(
                f"d={d}, layers={layers}, heads={heads}; accepted: 1 or more, heads divide d."
            )
        self.age, self.segment = nn.Embedding(BUCKETS, d), nn.Embedding(3, d)
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d, dropout=0.0, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, tokens, age, segment, mask):
        """age, segment: [B, Lc] int; mask: [B, Lc], true where there is a token."""
        if not mask.any(-1).all():
            raise BadParameter("a history is empty; accepted: one action or more a user.")
        x = tokens + self.age(age) + self.segment(segment)
        return self.stack(x, src_key_padding_mask=~mask)
