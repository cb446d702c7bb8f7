"""Bytes and operations that each primitive must spend, and the time that a device needs at least.

All counts are for one layer; add requests up, or multiply. Both reading and writing count, indices
included. The formulas follow from ActKV's primitives (arXiv 2609.31395, Algorithms 3 and 4).

Symbols: S slots in use, B survivors, c moved rows, A action tokens; H_q query heads, H_k KV heads,
d head dim, b bytes of an element, T slots of a block; ρ = 2 H_k d b, K and V of one slot.
"""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Device:
    """Nominal figures of the data sheet.

    bandwidth: bytes/s of the main memory. tensor: dense bf16 FLOP/s of the tensor cores. fp32:
    FLOP/s of the ordinary cores, which the kernels of this book use. cache: bytes of L2; buffers
    of that size or less can show more than the bandwidth.
    """

    bandwidth: float
    tensor: float
    fp32: float
    cache: float


DEVICES = {
    "A30": Device(0.933e12, 165e12, 10.3e12, 24e6),
    "A100-40": Device(1.555e12, 312e12, 19.5e12, 40e6),
    "A100-80": Device(2.039e12, 312e12, 19.5e12, 40e6),
    "H200": Device(4.8e12, 989e12, 67e12, 50e6),
}


@dataclass(frozen=True)
class Geometry:
    """Attention of one model: query heads, KV heads, head dim, layers, bytes of an element."""

    q_heads: int
    heads: int
    dim: int
    layers: int
    bytes: int = 2

    def __post_init__(self):
        for name in ("q_heads", "heads", "dim", "layers", "bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; accepted: at least 1.")
        if self.q_heads % self.heads:
            raise ValueError(f"q_heads={self.q_heads}; accepted: a multiple of heads={self.heads}.")

    @property
    def row(self) -> int:
        """ρ, bytes of K and V of one slot in one layer."""
        return 2 * self.heads * self.dim * self.bytes

    @property
    def query(self) -> int:
        """Bytes of the query of one token in one layer."""
        return self.q_heads * self.dim * self.bytes


GEOMETRIES = {
    "Qwen3-8B": Geometry(32, 8, 128, 36),
    "Qwen3-30B-A3B": Geometry(32, 4, 128, 48),
    "GPT-OSS-20B": Geometry(64, 8, 64, 24),
    "Qwen3-0.6B": Geometry(16, 8, 128, 28),
}


def decode_attention(slots: int, g: Geometry, block_size: int = 16) -> int:
    """Bytes of one decoded token: keys and values, query and output, block table."""
    return slots * g.row + 2 * g.query + 4 * ceil(slots / block_size)


def split_partials(slots: int, g: Geometry, chunk: int) -> int:
    """Bytes that splitting decode attention adds: fp32 partial results, written and read."""
    return 2 * ceil(slots / chunk) * g.q_heads * 4 * (g.dim + 1)


def score_recovery(slots: int, g: Geometry) -> int:
    """Bytes of one action token: keys, query, log-sum-exp, fp32 mean read and written."""
    return slots * g.row // 2 + g.query + 4 * g.q_heads + 8 * g.heads * slots


def score_recovery_one_pass(slots: int, g: Geometry, actions: int) -> int:
    """Bytes of a whole round over its stored queries: keys once, mean written once."""
    return slots * g.row // 2 + actions * (g.query + 4 * g.q_heads) + 4 * g.heads * slots


def gather_scoring(slots: int, g: Geometry) -> int:
    """Least bytes of scoring by way of a contiguous copy: keys read, written, read again."""
    return 3 * slots * g.row // 2


def compaction(moved: int, g: Geometry) -> int:
    """Bytes of moving c rows in place: read, written, and 16 bytes of index for each."""
    return 2 * moved * g.row + 16 * moved


def gather_compaction(survivors: int, g: Geometry, back: bool = False) -> int:
    """Bytes of collecting B rows in a new buffer (of ``B * row`` bytes), and copying them back."""
    return (4 if back else 2) * survivors * g.row


def expected_moves(slots: int, survivors: int) -> float:
    """Mean c when the survivors are drawn at random from full blocks.

    In any case ``c ≤ min(B, Y T - B)`` with Y = ⌈S/T⌉. (Not S - B: with a last block that is
    partly unused, survivors move into its unused slots too.)
    """
    if not 0 <= survivors <= slots or slots < 1:
        raise ValueError(f"survivors={survivors}; accepted: 0 … slots={slots}, slots at least 1.")
    return survivors * (1 - survivors / slots)


def attention_flops(slots: int, g: Geometry, actions: int = 1, values: bool = False) -> int:
    """Operations of `actions` queries on all slots: q · k, and with `values` also p · v."""
    return (4 if values else 2) * actions * slots * g.q_heads * g.dim


def lower_bound(count: float, device: str, flops: float = 0.0, cores: str = "fp32") -> float:
    """Seconds that `device` needs at least: the longer of moving bytes and of computing.

    cores: ``"fp32"`` or ``"tensor"``, which of the device's rates counts for `flops`.
    """
    if device not in DEVICES:
        raise ValueError(f"device={device!r}; accepted: {', '.join(DEVICES)}.")
    if cores not in ("fp32", "tensor"):
        raise ValueError(f"cores={cores!r}; accepted: 'fp32', 'tensor'.")
    found = DEVICES[device]
    return max(count / found.bandwidth, flops / getattr(found, cores))
