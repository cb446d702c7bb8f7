"""Stages that time the kernels on a GPU: compaction, score recovery, paged decoding, bare copies.

Every time stands beside two ceilings: the nominal bandwidth, and what `kernels.streaming` copies in
the same session. Bytes are the formulas of `kernels.traffic`, so a share says how near a kernel is
to moving no more than it must. The other ways to do the same work are timed beside it: torch
(`index_select`, gather and copy back, its attention on a gathered cache) and, where it is
installed, Triton. One layer, bf16, the heads of Qwen3-8B, unless a stage says otherwise.
"""

import time
from collections.abc import Callable
from functools import partial

import torch

from kernels import compaction, paged_decode, paged_scores, streaming, traffic
from kernels.arrays import host
from kernels.plan import physical_moves
from kernels.session import Bench, Log
from kernels.timing import Call, copies, timed
from kernels.workload import BLOCK, draw_plans, work

SHAPE = traffic.GEOMETRIES["Qwen3-8B"]
REQUESTS = (1, 4, 16, 64, 128)
PACKED = ((1024, 512), (2048, 1536), (6144, 4096))  # the paper's three sizes, S to B
SCORED = (1024, 2048, 6144)
DECODED = (512, 2048, 4096, 8192, 33000)
ACTIONS = 40
TOO_LARGE = (MemoryError, torch.OutOfMemoryError)  # any other error of our kernels fails the stage
SPLIT = "bfloat16, one layer, heads of Qwen3-8B"


def measure(
    bench: Bench, log: Log, name: str, case: str, calls: list[Call], moved: float, split: str = ""
) -> float:
    """Time `calls`, which do the same on other buffers; note time and shares of both ceilings.

    moved: bytes that the work must read and write. Returns the median in seconds.
    """
    found = timed(bench, calls)
    split, n = split or SPLIT, found.repeats
    us = dict(unit="us", direction="lower", split=split, n=n)
    log.metric(f"{name}_us.{case}", found.median * 1e6, **us)
    for kind, rate in (("nominal", bench.nominal), ("ceiling", log.known.get("ceiling"))):
        if rate:
            share = moved / found.median / rate
            facts = dict(unit="share", direction="higher", split=split, n=n)
            log.metric(f"{name}_of_{kind}.{case}", share, **facts)
    quartiles = [round(x * 1e6, 2) for x in (found.low, found.high)]
    entry = {"name": f"{name}.{case}", "quartiles_us": quartiles, "bytes": int(moved)}
    entry |= {"host_us": round(found.host * 1e6, 1), "late": found.late, "buffers": len(calls)}
    log.timings.append(entry)
    return found.median


def rivals(
    bench: Bench, log: Log, case: str, ways: dict[str, tuple[Callable[[], list[Call]], float]]
) -> None:
    """Measure other ways to do the same; one that cannot run here is left out, with its reason."""
    for name, (make, moved) in ways.items():
        log.attempt(
            f"{name}.{case}",
            lambda name=name, make=make, moved=moved: measure(
                bench, log, name, case, make(), moved
            ),
        )


def cases(*sizes) -> list[tuple]:
    """Sizes by number of requests; all sizes of few requests come first."""
    return [(requests, *size) for requests in REQUESTS for size in zip(*sizes, strict=True)]


def label(case: tuple) -> str:
    return ".".join(f"{k}{v}" for k, v in zip("rsb", case, strict=False))


def ceiling(bench: Bench, log: Log) -> None:
    """Stage: the plain copy kernel beside torch's, at three sizes; the best of ours counts."""
    best = 0.0
    for mega in log.until((64, 256, 1024)):
        words = min(mega << 20, int(bench.memory * 0.1)) // 4
        source = torch.zeros(words, device=bench.where)
        target = torch.empty_like(source)
        moved, split = 2 * source.nbytes, "fp32, flat buffer"
        at = partial(measure, bench, log, case=f"mb{mega}", moved=moved, split=split)
        mine = at("stream", calls=[partial(streaming.copy_, target, source)])
        at("torch_copy", calls=[partial(target.copy_, source)])
        best = max(best, moved / mine)
    log.known["ceiling"] = best
    rate = dict(unit="bytes/s", direction="higher", split="fp32, flat buffer", n=1)
    log.metric("ceiling", best, **rate)


def compact(bench: Bench, log: Log) -> None:
    """Stage: Algorithm 4 against collecting the survivors, at random survivors.

    A repeated launch moves the same rows again: sources are never written.
    """
    for case in log.until(cases(*zip(*PACKED, strict=True)), label):
        log.attempt(label(case), partial(_compact, bench, log, case), TOO_LARGE)


def _compact(bench: Bench, log: Log, case: tuple[int, int, int]) -> None:
    requests, slots, kept = case
    plans = draw_plans([slots] * requests, [kept] * requests)
    rows = sum(len(p.src) for p in plans)
    needed = traffic.compaction(rows, SHAPE)
    sets = copies(bench, needed, requests * slots * SHAPE.row)
    made = work(bench, SHAPE, [slots] * requests, sets)
    tables, flat = [host(t) for t in made.tables], made.pool[0].flatten(1, 2)
    planned = physical_moves(made.pool.shape, tables[0], plans)[0]
    source, target = torch.from_numpy(planned).to(bench.where)
    wanted = flat[:, source]
    calls = [compaction.prepare(made.pool, t, plans) for t in tables]
    calls[0]()
    right = torch.equal(flat[:, target].view(torch.int16), wanted.view(torch.int16))
    log.check(f"moved_right.{label(case)}", right, "The timed launch moves each row as planned.")
    measure(bench, log, "compaction", label(case), calls, needed)
    began = time.perf_counter()
    compaction.prepare(made.pool, tables[0], plans)
    took = 1e6 * (time.perf_counter() - began)
    host_side = dict(unit="us", direction="lower", split=f"{SPLIT}; host, plans at hand", n=1)
    log.metric(f"compaction_prepare_us.{label(case)}", took, **host_side)

    def survivors() -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Rows of the survivors in order, and where they go; for each set of tables."""
        found = []
        for table in made.tables:
            first = table.long()[..., None] * BLOCK + torch.arange(BLOCK, device=bench.where)
            first = first.flatten(1)
            old = [first[r, torch.from_numpy(p.perm).sort().values] for r, p in enumerate(plans)]
            new = [first[r, torch.from_numpy(p.slots)] for r, p in enumerate(plans)]
            found.append((torch.cat(old), torch.cat(new)))
        return found

    def gather() -> list[Call]:
        return [partial(torch.index_select, flat, 1, old) for old, _ in survivors()]

    def gather_and_copy() -> list[Call]:
        def call(old, new):
            flat.index_copy_(1, new, flat.index_select(1, old))

        return [partial(call, *both) for both in survivors()]

    def triton() -> list[Call]:
        from kernels import triton_twins

        moved = [physical_moves(made.pool.shape, table, plans)[0] for table in tables]
        moved = [torch.from_numpy(rows).to(bench.where) for rows in moved]
        return [partial(triton_twins.copy_rows, flat, *rows) for rows in moved]

    there = traffic.gather_compaction(requests * kept, SHAPE)
    ways = {
        "index_select": (gather, there),
        "gather_and_copy": (gather_and_copy, 2 * there),
        "triton_compaction": (triton, needed),
    }
    rivals(bench, log, label(case), ways)


def scores(bench: Bench, log: Log) -> None:
    """Stage: Algorithm 3 for one action token, and in one pass for a whole round of them."""
    for case in log.until(cases(SCORED), label):
        for actions in (1, ACTIONS):
            each = partial(_scores, bench, log, case, actions)
            log.attempt(f"{label(case)}.a{actions}", each, TOO_LARGE)


def _scores(bench: Bench, log: Log, case: tuple[int, int], actions: int) -> None:
    requests, slots = case
    needed = requests * traffic.score_recovery_one_pass(slots, SHAPE, actions)
    if actions == 1:
        needed = requests * traffic.score_recovery(slots, SHAPE)
    sets = copies(bench, needed, requests * slots * SHAPE.row)
    made = work(bench, SHAPE, [slots] * requests, sets)
    out, queries = made.scores(), made.queries(actions)
    lse = torch.full(queries.shape[:3], 9.0, device=bench.where)  # any number: times are the same
    visible = made.lengths[:, None].expand(-1, actions).contiguous()
    folded = torch.full_like(made.lengths, int(actions == 1))
    given = [(out, queries, lse, made.keys(), t, visible, folded) for t in made.tables]
    name = f"{label(case)}.a{actions}"
    calls = [partial(paged_scores.recover_, *g, check=False) for g in given]
    measure(bench, log, "scores", name, calls, needed)

    def torch_alone() -> list[Call]:
        copies(bench, 5 * out.numel() * (SHAPE.dim + actions * SHAPE.q_heads // SHAPE.heads))
        return [partial(paged_scores.recover_torch, *g) for g in given]

    def triton() -> list[Call]:
        from kernels import triton_twins

        return [partial(triton_twins.recover, *g) for g in given]

    ways = {"torch_scores": (torch_alone, requests * traffic.gather_scoring(slots, SHAPE))}
    if actions == 1:
        ways["triton_scores"] = (triton, needed)
    rivals(bench, log, name, ways)


def decode(bench: Bench, log: Log) -> None:
    """Stage: attention of one new token; torch's on a gathered and on a contiguous cache."""
    for case in log.until(cases(DECODED), label):
        log.attempt(label(case), partial(_decode, bench, log, case), TOO_LARGE)


def _decode(bench: Bench, log: Log, case: tuple[int, int]) -> None:
    requests, slots = case
    needed = requests * traffic.decode_attention(slots, SHAPE)
    made = work(bench, SHAPE, [slots] * requests, copies(bench, needed))
    keys, values, query = made.keys(), made.values(), made.queries(1)[:, 0]
    calls = [
        partial(paged_decode.decode, query, keys, values, t, made.lengths, check=False)
        for t in made.tables
    ]
    measure(bench, log, "decode", label(case), calls, needed)

    def dense(table: torch.Tensor) -> list[torch.Tensor]:
        """Keys and values [R, H, S, D] in order, copied together."""
        found = (x[table.long()].flatten(1, 2)[:, :slots] for x in (keys, values))
        return [x.transpose(1, 2) for x in found]

    def attend(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            query[:, :, None], k, v, enable_gqa=True
        )

    def contiguous() -> list[Call]:
        copies(bench, 2 * needed)
        return [partial(attend, *dense(t)) for t in made.tables]

    def gathered() -> list[Call]:
        copies(bench, 2 * needed)
        return [lambda t=t: attend(*dense(t)) for t in made.tables]

    ways = {"sdpa_contiguous": (contiguous, needed), "sdpa_gathered": (gathered, 3 * needed)}
    rivals(bench, log, label(case), ways)
