"""A small hybrid: gated-delta layers around one full-attention layer, for streams of vectors.

The notes' section 9: small enough to be trained here, with everything a Qwen3.5 layer stack has
that matters to DeltaS (arXiv 2609.27470): convolution over q, k, v, decay and write gates, rotary
positions on a part of the head, query and key norms, an output gate. Shapes: B sequences, T new
tokens, F features, D width, H heads.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from repro.deltas import delta
from repro.deltas.memory import Attended, Linear, Memory, Pass

KERNEL = 4  # of the convolution, as in Qwen3.5


def rotate(x: Tensor, positions: Tensor, part: int, base: float = 1e4) -> Tensor:
    """Rotary positions on the first `part` numbers of a head. x [B, H, T, d], positions [B, T]."""
    rate = base ** (-torch.arange(0, part, 2, device=x.device) / part)
    angle = (positions[..., None] * rate)[:, None]
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., : part // 2], x[..., part // 2 : part]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, x[..., part:]], -1)


class DeltaLayer(nn.Module):
    """Gated delta rule with convolution; head size `dim` for keys and values."""

    def __init__(self, width: int, heads: int, dim: int):
        super().__init__()
        self.heads, self.dim = heads, dim
        inner = heads * dim
        self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.conv = nn.Parameter(torch.randn(3 * inner, 1, KERNEL) * 0.3)
        self.gates = nn.Linear(width, 2 * heads)  # decay and write gate
        self.rate = nn.Parameter(torch.linspace(-4, 0, heads))  # A_log: slow heads and fast ones
        self.z = nn.Linear(width, inner, bias=False)
        self.norm = nn.RMSNorm(dim, eps=1e-6)
        self.out = nn.Linear(inner, width, bias=False)

    def start(self, batch: int, device) -> Linear:
        """Empty state of `batch` sequences."""
        state = torch.zeros(batch, self.heads, self.dim, self.dim, device=device)
        return Linear(state, torch.zeros(batch, len(self.conv), KERNEL - 1, device=device))

    def forward(self, x: Tensor, held: Linear, real: Tensor | None) -> tuple[Tensor, tuple]:
        """x [B, T, D], real [B, T] (False at padding, to the left) -> [B, T, D], gates seen.

        Updates `held` in place. At padding the input of the convolution is zero, nothing decays
        and nothing is written.
        """
        if real is not None:
            x = x * real[..., None]
        mixed = torch.cat([held.conv.to(x), self.qkv(x).transpose(1, 2)], -1)
        out = F.silu(F.conv1d(mixed, self.conv, groups=len(self.conv))).transpose(1, 2)
        q, k, v = out.unflatten(-1, (3, self.heads, self.dim)).unbind(2)
        a, b = self.gates(x).unflatten(-1, (2, self.heads)).unbind(2)
        log_decay, beta = -self.rate.exp() * F.softplus(a), b.sigmoid()
        if real is not None:
            log_decay, beta = log_decay * real[..., None], beta * real[..., None]
        out, state, committed = delta.chunked(q, k, v, log_decay, beta, held.state)
        held.replace(state, mixed[..., -(KERNEL - 1) :])
        out = self.norm(out).flatten(-2) * F.silu(self.z(x))
        return self.out(out), (log_decay, committed)


class AttentionLayer(nn.Module):
    """Full attention over kept entries and the new tokens; rotary on `part` of the head."""

    def __init__(self, width: int, heads: int, dim: int, part: int):
        super().__init__()
        self.heads, self.dim, self.part = heads, dim, part
        self.qkv = nn.Linear(width, 3 * heads * dim, bias=False)
        self.gate = nn.Linear(width, heads * dim, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(dim, eps=1e-6) for _ in "qk")
        self.scale = nn.Parameter(torch.tensor(2 * dim**-0.5))
        with torch.no_grad():  # like attends to like at the start: recall is then learned sooner
            self.qkv.weight[heads * dim : 2 * heads * dim] = self.qkv.weight[: heads * dim]
        self.out = nn.Linear(heads * dim, width, bias=False)

    def start(self, batch: int, device) -> Attended:
        empty = torch.zeros(batch, self.heads, 0, self.dim, device=device)
        return Attended(empty, empty)

    def forward(self, x: Tensor, held: Attended, positions: Tensor, real: Tensor | None) -> Tensor:
        """x [B, T, D], positions [B, T], real [B, kept + T] or None. Appends to `held`."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.dim)).permute(2, 0, 3, 1, 4)
        q, k = (
            rotate(norm(y), positions, self.part)
            for norm, y in zip(self.norms, (q, k), strict=True)
        )
        held.append(k, v)
        seen, new = held.keys.shape[2], x.shape[1]
        allowed = torch.ones(new, seen, dtype=torch.bool, device=x.device).tril(seen - new)
        if real is not None:  # a pad sees itself, so that no row of the softmax is empty
            itself = torch.eye(new, seen, dtype=torch.bool, device=x.device).roll(seen - new, 1)
            allowed = ((allowed & real[:, None]) | itself)[:, None]
        q = q * self.scale
        held.asked = (q.detach(), allowed)
        out = F.scaled_dot_product_attention(
            q, held.keys, held.values, attn_mask=allowed, scale=1.0
        )
        return self.out(out.transpose(1, 2).flatten(-2) * self.gate(x).sigmoid())


class SmallHybrid(nn.Module):
    """Layers delta, attention, delta over vectors [B, T, F]; answers are classes.

    `open(batch)` gives a `Memory`; `memory.forward(...)` reads the next chunk.
    """

    token_inputs = False

    def __init__(
        self,
        features: int = 32,
        classes: int = 16,
        width: int = 48,
        heads: int = 3,
        dim: int = 8,
        layers: str = "dad",
    ):
        super().__init__()
        if set(layers) - {"d", "a"} or not {"d", "a"} <= set(layers):
            raise ValueError(f"layers={layers!r} is refused; accepted: 'd' and 'a', both present.")
        self.embed = nn.Linear(features, width)
        self.kinds = layers
        self.mixers = nn.ModuleList(
            DeltaLayer(width, heads, dim) if kind == "d" else AttentionLayer(width, 4, 16, 4)
            for kind in layers
        )
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-6) for _ in layers)
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.RMSNorm(width, eps=1e-6),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )
            for _ in layers
        )
        self.head = nn.Sequential(nn.RMSNorm(width, eps=1e-6), nn.Linear(width, classes))

    def open(self, batch: int = 1) -> Memory:
        """An empty memory for `batch` streams."""
        device = self.embed.weight.device
        return Memory(self, [mixer.start(batch, device) for mixer in self.mixers])

    def step(self, memory: Memory, inputs: Tensor, positions: Tensor, real: Tensor | None) -> Pass:
        """Read inputs [B, T, F] at positions [B, T] (or [axes, B, T]: the first axis counts)."""
        if positions.ndim == 3:
            positions = positions[0]
        x, gates = self.embed(inputs), []
        new = real[:, -inputs.shape[1] :] if real is not None else None
        for kind, mixer, norm, mlp, held in zip(
            self.kinds, self.mixers, self.norms, self.mlps, memory.layers, strict=True
        ):
            if kind == "d":
                y, seen = mixer(norm(x), held, new)
                gates.append(seen)
            else:
                y = mixer(norm(x), held, positions, real)
            x = x + y
            x = x + mlp(x)
        return Pass(self.head(x), *map(list, zip(*gates, strict=True)))
