"""Stage: decoding at the paper's size, with the full cache and with 26 % of it. Attention only.

Geometry of Qwen3-30B-A3B, 48 layers, 33,000 slots, keys and values random: no weights, no
projections, no experts. So the times are the attention's share of a step, and a gain here is more
than a whole model would show; the paper's 3.97 times more tokens is a whole server's. What a round
adds, one pass over the stored action queries and one compaction, is spread over its tokens.
"""

from functools import partial
from math import ceil

import torch

from kernels import compaction, paged_decode, paged_scores, traffic
from kernels.arrays import host
from kernels.session import Bench, Log, Skipped
from kernels.speed import measure
from kernels.workload import BLOCK, Work, again, draw_plans, work

SHAPE = traffic.GEOMETRIES["Qwen3-30B-A3B"]
TRACE, SHARE = 33000, 0.2598  # a WebShop trace, and the share of peak memory that the paper reports
ROUND, GENERATED, ACTIONS = 1400, 500, 40  # assumed: tokens of a round, decoded, action ones
MOST, MEMORY = 32, 0.7  # requests with the full cache at most; share of the device's memory
SPLIT = "attention only, random keys and values, bfloat16, layers and heads of Qwen3-30B-A3B"


def decode_rounds(bench: Bench, log: Log) -> None:
    """Three settings: full cache; 26 % and as many requests; 26 % and as many as fit instead.

    The last uses the blocks that the full cache took. Also the single request of either kind.
    """
    full = min(MOST, int(bench.memory * MEMORY // (TRACE * SHAPE.row * SHAPE.layers)))
    if not full:
        raise Skipped(f"one request of {TRACE} slots does not fit this device")
    kept = round(SHARE * TRACE)
    made = work(bench, SHAPE, [TRACE] * full, layers=SHAPE.layers)
    many = made.pool.shape[2] // ceil(kept / BLOCK)
    rates = {}
    settings = {
        "one_full": (1, TRACE),
        "one_kept": (1, kept),
        "full": (full, TRACE),
        "kept": (full, kept),
        "kept_same_memory": (many, kept),
    }
    for name, (requests, slots) in log.until(settings.items()):
        held = again(made, [slots] * requests)
        seconds = _step(bench, log, name, held)
        if slots < TRACE:
            seconds += _round(bench, log, name, held) / GENERATED
        rates[name] = requests / seconds
        facts = dict(unit="tokens/s", direction="higher", split=SPLIT, n=requests)
        log.metric(f"attention_tokens_per_s.{name}", rates[name], **facts)
    gains = {"one": ("one_full", "one_kept"), "same_requests": ("full", "kept")}
    gains["same_memory"] = ("full", "kept_same_memory")
    for name, (below, above) in gains.items():
        if {below, above} <= rates.keys():
            facts = dict(unit="ratio", direction="higher", split=SPLIT, n=1)
            log.metric(f"attention_gain.{name}", rates[above] / rates[below], **facts)
    _fused(bench, log, again(made, [kept]))


def _step(bench: Bench, log: Log, name: str, held: Work) -> float:
    """Seconds of one token of each request: all layers."""
    query, table = held.queries(1)[:, 0], held.tables[0]

    def step() -> None:
        for layer in range(SHAPE.layers):
            keys, values = held.keys(layer), held.values(layer)
            paged_decode.decode(query, keys, values, table, held.lengths, check=False)

    slots = int(held.lengths[0])
    moved = len(held.lengths) * SHAPE.layers * traffic.decode_attention(slots, SHAPE, BLOCK)
    return measure(bench, log, "step", name, [step], moved, SPLIT)


def _round(bench: Bench, log: Log, name: str, held: Work) -> float:
    """Seconds that the end of a round adds: score recovery in one pass, and compaction."""
    out, queries, table = held.scores(), held.queries(ACTIONS), held.tables[0]
    requests, slots = len(held.lengths), int(held.lengths[0])
    lse = torch.full(queries.shape[:3], 9.0, device=bench.where)
    visible = held.lengths[:, None].expand(-1, ACTIONS).contiguous()
    none = torch.zeros_like(held.lengths)

    calls = [
        partial(
            paged_scores.recover_,
            *(out, queries, lse, held.keys(layer), table, visible, none),
            check=False,
        )
        for layer in range(SHAPE.layers)
    ]
    moved = traffic.score_recovery_one_pass(slots, SHAPE, ACTIONS) * requests
    scored = SHAPE.layers * measure(bench, log, "round_scores_a_layer", name, calls, moved, SPLIT)
    call, moved = _packing(held)
    return scored + measure(bench, log, "round_compaction", name, [call], moved, SPLIT)


def _packing(held: Work) -> tuple:
    """The compaction of all layers in one launch, from the end of a round to its budget; bytes."""
    lengths = held.lengths.tolist()
    plans = draw_plans(lengths, [max(1, n - ROUND) for n in lengths])
    rows = sum(len(p.src) for p in plans)
    call = compaction.prepare(held.pool, host(held.tables[0]), plans)
    return call, len(held.pool) * traffic.compaction(rows, SHAPE)


def _fused(bench: Bench, log: Log, held: Work) -> None:
    """One request: one launch for all layers against one launch a layer."""
    call, moved = _packing(held)
    lengths = held.lengths.tolist()
    plans = draw_plans(lengths, [max(1, n - ROUND) for n in lengths])
    table = host(held.tables[0])
    each = [compaction.prepare(held.pool[i : i + 1], table, plans) for i in range(len(held.pool))]

    def one_by_one() -> None:
        for one in each:
            one()

    at = partial(measure, bench, log, moved=moved, split=SPLIT)
    at("all_layers", "one_launch", calls=[call])
    at("all_layers", "one_launch_a_layer", calls=[one_by_one])
