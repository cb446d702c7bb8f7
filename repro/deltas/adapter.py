"""A `transformers` hybrid (Qwen3-Next, Qwen3.5) as a backbone for `repro.deltas.runner`.

The library's cache keeps a dictionary of recurrent states a linear layer since 5.24 and one tensor
before; both are read. The decay gates come from hooks on ``in_proj_a`` where a model has it
(Qwen3.5); the written residual is not shown by any layer.
"""

import inspect
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from repro.deltas.memory import Pass
from repro.errors import BadParameter

LINEAR, FULL = "linear_attention", "full_attention"


class Hybrid:
    """Wraps a causal language model with token ids as inputs.

    Raises BadParameter for a model without `layer_types`, with a layer that is neither linear nor
    full attention, or without one of the two kinds: DeltaS reads the one and evicts from the other.
    """

    token_inputs = True

    def __init__(self, model: Any):
        kinds = getattr(getattr(model, "config", None), "layer_types", None)
        if kinds is None:
            raise BadParameter(
                f"model={type(model).__name__} has no layer_types; accepted: a hybrid such as "
                "Qwen3_5ForCausalLM."
            )
        if other := sorted(set(kinds) - {LINEAR, FULL}):
            raise BadParameter(
                f"model has layers of type {', '.join(other)}; accepted: {LINEAR}, {FULL}. All "
                "attention layers must keep the same entries."
            )
        for kind, why in ((LINEAR, "no state to read"), (FULL, "no KV to evict")):
            if kind not in kinds:
                raise BadParameter(f"model has no {kind} layer; accepted: both kinds ({why}).")
        self.model, self.kinds = model, list(kinds)
        self.cache = "cache" if "cache" in inspect.signature(model.forward).parameters else ""
        self.cache = self.cache or "past_key_values"
        self.gates = [
            layer.linear_attn
            for layer in model.model.layers
            if hasattr(getattr(layer, "linear_attn", None), "in_proj_a")
        ]

    def open(self, batch: int = 1) -> "HybridMemory":
        """An empty cache for `batch` streams."""
        return HybridMemory(self, batch)


class HybridMemory:
    """The library's cache behind the methods of `repro.deltas.memory.Memory`."""

    def __init__(self, home: Hybrid, batch: int):
        from transformers import DynamicCache

        self.home, self.batch = home, batch
        self.cache = DynamicCache(config=home.model.config)

    def forward(self, inputs: Tensor, positions: Tensor, real: Tensor | None = None) -> Pass:
        """inputs: token ids [B, T]; positions [B, T] or [axes, B, T]; real [B, S + T]."""
        home, found = self.home, []
        hooks = [
            layer.in_proj_a.register_forward_hook(lambda _, __, out, layer=layer: found.append(
                -layer.A_log.float().exp() * F.softplus(out.float() + layer.dt_bias)
            ))
            for layer in home.gates
        ]  # fmt: skip
        if positions.ndim == 3 and len(positions) == 1:
            positions = positions[0]
        mask = None if real is None else real.long()
        try:
            out = home.model(
                inputs,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                **{home.cache: self.cache},
            )
        finally:
            for hook in hooks:
                hook.remove()
        if real is not None:
            found = [g * real[:, -g.shape[1] :, None] for g in found]
        return Pass(out.logits, found or None)

    def states(self) -> list[Tensor]:
        """The live recurrent states; empty before the first chunk."""
        found = [_one(layer.recurrent_states) for layer in self._of(LINEAR)]
        return [s for s in found if s is not None]

    def attended(self) -> list[tuple[Tensor, Tensor]]:
        return [(x.keys, x.values) for x in self._of(FULL) if x.keys is not None]

    def keep(self, index: Tensor) -> None:
        """Gather the same entries `index` [B, kept] in every attention layer: the cache answers
        questions on its length from the first of them."""
        for layer in self._of(FULL):
            at = index[:, None, :, None].expand(-1, layer.keys.shape[1], -1, layer.keys.shape[3])
            layer.keys, layer.values = layer.keys.gather(2, at), layer.values.gather(2, at)

    def snapshot(self) -> list[tuple[Any, ...]]:
        pairs = []
        for kind, layer in zip(self.home.kinds, self.cache.layers, strict=True):
            names = ("recurrent_states", "conv_states") if kind == LINEAR else ("keys", "values")
            pairs.append(tuple(_copy(_one(getattr(layer, name, None))) for name in names))
        return pairs

    def restore(self, saved: list[tuple[Any, ...]]) -> None:
        for kind, layer, (one, two) in zip(self.home.kinds, self.cache.layers, saved, strict=True):
            if one is None:
                raise BadParameter("ask() came before the first chunk; accepted: after feed().")
            if kind == FULL:
                layer.keys, layer.values = one.clone(), two.clone()
            else:
                _one(layer.recurrent_states).copy_(one)
                _one(layer.conv_states).copy_(two)

    def _of(self, kind: str) -> list[Any]:
        return [x for x, k in zip(self.cache.layers, self.home.kinds, strict=True) if k == kind]


def _one(held: Any) -> Any:
    return held.get(0) if isinstance(held, dict) else held


def _copy(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone()
