"""Attention of one new token over pages, with the log-sum-exp that score recovery needs.

A long request is split into chunks that run side by side (split-K). Each chunk keeps a running
maximum m, the sum l of exp(z - m) and the sum of exp(z - m) v; the chunks then combine::

    lse = log Σ exp(lse_i)        out = Σ exp(lse_i - lse) out_i        lse_i = m_i + log l_i

The new token's own key and value are in the cache already. Slots may stand in any order.

Dims: R requests, Q query heads, H KV heads, G = Q / H, D head dim; N blocks of the pool, T slots of
a block, P blocks of the longest request; I chunks.
"""

import math
from functools import cache

import numpy as np
import torch
from numba import float32, int32, int64, types

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
    words,
)
from kernels.backend import cuda
from kernels.elements import ELEMENTS, tile_slots
from kernels.vector16 import ALIGNED, load_global, load_shared, store_shared

QUAD = 4  # query heads of a program
CHUNK = 512  # slots of a chunk: the partial results stay below 2 % of the traffic


# begin: reference
def decode_reference(queries, keys, values, table, lengths, scale=None):
    """Same arguments as `decode`, any device, in float64; returns out [R, Q, D], lse [R, Q]."""
    q, keys, values = (float64(x) for x in (queries, keys, values))
    table, lengths = host(table), host(lengths)
    fitting(q, keys, table, lengths, "lengths")
    slots, heads, dim = keys.shape[1:]
    out, lse = np.zeros_like(q), np.zeros(q.shape[:2])
    for request, length in enumerate(lengths):
        slot = np.arange(length)
        place = table[request, slot // slots], slot % slots
        z = np.einsum("hgd,shd->hgs", q[request].reshape(heads, -1, dim), keys[place])
        z *= dim**-0.5 if scale is None else scale
        top = z.max(-1, keepdims=True)
        total = np.exp(z - top).sum(-1, keepdims=True)
        out[request] = np.einsum("hgs,shd->hgd", np.exp(z - top) / total, values[place]).reshape(
            -1, dim
        )
        lse[request] = (top + np.log(total)).reshape(-1)
    return out, lse


# end: reference


# begin: kernel
@cache
def kernel(dtype: str, dim: int, slots: int):
    """The kernel of a chunk for one element type, head dim and block size.

    Grid: (chunks, KV heads × quads of query heads, requests). A thread scores slots, then sums up
    16 bytes of the values for one query head.
    """
    element = ELEMENTS[dtype]
    unpack, dot, mix = element.unpack, element.dot, element.mix
    stage, write = element.stage, element.write
    count = 16 // element.bytes
    vectors = dim // count
    pitch = 4 * (vectors + 1)  # a row in words; the extra vector keeps threads off one bank
    threads, tile = QUAD * vectors, tile_slots(dtype, dim)
    key_words, query_reals, weights = tile * pitch, QUAD * dim, QUAD * tile

    @cuda.jit
    def decode(
        out, lse, queries, keys, values, block, slot, head, table, lengths, heads, chunk, scale
    ):
        lane, part, request = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.z
        rows = cuda.shared.array(key_words, int32, alignment=ALIGNED)
        query = cuda.shared.array(query_reals, float32, alignment=ALIGNED)
        weight = cuda.shared.array(weights, float32)
        place = cuda.shared.array(tile, int64)
        q_heads = lse.shape[1]
        members = q_heads // heads
        quads = (members + QUAD - 1) // QUAD
        kv, quad = cuda.blockIdx.y // quads, cuda.blockIdx.y % quads
        mine, column = lane // vectors, lane % vectors  # query head of the quad, 16 bytes of a row
        member = min(quad * QUAD + mine, members - 1)  # heads that do not exist repeat the last
        at = request * q_heads + kv * members + member
        stage(query, lane * count, unpack(load_global(queries, 4 * (at * vectors + column))), scale)

        stop = min(lengths[request], (part + 1) * chunk)
        top, total = float32(-math.inf), float32(0)
        sums = unpack((int32(0), int32(0), int32(0), int32(0)))
        for first in range(part * chunk, stop, tile):
            cuda.syncthreads()
            for i in range(lane, tile, threads):
                s = min(first + i, stop - 1)
                place[i] = table[request, s // slots] * block + s % slots * slot + kv * head
            cuda.syncthreads()
            for i in range(lane, tile * vectors, threads):
                loaded = load_global(keys, 4 * (place[i // vectors] + i % vectors))
                store_shared(rows, i // vectors * pitch + 4 * (i % vectors), loaded)
            cuda.syncthreads()
            for s in range(lane, tile, threads):
                a = b = c = d = float32(0)
                for i in range(vectors):
                    k = unpack(load_shared(rows, s * pitch + 4 * i))
                    a += dot(k, query, i * count)
                    b += dot(k, query, dim + i * count)
                    c += dot(k, query, 2 * dim + i * count)
                    d += dot(k, query, 3 * dim + i * count)
                weight[s], weight[tile + s], weight[2 * tile + s], weight[3 * tile + s] = a, b, c, d
            cuda.syncthreads()
            used = min(tile, stop - first)
            before = top
            for s in range(used):
                top = max(top, weight[mine * tile + s])
            cuda.syncthreads()
            for s in range(column, used, vectors):
                weight[mine * tile + s] = math.exp(weight[mine * tile + s] - top)
            cuda.syncthreads()
            shrink = float32(math.exp(before - top))
            total *= shrink
            sums = mix(sums, shrink, sums, float32(0))
            for s in range(used):
                w = weight[mine * tile + s]
                total += w
                v = unpack(load_global(values, 4 * (place[s] + column)))
                sums = mix(sums, float32(1), v, w)

        if quad * QUAD + mine < members:
            row = at * lse.shape[2] + part
            found = float32(-math.inf)  # a chunk behind the end of the request has no weight
            if part * chunk < stop:
                found = top + math.log(total)
                write(out, row * dim + column * count, sums, float32(1) / total)
            if column == 0:
                lse[request, kv * members + member, part] = found

    return decode


# end: kernel


# begin: combine
@cuda.jit
def combine(out, lse, part_out, part_lse):
    """Weigh the chunks [R, Q, I, D] of each head. Grid: (heads, requests), one thread per d."""
    d, head, request = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
    top = float32(-math.inf)
    for i in range(part_lse.shape[2]):
        top = max(top, part_lse[request, head, i])
    total, mean = float32(0), float32(0)
    for i in range(part_lse.shape[2]):
        if part_lse[request, head, i] != -math.inf:  # without weight there is no result to read
            weight = math.exp(part_lse[request, head, i] - top)
            total += weight
            mean += weight * part_out[request, head, i, d]
    out[request, head, d] = mean / total
    if d == 0:
        lse[request, head] = top + math.log(total)


# end: combine


def decode(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
    chunk: int = CHUNK,
    check: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention output and log-sum-exp of one query per request.

    Parameters
    ----------
    queries : [R, Q, D]
        After rotation, element type of `keys`.
    keys, values : [N, T, H, D]
        The pool of one layer, the same strides, rows contiguous.
    table : integer [R, P]
        Block numbers. Entries beyond a request's slots are not read; put any valid number there.
    lengths : integer [R]
        Slots in use, at least 1.
    scale : float, optional
        Factor on q · k; ``D ** -0.5`` if not given.
    chunk : int
        Slots of a chunk, a multiple of `tile_slots`.
    check : bool
        Look at the values of the integer arguments, which waits for the device.

    Returns
    -------
    out : fp32 [R, Q, D]
    lse : fp32 [R, Q], natural logarithm
    """
    dims = "blocks slots heads dim"
    flat_k, flat_v = words("keys", keys, dims), words("values", values, dims)
    _, slots, heads, dim = keys.shape
    query, table = asked(queries, "requests q_heads dim", keys, table, check)
    requests, q_heads, _ = queries.shape
    if values.dtype != keys.dtype or values.device != keys.device:
        raise TypeError(f"values is {values.dtype} on {values.device}; accepted: the same as keys.")
    shaped("values", values, tuple(keys.shape), "as keys")
    if values.stride() != keys.stride():
        raise ValueError(
            f"values has strides {values.stride()}; accepted: {keys.stride()}, as keys."
        )
    most = table.shape[1] * slots
    lengths = integers("lengths", lengths, "requests", keys, 1, most, check)
    shaped("lengths", lengths, (requests,), "one per request")
    name = DTYPES[keys.dtype]
    if chunk < 1 or chunk % tile_slots(name, dim):
        raise ValueError(f"chunk={chunk}; accepted: multiples of {tile_slots(name, dim)}.")
    parts = math.ceil(most / chunk)
    part_out = keys.new_empty((requests, q_heads, parts, dim), dtype=torch.float32)
    part_lse = keys.new_empty((requests, q_heads, parts), dtype=torch.float32)
    out, lse = part_out.new_empty(queries.shape), part_lse.new_empty((requests, q_heads))
    grid = (parts, heads * math.ceil(q_heads / heads / QUAD), requests)
    scale = np.float32(dim**-0.5 if scale is None else scale)
    args = (part_out.flatten(), part_lse, query, flat_k, flat_v, *steps(keys), table, lengths)
    threads = QUAD * dim * keys.element_size() // 16
    launch(kernel(name, dim, slots), grid, (threads,), *args, heads, chunk, scale)
    launch(combine, (q_heads, requests), (dim,), out, lse, part_out, part_lse)
    return out, lse


_REALS, _FLAT = types.float32[:, :, ::1], types.int32[::1]
SIGNATURE = types.void(
    *(types.float32[::1], _REALS, _FLAT, _FLAT, _FLAT, types.int64, types.int64, types.int64),
    *(types.int32[:, ::1], _FLAT, types.int64, types.int64, types.float32),
)
PLAIN = {
    "combine": (
        combine,
        types.void(_REALS, types.float32[:, ::1], types.float32[:, :, :, ::1], _REALS),
    )
}
