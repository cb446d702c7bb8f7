"""The gated delta rule over one chunk, with the state's drift measured on the way.

DeltaS (arXiv 2609.27470, Eq. 3) compares a recurrent state before and after a chunk. Read by
itself that costs a copy and a comparison; the kernel that advances the state holds both ends in
shared memory already, so here the two norms cost four bytes each a block.

Columns of the state do not see one another: with decay a, gate b and unit key k,

    e_j = v_j - a k . S[:, j]      S[:, j] <- a S[:, j] + k b e_j      o_j = S[:, j] . q / sqrt(K)

Dims: R sequences, T tokens, H heads, K and V sizes of keys and values. All in float32.
"""

import math
from functools import cache

import numpy as np
import torch
from numba import float32, types

from kernels.arrays import float64, launch, shaped, tensor
from kernels.backend import cuda
from kernels.vector16 import SIMULATED

COLUMNS = 32  # of the state for a block; with K = 128 both ends of the tile take 32 KiB
GROUPS = 4  # threads that share a column


# begin: reference
def step_reference(state, q, k, v, log_decay, beta):
    """The same in float64, token by token. Shapes as in `step_`; nothing is changed.

    Returns outputs [R, T, H, V], the new state [R, H, K, V], and squared norms [R, H, 2]: of the
    move and of the state before. q and k are taken as they are: of length 1.
    """
    state, q, k, v, log_decay, beta = (float64(x) for x in (state, q, k, v, log_decay, beta))
    before, outs = state.copy(), np.zeros(v.shape)
    for t in range(q.shape[1]):
        state *= np.exp(log_decay[:, t])[..., None, None]
        error = v[:, t] - np.einsum("rhkv,rhk->rhv", state, k[:, t])
        state += np.einsum("rhk,rhv->rhkv", k[:, t], beta[:, t][..., None] * error)
        outs[:, t] = np.einsum("rhkv,rhk->rhv", state, q[:, t]) * q.shape[-1] ** -0.5
    moved = ((state - before) ** 2).sum((-2, -1))
    return outs, state, np.stack([moved, (before**2).sum((-2, -1))], -1)


# end: reference


# begin: kernel
@cache
def kernel(dim: int):
    """The kernel for key size `dim`, which is fixed at compile time.

    Grid: (blocks of columns, heads, sequences); threads: (COLUMNS, GROUPS). A thread owns every
    GROUPS-th row of one column.
    """
    tile = dim * COLUMNS

    @cuda.jit
    def gated_delta(state, q, k, v, log_decay, beta, out, norms):
        lane, group = cuda.threadIdx.x, cuda.threadIdx.y
        head, row = cuda.blockIdx.y, cuda.blockIdx.z
        column = cuda.blockIdx.x * COLUMNS + lane
        inside = column < state.shape[3]
        now = cuda.shared.array(tile, float32)
        was = cuda.shared.array(tile, float32)
        key = cuda.shared.array(dim, float32)
        query = cuda.shared.array(dim, float32)
        part = cuda.shared.array((GROUPS, COLUMNS), float32)
        other = cuda.shared.array((GROUPS, COLUMNS), float32)

        for i in range(group, dim, GROUPS):
            x = float32(0)
            if inside:
                x = state[row, head, i, column]
            now[i * COLUMNS + lane] = x
            was[i * COLUMNS + lane] = x

        scale = float32(1) / math.sqrt(float32(dim))
        for t in range(q.shape[1]):
            for i in range(group * COLUMNS + lane, dim, GROUPS * COLUMNS):
                key[i] = k[row, t, head, i]
                query[i] = q[row, t, head, i]
            cuda.syncthreads()
            decay = math.exp(log_decay[row, t, head])
            predicted = float32(0)
            for i in range(group, dim, GROUPS):
                x = decay * now[i * COLUMNS + lane]
                now[i * COLUMNS + lane] = x
                predicted += key[i] * x
            part[group, lane] = predicted
            cuda.syncthreads()
            predicted = float32(0)
            for g in range(GROUPS):
                predicted += part[g, lane]
            written = float32(0)
            if inside:
                written = beta[row, t, head] * (v[row, t, head, column] - predicted)
            read = float32(0)
            for i in range(group, dim, GROUPS):
                x = now[i * COLUMNS + lane] + key[i] * written
                now[i * COLUMNS + lane] = x
                read += query[i] * x
            other[group, lane] = read
            cuda.syncthreads()  # also: nobody reads key, query or part any more
            if group == 0 and inside:
                read = float32(0)
                for g in range(GROUPS):
                    read += other[g, lane]
                out[row, t, head, column] = read * scale

        moved, size = float32(0), float32(0)
        for i in range(group, dim, GROUPS):
            x, y = now[i * COLUMNS + lane], was[i * COLUMNS + lane]
            moved += (x - y) * (x - y)
            size += y * y
            if inside:
                state[row, head, i, column] = x
        cuda.syncthreads()  # the last read of `other` is over
        part[group, lane] = moved
        other[group, lane] = size
        cuda.syncthreads()
        if lane == 0 and group == 0:
            moved, size = float32(0), float32(0)
            for g in range(GROUPS):
                for i in range(COLUMNS):
                    moved += part[g, i]
                    size += other[g, i]
            norms[row, head, cuda.blockIdx.x, 0] = moved
            norms[row, head, cuda.blockIdx.x, 1] = size

    return gated_delta


# end: kernel


def step_(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    beta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advance `state` over a chunk, in place; returns outputs and squared norms.

    Parameters
    ----------
    state : fp32 [R, H, K, V], contiguous
        Before the chunk; after the call, after the chunk. K is 8 to 128 in steps of 8.
    q, k : fp32 [R, T, H, K]
        Of length 1 (`repro.deltas.delta.unit`); q is scaled by K ** -0.5 here.
    v : fp32 [R, T, H, V]
    log_decay, beta : fp32 [R, T, H]

    Returns
    -------
    Outputs [R, T, H, V], and [R, H, 2]: squared norms of the move and of the state before, from
    which `drift` follows. Raises TypeError or ValueError that names the argument.
    """
    state = tensor("state", state, "sequences heads keys values")
    rows, heads, dim, values = state.shape
    if dim % 8 or not 8 <= dim <= 128:
        raise ValueError(f"state has K={dim}; accepted: 8 to 128 in steps of 8.")
    if not state.is_contiguous() or not state.numel():
        raise ValueError(
            "state is empty or not contiguous; accepted: contiguous, as it is written."
        )
    q = tensor("q", q, "sequences tokens heads keys", state)
    tokens = q.shape[1]
    if not tokens:
        raise ValueError("q has no tokens; accepted: at least 1.")
    wanted = {
        "q": (q, (rows, tokens, heads, dim)),
        "k": (k, (rows, tokens, heads, dim)),
        "v": (v, (rows, tokens, heads, values)),
        "log_decay": (log_decay, (rows, tokens, heads)),
        "beta": (beta, (rows, tokens, heads)),
    }
    for name, (x, shape) in {"state": (state, tuple(state.shape)), **wanted}.items():
        x = tensor(name, x, " ".join("x" * len(shape)), state)
        shaped(name, x, shape, "as state and q")
        if x.dtype != torch.float32:
            raise TypeError(f"{name}.dtype={x.dtype}; accepted: torch.float32.")
    given = [x.detach().contiguous() for x, _ in wanted.values()]
    blocks = math.ceil(values / COLUMNS)
    out = torch.empty(rows, tokens, heads, values, device=state.device)
    norms = torch.empty(rows, heads, blocks, 2, device=state.device)
    _on_device("state", state)
    launch(kernel(dim), (blocks, heads, rows), (COLUMNS, GROUPS), state, *given, out, norms)
    return out, norms.sum(2)


def _on_device(name: str, x: torch.Tensor) -> None:
    if x.device.type != ("cpu" if SIMULATED else "cuda"):
        raise ValueError(
            f"{name} is on {x.device}; accepted: a CUDA device, or the CPU under "
            "NUMBA_ENABLE_CUDASIM=1. On a CPU the reference of the same module does the work."
        )


def drift(norms: torch.Tensor, eps: float = 1e-12) -> torch.Tensor:
    """Eq. 3 for one layer, its heads pooled, from the norms of `step_` [R, H, 2]. [R]"""
    moved, size = norms.sum(1).sqrt().unbind(-1)
    return moved / size.clamp(min=eps)


def traffic(rows: int, tokens: int, heads: int, dim: int, values: int) -> dict[str, int]:
    """Bytes of one call, fp32: state in and out; keys, queries, values, gates and outputs; norms.

    Blocks of columns read keys, queries and gates once each, so those count once a block.
    """
    blocks = math.ceil(values / COLUMNS)
    state = 2 * 4 * rows * heads * dim * values
    tokens = 4 * rows * tokens * heads * (2 * values + blocks * (2 * dim + 2))
    return {"state": state, "tokens": tokens, "norms": 8 * rows * heads * blocks}


def separate_traffic(rows: int, heads: int, dim: int, values: int) -> int:
    """Bytes of the signal on its own: a state copied (read, written), then two compared."""
    return 4 * 4 * rows * heads * dim * values


_STATE, _TOKENS, _GATES = (types.float32[:, :, :, ::1],) * 2 + (types.float32[:, :, ::1],)
SIGNATURE = types.void(_STATE, *(_TOKENS,) * 3, *(_GATES,) * 2, _TOKENS, _STATE)
