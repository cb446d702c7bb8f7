"""Stages that compare kernels with float64: score recovery, compaction, paged decoding.

Ragged requests in shuffled blocks, three element types. On a device the heads are those of
Qwen3-8B and a request has up to two thousand slots; in the simulator, which runs a thread of the
operating system for each thread of a kernel, everything is tiny.
"""

from dataclasses import replace

import numpy as np
import torch

from kernels import compaction, paged_decode, paged_scores
from kernels.arrays import DTYPES, host
from kernels.plan import physical_moves
from kernels.session import Bench, Log
from kernels.traffic import GEOMETRIES, Geometry
from kernels.workload import Work, draw_plans, work

# Of the largest expected number. The kernels work in fp32: rounding is a hundred times less, and
# one slot that is missed or read twice, or a head taken for another, a hundred times more.
LIMIT = 1e-4
NAMES = [str(d).removeprefix("torch.") for d in DTYPES]


def case(bench: Bench, dtype: str, layers: int = 1) -> Work:
    """The requests of these stages: ragged, the shortest of them below one block."""
    if bench.simulated:
        geometry, lengths = Geometry(4, 2, 16, layers=1), [70, 9]
    else:
        geometry, lengths = GEOMETRIES["Qwen3-8B"], [2048, 1999, 513, 9]
    bytes_ = getattr(torch, dtype).itemsize
    return work(bench, replace(geometry, bytes=bytes_), lengths, layers=layers, dtype=dtype)


def apart(found: torch.Tensor, expected: np.ndarray) -> float:
    """Largest distance, as a share of the largest expected number; infinite for NaN."""
    off = np.abs(host(found.double()) - expected).max() / np.abs(expected).max()
    return float(off) if np.isfinite(off) else float("inf")


def judge(log: Log, name: str, dtype: str, off: float, n: int) -> None:
    """Note a distance as metric and check. An infinite one is no metric, and a red check."""
    split = f"random tensors, {dtype}"
    if np.isfinite(off):
        log.metric(f"error_{name}.{dtype}", off, unit="share", direction="lower", split=split, n=n)
    says = f"{name} in {dtype} agrees with float64 to {LIMIT:g} of the largest number."
    log.check(f"{name}.{dtype}", off < LIMIT, says)


def decode(bench: Bench, log: Log) -> None:
    """Stage: output and log-sum-exp of one query a request."""
    for dtype in log.until(NAMES):
        made = case(bench, dtype)
        chunks = (64,) if bench.simulated else (paged_decode.CHUNK, 64)
        given = (made.queries(1)[:, 0], made.keys(), made.values(), made.tables[0], made.lengths)
        expected = paged_decode.decode_reference(*given)
        for chunk in chunks:
            found = paged_decode.decode(*given, chunk=chunk)
            for name, a, b in zip(("output", "log_sum_exp"), found, expected, strict=True):
                judge(log, f"decode_{name}_chunk_{chunk}", dtype, apart(a, b), b.size)


def scores(bench: Bench, log: Log) -> None:
    """Stage: action attention, token by token and in one pass, by the log-sum-exp of float64.

    The last request sees its last token only (padding).
    """
    actions = 2 if bench.simulated else 6
    for dtype in log.until(NAMES):
        made = case(bench, dtype)
        queries, keys, table = made.queries(actions), made.keys(), made.tables[0]
        visible = made.lengths[:, None] - actions + 1 + torch.arange(actions).to(made.lengths)
        lse = [
            paged_decode.decode_reference(queries[:, i], keys, keys, table, visible[:, i])[1]
            for i in range(actions)
        ]
        lse = torch.from_numpy(np.stack(lse, 1)).to(bench.where, torch.float32)
        visible[-1, :-1] = 0
        none = torch.zeros_like(made.lengths)
        given = (queries, lse, keys, table, visible)
        expected = paged_scores.recover_reference(made.scores(), *given, none)
        once, steps, folded = made.scores(), made.scores(), none.clone()
        paged_scores.recover_(once, *given, none)
        for i in range(actions):
            q, known, seen = (x[:, i : i + 1].contiguous() for x in (queries, lse, visible))
            paged_scores.recover_(steps, q, known, keys, table, seen, folded)
            folded += visible[:, i] > 0
        judge(log, "scores_one_pass", dtype, apart(once, expected), expected.size)
        judge(log, "scores_token_by_token", dtype, apart(steps, expected), expected.size)


def compact(bench: Bench, log: Log) -> None:
    """Stage: every row of two layers is where the plan says, and no other row has changed."""
    for dtype in log.until(NAMES):
        made = case(bench, dtype, layers=2)
        lengths, prefix = made.lengths.tolist()[:-1], 1
        plans = draw_plans(lengths, [max(17, n * 2 // 3) for n in lengths], prefix)
        tables = host(made.tables[0])[: len(plans)]
        before, expected = made.pool.clone(), made.pool.clone()
        compaction.compact_(made.pool, tables, plans)
        flat, was = (x.flatten(2, 3) for x in (expected, before))
        for layer, (source, target) in enumerate(physical_moves(made.pool.shape, tables, plans)):
            a, b = (torch.from_numpy(x).to(flat.device) for x in (source, target))
            flat[layer, :, b] = was[layer, :, a]
        same = torch.equal(made.pool.view(torch.uint8), expected.view(torch.uint8))
        changed = not torch.equal(expected.view(torch.uint8), before.view(torch.uint8))
        says = f"compaction in {dtype} moves every byte as planned and no other, in one launch."
        log.check(f"compaction.{dtype}", same and changed, says)
        moved = 2 * sum(len(p.src) for p in plans)
        split = f"random survivors, {dtype}"
        rows = dict(unit="rows", direction="none", split=split, n=len(plans))
        log.metric(f"compaction_rows_checked.{dtype}", moved, **rows)
