"""Attention of action tokens, recovered from pages (ActKV, arXiv 2609.31395, Algorithm 3).

A paged attention kernel returns its output and the log-sum-exp of each row, not the probabilities.
With the log-sum-exp known, one pass over the keys in their pages gives them back::

    x[h, s] = max over the group of exp(q · k_s · scale - lse)      out[h, s] = mean of x

The mean runs over the action tokens of a round. Folded in one by one (A = 1), each token reads the
keys once; over the stored queries of the whole round (A > 1) they are read once in all. The
arithmetic is the same, and on ordinary cores it soon takes longer than the memory does
(`kernels.traffic`).

What must agree with the attention that made the log-sum-exp: scale, natural logarithm, and the
slots it saw, the token's own among them.

Dims: R requests, A action queries, Q query heads, H KV heads, G = Q / H, D head dim; N blocks of
the pool, T slots of a block, P blocks of the longest request, C slots of `out`.
"""

import math
from functools import cache

import numpy as np
import torch
from numba import float32, int32, types

from kernels.arrays import (
    DTYPES,
    asked,
    fitting,
    float64,
    host,
    integers,
    launch,
    shaped,
    steps,
    tensor,
    words,
)
from kernels.backend import cuda
from kernels.elements import ELEMENTS, tile_slots
from kernels.vector16 import ALIGNED, load_global, load_shared, store_shared

QUAD = 4  # query heads at a time: their sums stay in registers


def group(x):
    """From the query heads of a group [..., G, s] to their KV head: the maximum."""
    return x.max(-2)


def fold(mean, total, already, new):
    """Running mean `mean` of `already` tokens after `new` more whose sum is `total`."""
    return mean + (total - new * mean) / (already + new)


# begin: reference
def recover_reference(out, queries, lse, keys, table, visible, folded, scale=None):
    """Same arguments as `recover_`, any device, in float64; returns a new array [R, H, C]."""
    q, lse, keys, out = (float64(x) for x in (queries, lse, keys, out))
    table, visible, folded = (host(x) for x in (table, visible, folded))
    fitting(q, keys, table, visible, "visible")
    slots, heads, dim = keys.shape[1:]
    for request in range(len(q)):
        seen = [n for n in visible[request] if n > 0]
        total = np.zeros_like(out[request])
        for action, length in enumerate(visible[request]):
            slot = np.arange(length)
            k = keys[table[request, slot // slots], slot % slots]
            z = np.einsum("hgd,shd->hgs", q[request, action].reshape(heads, -1, dim), k)
            z *= dim**-0.5 if scale is None else scale
            total[:, :length] += group(np.exp(z - lse[request, action].reshape(heads, -1, 1)))
        used = slice(0, max(seen, default=0))
        if seen:
            mean = out[request, :, used] if folded[request] else np.zeros(())
            out[request, :, used] = fold(mean, total[:, used], folded[request], len(seen))
    return out


# end: reference


def recover_torch(out, queries, lse, keys, table, visible, folded, scale=None):
    """Same arguments as `recover_` with torch alone, the keys gathered: what a kernel must beat."""
    requests, actions, q_heads, dim = queries.shape
    slots, heads = keys.shape[1:3]
    k = keys[table.long()].flatten(1, 2).float()  # [R, P*T, H, D]
    q = queries.float().unflatten(2, (heads, -1))
    z = torch.einsum("rahgd,rshd->rahgs", q, k) * (dim**-0.5 if scale is None else scale)
    x = torch.exp(z - lse.unflatten(2, (heads, -1))[..., None]).amax(-2)
    slot = torch.arange(x.shape[-1], device=x.device)
    total = torch.where((slot < visible[:, :, None])[:, :, None], x, 0).sum(1)
    new = (visible > 0).sum(1)[:, None, None]
    before = folded[:, None, None]
    out = out[..., : total.shape[-1]]
    found = fold(torch.where(before > 0, out, 0), total, before, new.clamp(min=1))
    out.copy_(torch.where((slot < visible.amax(1)[:, None])[:, None], found, out))


# begin: kernel
@cache
def kernel(dtype: str, dim: int, slots: int):
    """The kernel for one element type, head dim and block size; these are fixed at compile time.

    Grid: (tiles of slots, KV heads, requests). One thread scores one slot.
    """
    element = ELEMENTS[dtype]
    unpack, dot, stage = element.unpack, element.dot, element.stage
    count = 16 // element.bytes
    vectors = dim // count
    pitch = 4 * (vectors + 1)  # a row in words; the extra vector keeps threads off one bank
    tile = tile_slots(dtype, dim)
    key_words, query_reals = tile * pitch, QUAD * dim

    @cuda.jit
    def recover(out, queries, lse, keys, block, slot, head, table, visible, folded, scale):
        lane, kv, request = cuda.threadIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
        first = cuda.blockIdx.x * tile
        rows = cuda.shared.array(key_words, int32, alignment=ALIGNED)
        query = cuda.shared.array(query_reals, float32, alignment=ALIGNED)
        q_heads = lse.shape[2]
        members = q_heads // out.shape[1]

        longest = 0
        for action in range(visible.shape[1]):
            longest = max(longest, visible[request, action])
        if first >= longest:
            return
        for i in range(lane, tile * vectors, tile):  # neighbours read neighbouring vectors
            s = first + i // vectors
            if s < longest:
                where = table[request, s // slots] * block + s % slots * slot + kv * head
                loaded = load_global(keys, 4 * (where + i % vectors))
                store_shared(rows, i // vectors * pitch + 4 * (i % vectors), loaded)

        mine = first + lane
        total = float32(0)
        new = 0
        for action in range(visible.shape[1]):
            if visible[request, action] > 0:
                new += 1
            if visible[request, action] <= first:
                continue
            top, lost = float32(-math.inf), float32(0)
            for quad in range(0, members, QUAD):
                cuda.syncthreads()
                base = (request * visible.shape[1] + action) * q_heads + kv * members
                for i in range(lane, QUAD * vectors, tile):
                    member = min(quad + i // vectors, members - 1)  # a repeat leaves the maximum
                    q = unpack(load_global(queries, 4 * ((base + member) * vectors + i % vectors)))
                    stage(query, i * count, q, scale)
                cuda.syncthreads()
                if mine >= visible[request, action]:
                    continue
                a = b = c = d = float32(0)
                for i in range(vectors):
                    k = unpack(load_shared(rows, lane * pitch + 4 * i))
                    a += dot(k, query, i * count)
                    b += dot(k, query, dim + i * count)
                    c += dot(k, query, 2 * dim + i * count)
                    d += dot(k, query, 3 * dim + i * count)
                at, last = kv * members + quad, kv * members + members - 1
                a -= lse[request, action, at]
                b -= lse[request, action, min(at + 1, last)]
                c -= lse[request, action, min(at + 2, last)]
                d -= lse[request, action, min(at + 3, last)]
                top = max(max(max(top, a), max(b, c)), d)
                lost += float32(0) * (a + b + c + d)  # a maximum drops NaN, this keeps it
            if mine < visible[request, action]:
                total += math.exp(top) + lost

        if mine < longest:
            mean = float32(0)
            if folded[request] > 0:  # the first token of a round writes over what is there
                mean = out[request, kv, mine]
            tokens = float32(folded[request] + new)
            out[request, kv, mine] = mean + (total - float32(new) * mean) / tokens

    return recover


# end: kernel


def recover_(
    out: torch.Tensor,
    queries: torch.Tensor,
    lse: torch.Tensor,
    keys: torch.Tensor,
    table: torch.Tensor,
    visible: torch.Tensor,
    folded: torch.Tensor,
    scale: float | None = None,
    check: bool = True,
) -> None:
    """Fold A action tokens of each request into the running mean `out`, in place.

    Parameters
    ----------
    out : fp32 [R, H, C], C ≥ P * T
        Mean probability of each slot. Slots that no query sees stay as they are, so put 0 there
        before the first token of a round.
    queries : [R, A, Q, D]
        After rotation, element type of `keys`.
    lse : fp32 [R, A, Q]
        Log-sum-exp of each attention row, natural logarithm; finite but for padding.
    keys : [N, T, H, D]
        The pool of one layer, any strides with contiguous rows.
    table : integer [R, P]
        Block numbers. Entries beyond a request's slots are not read; put any valid number there.
    visible : integer [R, A]
        How many slots each query saw, itself included; 0 marks padding.
    folded : integer [R]
        Tokens that are already in `out`. At 0 `out` is not read.
    scale : float, optional
        Factor on q · k; ``D ** -0.5`` if not given.
    check : bool
        Look at the values of the integer arguments and of `lse`, which waits for the device.
    """
    flat = words("keys", keys, "blocks slots heads dim")
    block, slot, head = steps(keys)
    _, slots, heads, dim = keys.shape
    query, table = asked(queries, "requests actions q_heads dim", keys, table, check)
    requests, actions, q_heads, _ = queries.shape
    most = table.shape[1] * slots
    visible = integers("visible", visible, "requests actions", keys, 0, most, check)
    folded = integers("folded", folded, "requests", keys, 0, 2**24, check)
    shaped("visible", visible, (requests, actions), "as queries")
    shaped("folded", folded, (requests,), "one per request")
    for name, x, shape in (("lse", lse, (requests, actions, q_heads)), ("out", out, out.shape)):
        if tensor(name, x, "a b c", keys).dtype != torch.float32:
            raise TypeError(f"{name}.dtype={x.dtype}; accepted: torch.float32.")
        shaped(name, x, tuple(shape), "as queries")
    if out.shape[:2] != (requests, heads) or out.shape[2] < most or not out.is_contiguous():
        wanted = f"contiguous [{requests}, {heads}, at least {most}]"
        raise ValueError(f"out has shape {list(out.shape)}; accepted: {wanted}.")
    if check and not lse[visible > 0].isfinite().all():
        raise ValueError("lse holds NaN or infinity where a query sees slots; accepted: finite.")
    name = DTYPES[keys.dtype]
    tile = tile_slots(name, dim)
    args = (out.detach(), query, lse.detach().contiguous(), flat, block, slot, head)
    grid = (math.ceil(most / tile), heads, requests)
    args += (table, visible, folded, np.float32(dim**-0.5 if scale is None else scale))
    launch(kernel(name, dim, slots), grid, (tile,), *args)


_FLAT, _INTS, _REALS = types.int32[::1], types.int32[:, ::1], types.float32[:, :, ::1]
SIGNATURE = types.void(
    *(_REALS, _FLAT, _REALS, _FLAT, types.int64, types.int64, types.int64),
    *(_INTS, _INTS, _FLAT, types.float32),
)
