"""Decode attention on the pages themselves, at the speed of reading them (CPU).

One query a request against all its entries, grouped heads, no copy of keys or values: every row of
a page is read once, front to back, and serves all H_q query heads. That is what a paged kernel on
a GPU does (arXiv 2609.31395, Algorithm 3 builds on one); stock attention on a CPU reads the same
rows several times or in strides, and a slow attention flatters whoever shortens the cache.

    with decoding(model, cache, policies) as watch:      # policies: one a request, or None
        watch.phase = "reasoning"
        model(ids, cache=cache)                          # ids [R, 1]

Softmax runs chunk by chunk with a running maximum; the row log-sum-exp comes along.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from repro.actkv.cache import PagedCache
from repro.actkv.policies.base import Policy
from repro.actkv.policies.watch import _ACTIVE, Watch, watching

NAME = "repro_paged"
CHUNK = 256  # slots whose scores are held at once


def attend(
    queries: torch.Tensor,
    pages: torch.Tensor,
    table: np.ndarray,
    lengths: np.ndarray,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [R, H_q, d] and natural log-sum-exp [R, H_q] of `queries` [R, H_q, d].

    pages: one layer [2, N, block, H_k, d]; table [R, blocks]: block numbers, what lies beyond a
    request's last block is not read; lengths [R]: slots that count. scale: d ** -0.5 if None.
    Raises ValueError for other than float32 on a CPU, and for shapes that do not fit.
    """
    _, _, block, groups, width = pages.shape
    requests, heads, _ = queries.shape
    for name, given in (("queries", queries), ("pages", pages)):
        if given.dtype != torch.float32 or given.device.type != "cpu":
            raise ValueError(f"{name} is {given.dtype} on {given.device}; accepted: float32, cpu.")
    if heads % groups or queries.shape[2] != width or len(table) != requests:
        raise ValueError(
            f"queries {tuple(queries.shape)} do not fit pages {tuple(pages.shape)} and "
            f"{len(table)} tables; accepted: [R, H_q, d], H_q a multiple of H_k, R tables."
        )
    lengths = np.asarray(lengths, dtype=np.int64)
    if lengths.min() < 1 or lengths.max() > table.shape[1] * block:
        raise ValueError(
            f"lengths span {lengths.min()}..{lengths.max()}; accepted: 1..{table.shape[1] * block}."
        )
    scaled = (queries * (width**-0.5 if scale is None else scale)).reshape(requests, -1).numpy()
    rows = pages.view(2, -1, groups * width).numpy()
    out = np.empty((requests, heads, width), dtype=np.float32)
    lse = np.empty((requests, heads), dtype=np.float32)
    run = _kernel(groups, heads // groups, width)
    run(scaled, rows[0], rows[1], np.asarray(table, np.int64), lengths, block, out, lse)
    return torch.from_numpy(out), torch.from_numpy(lse)


@lru_cache(maxsize=4)
def _kernel(groups: int, each: int, width: int) -> Any:
    """Compiled for H_k = `groups`, G = `each`, d = `width`, so that the inner loops unroll."""
    import numba

    heads, chunk = groups * each, CHUNK

    @numba.njit(fastmath=True)
    def run(queries, keys, values, table, lengths, block, out, lse):
        score = np.empty((heads, chunk), np.float32)
        slot = np.empty(chunk, np.int64)
        for r in range(len(lengths)):
            high = np.full(heads, np.float32(-1e30), np.float32)
            total = np.zeros(heads, np.float32)
            mixed = np.zeros((heads, width), np.float32)
            query, length = queries[r], lengths[r]
            for first in range(0, length, chunk):
                n = min(chunk, length - first)
                for i in range(n):
                    slot[i] = table[r, (first + i) // block] * block + (first + i) % block
                for i in range(n):
                    row = keys[slot[i]]
                    for h in range(groups):
                        for g in range(each):
                            dot = np.float32(0)
                            for j in range(width):
                                dot += query[(h * each + g) * width + j] * row[h * width + j]
                            score[h * each + g, i] = dot
                for h in range(heads):
                    best = high[h]
                    for i in range(n):
                        best = max(best, score[h, i])
                    if best > high[h]:
                        shrink = np.exp(high[h] - best)
                        high[h] = best
                        total[h] *= shrink
                        for j in range(width):
                            mixed[h, j] *= shrink
                    added = np.float32(0)
                    for i in range(n):
                        weight = np.exp(score[h, i] - best)
                        score[h, i] = weight
                        added += weight
                    total[h] += added
                for i in range(n):
                    row = values[slot[i]]
                    for h in range(groups):
                        for g in range(each):
                            weight = score[h * each + g, i]
                            for j in range(width):
                                mixed[h * each + g, j] += weight * row[h * width + j]
            for h in range(heads):
                lse[r, h] = high[h] + np.log(total[h])
                for j in range(width):
                    out[r, h, j] = mixed[h, j] / total[h]

    return run


@contextmanager
def decoding(
    model: Any, cache: PagedCache, policies: Sequence[Policy | None] | None = None
) -> Iterator[Watch]:
    """Passes of `model` with `cache` inside the block use `attend` where they bring one token.

    policies: they are shown queries and keys as by `policies.watch.watching`; None: nobody looks.
    """
    nobody = [None] * len(cache.requests)
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    with watching(model, cache, nobody if policies is None else policies) as watch:
        model.set_attn_implementation(NAME)  # `watching` puts back what was there before
        yield watch


def _attention(module, query, key, value, attention_mask, scaling=None, **others):
    watch = _ACTIVE[id(module.config)]
    watch.show(module.layer_idx, query, key)
    cache = watch.cache
    if query.shape[2] > 1 or not cache.last.valid.all():
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
    pages = cache.pool.pages[module.layer_idx]
    out, _ = attend(query[:, :, 0], pages, tables(cache), cache.last.stops, scaling)
    return out[:, None], None


def tables(cache: PagedCache) -> np.ndarray:
    """Block tables [R, blocks], the short ones filled up with their own last block."""
    width = max(len(table) for table in cache.pool.tables)
    return np.array([t + t[-1:] * (width - len(t)) for t in cache.pool.tables])


def recover(
    queries: torch.Tensor, lse: torch.Tensor, keys: torch.Tensor, tile: int = 4096
) -> torch.Tensor:
    """Action attention [S] of A stored queries in one pass over the keys, by their log-sum-exp.

        a(i) = mean_A mean_{H_k} max_G exp(q k_i / sqrt d - lse)

    queries [A, H_q, d]; lse [A, H_q]; keys [H_k, S, d] by age, of which the queries own the newest
    A: query j does not see what came after it. (Algorithm 3's formula, as the notes' one-pass
    alternative, 4.2.)
    """
    (actions, heads, width), (groups, length, _) = queries.shape, keys.shape
    stored = queries.view(actions, groups, -1, width).permute(1, 2, 0, 3) * width**-0.5
    stored = stored.reshape(groups, -1, width)
    known = lse.view(actions, groups, -1).permute(1, 2, 0).reshape(groups, -1, 1)
    found = torch.empty(length)
    for first in range(0, length, tile):
        part = torch.bmm(stored, keys[:, first : first + tile].transpose(1, 2))
        part = part.sub_(known).exp_().view(groups, heads // groups, actions, -1)
        newest = torch.arange(first, first + part.shape[3]) > torch.arange(actions)[:, None] + (
            length - actions
        )
        if newest.any():
            part.masked_fill_(newest, 0.0)
        found[first : first + tile] = part.amax(1).mean((0, 1))
    return found
