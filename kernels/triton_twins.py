"""Compaction and score recovery in Triton, only to be timed beside the kernels of this book.

Triton comes with torch's CUDA build and is no dependency. ActKV's own kernels are said to be
written in it (arXiv 2609.31395, notes 4.2); these are ours, plain ones, and not the paper's.
``TRITON_INTERPRET=1`` runs them on a CPU.

Dims as in `kernels.paged_scores`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(flat, source, target, plane, row, WIDTH: tl.constexpr):
    """One row of keys (program 1 = 0) or values (1) from slot `source` to slot `target`."""
    move, kind = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, WIDTH)
    here, there = tl.load(source + move), tl.load(target + move)
    found = tl.load(flat + kind * plane + here * row + at, mask=at < row)
    tl.store(flat + kind * plane + there * row + at, found, mask=at < row)


def copy_rows(flat: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """Move rows of a contiguous `flat` [2, N * T, H, D] in place; source, target: int64 [c]."""
    row, plane = flat[0, 0].numel(), flat[0].numel()
    _copy[(len(source), 2)](flat, source, target, plane, row, WIDTH=triton.next_power_of_2(row))


@triton.jit
def _recover(
    out,
    queries,
    lse,
    keys,
    table,
    visible,
    folded,
    scale,
    width,
    capacity,
    block_step,
    slot_step,
    head_step,
    T: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
):
    """Algorithm 3 for one logical block, KV head and request; one action token."""
    block, kv, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = tl.num_programs(1)
    length = tl.load(visible + request)
    if block * T < length:
        t, d, g = tl.arange(0, T), tl.arange(0, D), tl.arange(0, G)
        first = tl.load(table + request * width + block).to(tl.int64) * block_step
        rows = keys + first + kv * head_step + t[:, None] * slot_step + d[None, :]
        row = (request * heads + kv) * G + g
        k = tl.load(rows).to(tl.float32)
        q = tl.load(queries + row[:, None] * D + d[None, :]).to(tl.float32)
        z = tl.sum(q[:, None, :] * k[None, :, :], axis=2) * scale
        x = tl.max(tl.exp(z - tl.load(lse + row)[:, None]), axis=0)
        n = tl.load(folded + request)
        slot = block * T + t
        mean = out + (request * heads + kv) * capacity + slot
        old = tl.where(n > 0, tl.load(mean, mask=slot < length, other=0.0), 0.0)
        tl.store(mean, old + (x - old) / (n + 1), mask=slot < length)


def recover(out, queries, lse, keys, table, visible, folded, scale: float | None = None) -> None:
    """As `kernels.paged_scores.recover_` for one action token; sizes T, D and G powers of two."""
    requests, actions, q_heads, dim = queries.shape
    slots, heads = keys.shape[1:3]
    if actions != 1:
        raise ValueError(f"queries have {actions} actions; accepted: 1.")
    _recover[(table.shape[1], heads, requests)](
        out,
        queries,
        lse,
        keys,
        table,
        visible,
        folded,
        dim**-0.5 if scale is None else scale,
        table.shape[1],
        out.shape[2],
        *keys.stride()[:3],
        T=slots,
        D=dim,
        G=q_heads // heads,
    )
