"""Show a policy the rotated queries and keys of every layer while the model runs.

    with watching(model, cache, [policy]) as watch:
        watch.phase = "action"                    # of the tokens of the coming passes
        model(ids, cache=cache)
        if due(policy, cache.physical[0], budget, slack, round_over=True):
            cache.evict(policy.select(cache.physical[0], budget, cache.keys))

Attention itself is PyTorch's SDPA, without transformers' copies of the keys for every query head.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from repro.actkv.accept import one_of
from repro.actkv.cache import PagedCache
from repro.actkv.policies.base import PHASES, Policy

NAME = "repro_watched"
_ACTIVE: dict[int, "Watch"] = {}  # by the config that a model's modules share


@dataclass
class Watch:
    """policies: one a request, or None for one that nobody watches."""

    cache: PagedCache
    policies: Sequence[Policy | None]
    phase: str = "prefix"

    def show(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        """queries [R, H_q, q, d], keys [R, H_k, W, d] in slot order, both after rotation."""
        one_of("phase", self.phase, PHASES)
        this = self.cache.last
        for request, policy in enumerate(self.policies):
            valid = torch.as_tensor(this.valid[request], device=queries.device)
            if policy is not None and this.valid[request].any():
                seen = keys[request, :, : this.stops[request]]
                seen = self.cache.by_age(seen, layer, request)
                policy.observe(layer, queries[request][:, valid], seen, self.phase)


@contextmanager
def watching(model: Any, cache: PagedCache, policies: Sequence[Policy | None]) -> Iterator[Watch]:
    """Policies observe the passes of `model` inside the block; all of them must be with `cache`."""
    if len(policies) != len(cache.requests):
        raise ValueError(
            f"policies has {len(policies)} entries; accepted: {len(cache.requests)}, one a request."
        )
    watch, before = Watch(cache, policies), model.config._attn_implementation
    AttentionInterface.register(NAME, _watched)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    _ACTIVE[id(model.config)] = watch
    try:
        yield watch
    finally:
        del _ACTIVE[id(model.config)]
        model.set_attn_implementation(before)


def _watched(module, query, key, value, attention_mask, **others):
    _ACTIVE[id(module.config)].show(module.layer_idx, query, key)
    if attention_mask is None and query.shape[2] > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **others)
    found = _grouped(query, key, value, attention_mask, others.get("scaling"))
    return found.transpose(1, 2).contiguous(), None


def _grouped(query, key, value, mask, scale):
    """SDPA with the G heads of a group as G times as many queries: keys are read where they lie,
    and not copied once for every head of the group, as transformers would."""
    requests, heads, new, width = query.shape
    folded = query.reshape(requests, key.shape[1], -1, width)  # head h reads KV head h // G
    if mask is not None:
        mask = mask[..., : key.shape[2]].repeat(1, 1, folded.shape[2] // new, 1)
    found = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    return found.view(requests, heads, new, width)
