"""Show a policy the rotated queries and keys of every layer while the model runs.

    with watching(model, cache, [policy]) as watch:
        watch.phase = "action"                    # of the tokens of the coming passes
        model(ids, cache=cache)
        if due(policy, cache.physical[0], budget, slack, round_over=True):
            cache.evict(policy.select(cache.physical[0], budget, cache.keys))

Attention itself is transformers' SDPA, unchanged.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
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
    return sdpa_attention_forward(module, query, key, value, attention_mask, **others)
