"""A paged key-value cache for transformers that can evict (arXiv 2609.31395; notes 4.3 to 4.6).

    cache = PagedCache(model, requests=2)
    model.generate(ids, attention_mask=mask, cache=cache, max_new_tokens=20)   # or, by hand:
    model(ids, attention_mask=mask, cache=cache)
    cache.evict(kept, request=0)                                               # kept [layers, n]

Two lengths a request: *logical*, the tokens seen, gives positions and only grows; *physical*, the
entries cached, gives slots and mask. Survivors keep their rotated keys; new tokens take their true
position. Entries are numbered by age here, 0 the oldest, whatever slot a compaction moved them to:
its permutation is carried inside, and shows nowhere.

Padding may be left or right: a padded column, 0 in the 2D attention mask, is never cached, has no
position and counts nowhere. Positions and masks come from a hook on the model, which acts only when
it is given a PagedCache: transformers would slice the 2D mask by column, and columns no longer
match slots once entries have gone.
"""

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from repro.actkv import paging
from repro.actkv.accept import count
from repro.actkv.pool import Compact, Pool, Window
from repro.actkv.request import Request, placed


@dataclass(frozen=True)
class Pass:
    """One forward pass: `valid` [R, q]; `stops` [R], physical lengths after it; where it goes."""

    valid: np.ndarray
    stops: np.ndarray
    picked: torch.Tensor | None  # [R, q]; None: all
    rows: torch.Tensor
    window: Window


class PagedCache(Cache):
    """Cache of `requests` sequences for `model` (transformers 5, full attention in all layers).

    blocks: size of the pool, or None to let it grow. check: refuse NaN and infinite keys and
    values; switched off, a GPU need not be waited for. compact: takes the place of
    `paging.compact`. Attributes: `pool`, `requests`, `last` (the
    newest `Pass`), `peak_entries` (most entries a layer held at once, all requests together).
    """

    def __init__(
        self,
        model: Any,
        requests: int = 1,
        blocks: int | None = None,
        block_size: int = 16,
        check: bool = True,
        compact: Compact | None = None,
    ):
        config, base = model.config, model.base_model
        if getattr(config, "sliding_window", None) is not None:
            raise ValueError(f"model has sliding_window={config.sliding_window}; accepted: None.")
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.shape = (config.num_hidden_layers, config.num_key_value_heads, width)
        self.check = check
        self._pool = {
            "shape": self.shape,
            "requests": count("requests", requests),
            "blocks": blocks,
            "block": block_size,
            "dtype": model.dtype,
            "device": model.device,
            "compact": compact,
        }
        super().__init__(layers=[_Layer(self, layer) for layer in range(self.shape[0])])
        self.reset()
        if _prepare not in base._forward_pre_hooks.values():
            base.register_forward_pre_hook(_prepare, with_kwargs=True)

    def reset(self) -> None:
        """Forget everything, counters included."""
        self.pool, none = Pool(**self._pool), np.zeros((self.shape[0], 0), dtype=np.int64)
        self.requests = [Request(none) for _ in range(self._pool["requests"])]
        self.columns, self.peak_entries = 0, 0
        self.last: Pass | None = None
        self._valid, self._turn = None, 0

    @property
    def physical(self) -> list[int]:
        return [request.physical for request in self.requests]

    def counters(self) -> dict[str, Any]:
        """Lengths of each request, blocks and bytes in use, and the peaks; blocks count whole."""
        return {
            "logical": [request.logical for request in self.requests],
            "physical": self.physical,
            "peak_entries": self.peak_entries,
        } | self.pool.counters()

    def positions(self, request: int = 0) -> np.ndarray:
        """Logical positions [layers, S] of the cached entries, rising."""
        return self.requests[request].positions()

    def keys(self, layer: int, request: int = 0) -> torch.Tensor:
        """Rotated keys [H_k, S, d] by age."""
        return self._entries(layer, 0, request)

    def values(self, layer: int, request: int = 0) -> torch.Tensor:
        """Values [H_k, S, d] by age."""
        return self._entries(layer, 1, request)

    def by_age(self, entries: torch.Tensor, layer: int, request: int = 0) -> torch.Tensor:
        """`entries` [H, S, d] in slot order, S at least the survivors -> the same by age."""
        order = self.requests[request].order
        if order is None:
            return entries
        slots = np.arange(entries.shape[1])
        slots[: order.shape[1]] = order[layer]
        return entries[:, torch.as_tensor(slots, device=entries.device)]

    def evict(self, kept: Any, request: int = 0) -> None:
        """Keep the entries `kept` [layers, n] of one request, by age, in any order; drop the rest.

        Raises ValueError for unequal sizes, n < 1, and entries not there or named twice.
        """
        if self._turn:
            raise ValueError(f"evict within a pass, before layer {self._turn}; accepted: after it.")
        one = self.requests[request]
        kept = np.sort(paging.accepted_kept(kept, self.shape[0], one.physical), axis=1)
        slots = np.take_along_axis(one.slots(), kept, 1)
        one.keep(kept, self.pool.compact(request, slots, one.physical))

    def prepare(self, valid: np.ndarray) -> dict[str, torch.Tensor | None]:
        """Announce a pass over tokens `valid` [R, q]: its position_ids and attention_mask.

        The mask is additive, [R, 1, q, W], or None where transformers' own, causal one is right.
        """
        if valid.shape[0] != len(self.requests):
            raise ValueError(f"input has {valid.shape[0]} rows; accepted: {len(self.requests)}.")
        self._valid, (positions, hidden) = valid, placed(self.requests, valid)
        device, dtype = self._pool["device"], self._pool["dtype"]
        mask = None
        if hidden is not None:
            mask = torch.as_tensor(hidden[:, None], device=device).to(dtype)
            mask *= torch.finfo(dtype).min
        return {
            "position_ids": torch.as_tensor(positions, device=device),
            "attention_mask": mask,
        }

    def append(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cache [R, H_k, q, d] of a layer; return all its entries [R, H_k, W, d] in slot order."""
        if layer not in (0, self._turn):
            raise ValueError(f"layer {layer} is out of turn; accepted: {self._turn}, or 0 again.")
        if layer == 0:
            self._open(keys.shape[-2])
        this, shape = self.last, (*self.last.valid.shape, *self.shape[1:])
        for kind, new in enumerate((keys, values)):
            paging.accepted_entries(kind, new, self.pool.pages[0], shape, self.check)
            new = new.transpose(1, 2)
            picked = new.flatten(0, 1) if this.picked is None else new[this.picked]
            self.pool.write(layer, kind, this.rows, picked)
        self._turn = (layer + 1) % self.shape[0]
        if self._turn == 0:
            self._close()
        return self.pool.read(layer, 0, this.window), self.pool.read(layer, 1, this.window)

    def _refused(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("a PagedCache neither crops nor reorders; accepted: one beam.")

    crop = reorder_cache = batch_repeat_interleave = batch_select_indices = _refused

    def _open(self, queries: int) -> None:
        valid, device = self._valid, self._pool["device"]
        if valid is None or valid.shape[1] != queries:
            raise ValueError(
                f"{queries} tokens come unannounced; accepted: through the model the cache was "
                "made for, or after `prepare`."
            )
        stops = np.array(self.physical) + valid.sum(1)
        self.pool.provide(stops)
        rows = [self.pool.rows(r, held, stops[r]) for r, held in enumerate(self.physical)]
        self.last = Pass(
            valid,
            stops,
            None if valid.all() else torch.as_tensor(valid, device=device),
            torch.as_tensor(np.concatenate(rows), device=device),
            self.pool.window(stops),
        )

    def _close(self) -> None:
        for request, new in zip(self.requests, self.last.valid.sum(1).tolist(), strict=True):
            request.logical += new
        self.columns += self.last.valid.shape[1]
        self.peak_entries = max(self.peak_entries, sum(self.physical))
        self._valid = None

    def _entries(self, layer: int, kind: int, request: int) -> torch.Tensor:
        held = self.physical[request]
        rows = self.pool.rows(request, 0, held)
        return self.by_age(self.pool.gather(layer, kind, rows), layer, request)


class _Layer(CacheLayerMixin):
    """What transformers asks of one layer."""

    supports_early_init = False

    def __init__(self, cache: PagedCache, layer: int):
        super().__init__()
        self._cache, self.layer = weakref.ref(cache), layer  # no cycle: a dropped cache goes

    @property
    def cache(self) -> PagedCache:
        return self._cache()

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Layer":
        return _Layer(memo.get(id(self.cache), self.cache), self.layer)

    def update(self, key_states, value_states, *_, **__):
        return self.cache.append(key_states, value_states, self.layer)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys in view, and the column of the first, so that the newest is the newest column."""
        held = self.cache.physical[0]
        return held + query_length, self.cache.columns - held

    def get_seq_length(self) -> int:
        """Columns seen, padding included: where `generate` cuts its input."""
        return self.cache.columns

    def get_max_length(self) -> int:
        return -1

    def lazy_initialization(self, key_states, value_states) -> None:
        pass


def _prepare(base: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Hook before a pass of the model: positions and mask from the cache, if it is paged."""
    cache = kwargs.get("cache")
    if isinstance(cache, PagedCache):
        tokens = kwargs.get("input_ids", args[0] if args else None)
        tokens = kwargs["inputs_embeds"][..., 0] if tokens is None else tokens
        mask = kwargs.get("attention_mask")
        if mask is None:
            mask = torch.ones(tokens.shape, dtype=torch.bool)
        elif mask.ndim != 2 or mask.shape[1] < tokens.shape[1]:
            raise ValueError(
                f"attention_mask has shape {tuple(mask.shape)}; accepted: [R, columns], 0 padding."
            )
        kwargs |= cache.prepare(mask[:, -tokens.shape[1] :].bool().cpu().numpy())
    return args, kwargs
