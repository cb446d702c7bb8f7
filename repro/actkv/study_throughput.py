"""Time decoding steps: the full cache against a share of it, with what was measured kept in pairs.

Contents are random numbers: time and memory do not depend on them. A cache is filled, one step
warms it up, then `steps` are timed together; it is dropped before the next arm is filled, so that
the largest cache decides the memory of the process. Arms take turns in every repeat. Attention on
pages runs on one thread; so should everything beside it (`torch.set_num_threads(1)`).
(arXiv 2609.31395, abstract; notes 5.5 and 7.3.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from repro.actkv import roofline
from repro.actkv.accept import count, one_of
from repro.actkv.cache import PagedCache
from repro.actkv.decode import decoding
from repro.actkv.policies import ActKV, FullKV
from repro.actkv.policies.watch import watching
from repro.actkv.request import Request

KINDS = ("stock", "paged", "paged, stock attention")


@dataclass
class Arm:
    """What is timed: `requests` with `entries` cached each, of a `context` of tokens.

    kind: "stock" is transformers' DynamicCache and attention; "paged" the PagedCache, its
    attention on the pages, and the hooks by which a policy watches; the third has the PagedCache
    and hooks, and transformers' attention. Filled by `measure`: `seconds` a step, one a repeat;
    `peak_bytes` of keys and values; `watched`, passes that a policy saw in the last repeat.
    """

    kind: str
    requests: int
    entries: int
    context: int
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    watched: int = 0

    def __post_init__(self):
        one_of("kind", self.kind, KINDS)
        for name in ("requests", "entries", "context"):
            count(name, getattr(self, name))
        if self.entries > self.context:
            raise ValueError(f"entries={self.entries} is refused; accepted: <= {self.context}.")

    @property
    def rates(self) -> np.ndarray:
        """Tokens a second, one a repeat."""
        return self.requests / np.array(self.seconds)

    @property
    def rate(self) -> float:
        """The median."""
        return float(np.median(self.rates))

    @property
    def spread(self) -> float:
        """Largest less smallest rate, over the median."""
        return float(np.ptp(self.rates) / self.rate)


def gains(ours: Arm, other: Arm) -> np.ndarray:
    """Tokens a second of `ours` over those of `other`, repeat by repeat."""
    return ours.rates / other.rates


def measure(model: Any, arms: Sequence[Arm], steps: int, repeats: int, seed: int) -> None:
    """Time every arm `repeats` times, in turn; every second round in reverse order."""
    count("steps", steps), count("repeats", repeats)
    for repeat in range(repeats):
        for arm in arms[:: (-1) ** repeat]:
            _time(model, arm, steps, seed + repeat)


@torch.inference_mode()
def filled(model: Any, arm: Arm, new: int, seed: int) -> PagedCache:
    """A PagedCache as an eviction leaves it, with room for `new` tokens more."""
    room = arm.requests * -(-(arm.entries + new) // roofline.BLOCK)
    cache = PagedCache(model, arm.requests, blocks=room, block_size=roofline.BLOCK)
    cache.prepare(np.ones((arm.requests, arm.entries), dtype=bool))
    for layer, entries in enumerate(_random(cache.shape, arm.entries, seed)):
        cache.append(*(e.expand(arm.requests, -1, -1, -1) for e in entries), layer)
    survivors = np.random.default_rng(seed).permutation(arm.context)[: arm.entries]
    survivors = np.tile(np.sort(survivors), (cache.shape[0], 1))
    cache.requests = [
        Request(survivors, since=arm.context, logical=arm.context) for _ in range(arm.requests)
    ]
    return cache


@torch.inference_mode()
def stock(model: Any, arm: Arm, seed: int) -> DynamicCache:
    """A DynamicCache of the same size; it holds no survivors, so `entries` is the context."""
    if arm.entries != arm.context:
        raise ValueError(f"entries={arm.entries} is refused; accepted: {arm.context}, all.")
    cache, c = DynamicCache(), model.config
    shape = (c.num_hidden_layers, c.num_key_value_heads, c.hidden_size // c.num_attention_heads)
    for layer, entries in enumerate(_random(shape, arm.entries, seed)):
        cache.update(*(e.expand(arm.requests, -1, -1, -1) for e in entries), layer)
    return cache


def _random(shape: tuple[int, int, int], entries: int, seed: int) -> Any:
    """Keys and values [1, H_k, entries, d] of each layer; all requests get the same."""
    layers, heads, width = shape
    draw = torch.Generator().manual_seed(seed)
    one = torch.randn(2, 1, heads, entries, width, generator=draw)
    for _ in range(layers):
        yield one


def _time(model: Any, arm: Arm, steps: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    words = model.config.vocab_size
    ids = torch.randint(words, (steps + 1, arm.requests, 1), generator=draw)
    if arm.kind == "stock":
        cache = stock(model, arm, seed)
        arm.seconds.append(_run(model, cache, ids))
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        held = sum(t.numel() * t.element_size() for pair in layers for t in pair)
        arm.peak_bytes = held + layers[-1][0].numel() * layers[-1][0].element_size()
        return
    cache = filled(model, arm, steps + 1, seed)
    layers = cache.shape[0]
    policies = [
        _Counted(full=arm.entries == arm.context, layers=layers) for _ in range(arm.requests)
    ]
    hooks = decoding if arm.kind == "paged" else watching
    with hooks(model, cache, policies) as watch:
        watch.phase = "reasoning"
        arm.seconds.append(_run(model, cache, ids))
    arm.peak_bytes = cache.counters()["peak_bytes"]
    arm.watched = sum(policy.seen for policy in policies)


@torch.inference_mode()
def _run(model: Any, cache: Any, ids: torch.Tensor) -> float:
    """Seconds a step of ids [steps + 1, R, 1]; the first, which is not timed, warms up."""
    model(ids[0], cache=cache)
    start = perf_counter()
    for token in ids[1:]:
        model(token, cache=cache).logits[:, -1].argmax(-1)
    return (perf_counter() - start) / (len(ids) - 1)


class _Counted:
    """The policy of an arm, and how many passes of a layer it was shown."""

    def __init__(self, full: bool, layers: int):
        self.policy, self.seen = (FullKV if full else ActKV)(layers=layers), 0

    def observe(self, *shown: Any) -> None:
        self.seen += 1
        self.policy.observe(*shown)
