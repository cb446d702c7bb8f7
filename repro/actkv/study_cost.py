"""What a policy itself costs in a round, beside the decoding of that round, on the same tensors.

One layer is timed and counted for all; a round writes `generated` tokens, `actions` of them in the
action. Contents are random numbers. (arXiv 2609.31395; notes 4.2 and 7.3, row 13.)
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch

from repro.actkv import decode, paging, roofline
from repro.actkv.accept import count
from repro.actkv.policies import RKV, ActKV, SnapKV
from repro.actkv.policies.base import logits

REPEATS = 3
WINDOW = 32  # of SnapKV, its authors' own; R-KV's is 8


def timed(work: Callable[[], Any]) -> float:
    """Median seconds of `work`, after a first time that warms up."""
    work()
    seconds = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return float(np.median(seconds))


@torch.inference_mode()
def round_costs(
    model: Any, entries: int, actions: int, kept: float, most: int, seed: int
) -> dict[str, float]:
    """Seconds a round: of each policy's scoring and choosing at `entries` cached, of compaction.

    kept: share that stays. most: entries beyond which R-KV, whose work grows with the square, is
    left out. ActKV is timed twice: attention recomputed at every action token, and in one pass over
    the keys with stored queries and log-sum-exps.
    """
    count("entries", entries), count("actions", actions)
    config, budget = model.config, roofline.kept_entries(entries, kept)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    groups, width = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
    draw = torch.Generator().manual_seed(seed)
    keys = torch.randn(groups, entries, width, generator=draw)
    queries = torch.randn(heads, actions, width, generator=draw)
    found = {}

    ours = ActKV(layers=1)
    each = timed(lambda: ours.observe(0, queries[:, :1], keys, "action"))
    choosing = timed(lambda: _chosen(ours, queries, keys, entries, budget)) - each
    found["actkv, token by token"] = layers * (actions * each + max(choosing, 0.0))
    lse = logits(queries, keys).logsumexp(-1).view(heads, actions).T.contiguous()
    stored = queries.transpose(0, 1).contiguous()
    one_pass = timed(lambda: decode.recover(stored, lse, keys))
    found["actkv, one pass"] = layers * (one_pass + max(choosing, 0.0))

    others = {"snapkv": SnapKV(layers=1, window=min(WINDOW, budget // 2 or 1))}
    if entries <= most:
        others["rkv"] = RKV(layers=1, window=min(8, budget // 2 or 1))
    for name, policy in others.items():
        policy.observe(0, queries, keys, "action")
        choose = timed(lambda policy=policy: policy.select(entries, budget, lambda layer: keys))
        found[name] = layers * choose

    blocks = -(-entries // roofline.BLOCK)
    pages = torch.zeros(2, blocks, roofline.BLOCK, groups, width)
    order = np.sort(np.random.default_rng(seed).permutation(entries)[:budget])[None]
    compaction = timed(lambda: paging.compact([pages], range(blocks), order, entries))
    found["compaction"] = layers * compaction
    return found


def _chosen(
    policy: ActKV, queries: torch.Tensor, keys: torch.Tensor, entries: int, budget: int
) -> np.ndarray:
    """One observed token and the end of the round; the score starts from nothing again."""
    policy.state[0].score = np.zeros(0)
    policy.observe(0, queries[:, :1], keys, "action")
    return policy.select(entries, budget, lambda layer: keys)


def bandwidth(gib: float = 0.5) -> float:
    """Bytes a second that one reading pass over `gib` GiB of float32 reaches: the ceiling here."""
    values = torch.ones(int(gib * 2**28))
    return values.numel() * 4 / timed(values.sum)
