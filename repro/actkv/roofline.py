"""How fast can decoding be? Bytes a step over bytes a second, and who fits into the memory.

A step makes one token for each of R requests. It reads every weight once, and the keys and values
of every request:

    bytes = weights + R S layers ρ,    ρ = 2 H_k d b

Kept share s at the same R: S becomes s S. In a memory M for keys and values: R = M / (S layers ρ)
becomes 1 / s times as many. If bytes decide, the gain is (W + R S ρ') / (W + R s S ρ') in the first
case and 1 / s in the second, if every step reads the same weights (ρ' = layers ρ); a mixture of
experts reads more of them for more requests. Notes section 8 on arXiv 2609.31395. Nothing here is
measured.
"""

import sys
from dataclasses import dataclass
from math import ceil
from typing import Any

from repro.actkv.accept import count, natural, share
from repro.paths import ROOT

BLOCK = 16  # slots of a block


@dataclass(frozen=True)
class Load:
    """What a step has to read. entry: bytes of one cached token in all layers.

    weights: bytes read whatever the number of requests. experts: bytes of all experts together;
    each token reads `routed` of `number` in every layer, at random. table: bytes of an input
    embedding that is not tied: stored, but read a row a token.
    """

    entry: int
    weights: float
    experts: float = 0.0
    number: int = 1
    routed: int = 0
    table: float = 0.0

    def read(self, requests: int) -> float:
        """Bytes of weights that a step of `requests` tokens reads."""
        return self.weights + self.experts * (1 - (1 - self.routed / self.number) ** requests)

    @property
    def resident(self) -> float:
        """Bytes of all weights."""
        return self.weights + self.experts + self.table


def entry_bytes(layers: int, heads: int, width: int, size: int) -> int:
    """Bytes of one cached token: keys and values of `heads` KV heads in all layers."""
    return 2 * layers * heads * width * size


def of(model: Any) -> Load:
    """The load of a transformers model; a tied embedding is stored, and read, once."""
    config = model.config
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    size = model.dtype.itemsize
    return Load(
        entry_bytes(config.num_hidden_layers, config.num_key_value_heads, width, size),
        sum(p.numel() * p.element_size() for p in model.parameters()),
    )


def cache_bytes(load: Load, entries: int, requests: int = 1, block: int = BLOCK) -> int:
    """Bytes of the blocks that hold `entries` of each request; blocks count whole."""
    return -(-entries // block) * block * requests * load.entry


def admitted(load: Load, entries: int, memory: float, block: int = BLOCK) -> int:
    """Requests whose peak of `entries` fits into `memory` bytes together."""
    return int(memory // cache_bytes(load, count("entries", entries), 1, block))


def kept_entries(context: int, kept: float) -> int:
    """Entries that a share `kept` of `context` is, rounded up: a peak, open round included."""
    return ceil(count("context", context) * share("kept", kept, zero=False) - 1e-9)


def step_bytes(load: Load, requests: int, entries: int) -> float:
    """Bytes that one step of `requests` tokens reads."""
    return load.read(count("requests", requests)) + requests * natural("entries", entries) * (
        load.entry
    )


def gain(load: Load, full: tuple[int, int], kept: tuple[int, int]) -> float:
    """Tokens a second of `kept` over those of `full`, both (requests, entries), from bytes alone.

    Bandwidth drops out.
    """
    ours, theirs = (n / step_bytes(load, n, entries) for n, entries in (kept, full))
    return ours / theirs


@dataclass(frozen=True)
class Card:
    """Nominal bytes/s and bytes of memory of a GPU, and where the figures are from."""

    bandwidth: float
    memory: float


def cards() -> dict[str, Card]:
    """Bandwidths as in `kernels.traffic`; the paper's card from its data sheet."""
    if str(ROOT) not in sys.path:  # Jupyter starts elsewhere, and `kernels` lies there
        sys.path.append(str(ROOT))
    from kernels.traffic import DEVICES

    memory = {"A100-40": 40e9, "A100-80": 80e9, "H200": 141e9}
    found = {name: Card(DEVICES[name].bandwidth, size) for name, size in memory.items()}
    return found | {"RTX PRO 6000 (the paper's)": Card(1.79e12, 96e9)}


def paper_load() -> Load:
    """Qwen3-30B-A3B in bf16 from its public configuration: 128 experts, 8 a token, 48 layers."""
    layers, hidden, inner, words, size = 48, 2048, 768, 151_936, 2
    q_heads, heads, width, number, routed = 32, 4, 128, 128, 8
    attention = 2 * hidden * (q_heads + heads) * width
    outside = layers * (attention + hidden * number) + hidden * words  # with the output layer
    experts = layers * number * 3 * hidden * inner
    entry = entry_bytes(layers, heads, width, size)
    return Load(entry, size * outside, size * experts, number, routed, size * hidden * words)


def on_card(load: Load, card: Card, context: int, kept: float, usable: float) -> dict | None:
    """Predicted gains on a card: alone, at the same and at the largest number of requests.

    usable: share of its memory for weights, keys and values. None: not one full request fits.
    """
    room = share("usable", usable) * card.memory - load.resident
    few = kept_entries(context, kept)
    n, many = (admitted(load, entries, max(room, 0)) for entries in (context, few))
    if n < 1:
        return None
    return {
        "requests": n,
        "requests kept": many,
        "alone": gain(load, (1, context), (1, few)),
        "same": gain(load, (n, context), (n, few)),
        "largest": gain(load, (n, context), (many, few)),
        "tokens/s": n * card.bandwidth / step_bytes(load, n, context),
    }
