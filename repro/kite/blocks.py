"""The parts of both towers: norm, FFN, rotary positions, attention, and the block itself.

A block of the Prefiller has W_K and W_V. One of the Decoder has not: there is no way for it to
write a key or a value (arXiv 2609.27294, abstract; equations from the project's notes, 3.1).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from repro.kite.config import Config

EPSILON = 1e-5
KINDS = ("fused", "explicit")


def norm(config: Config) -> nn.Module:
    kind = nn.LayerNorm if config.style == "origin" else nn.RMSNorm
    return kind(config.width, eps=EPSILON)


def rms(a: Tensor) -> Tensor:
    """a / sqrt(mean(a^2) + 1e-5) over the last dimension; no parameter."""
    return a * torch.rsqrt(a.square().mean(-1, keepdim=True) + EPSILON)


def angles(positions: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [B, 1, T, size / 2] of rotary positions [B, T]."""
    steps = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32)
    turn = positions[:, None, :, None].float() * 10_000.0 ** (-steps / size)
    return turn.cos(), turn.sin()


def rotate(x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
    """Turn x [B, h, T, d_h] by its positions; None leaves it alone."""
    if turn is None:
        return x
    cos, sin = turn
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | str, kind: str = "fused") -> Tensor:
    """Attention of q [B, h_q, T, d_h] over k, v [B, h_kv, S, d_h] -> [B, h_q, T, d_h].

    visible: "causal" (T = S, j <= t), "all", or booleans [B or 1, 1, T, S].
    kind: "fused" skips the masked half where it can; "explicit" computes the full square by
    matrix products, which a FLOP counter sees.
    """
    if kind == "fused":
        mask = None if isinstance(visible, str) else visible
        causal = isinstance(visible, str) and visible == "causal"
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped
        )
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
    score = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if isinstance(visible, str):
        if visible == "causal":
            square = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device)
            score = score.masked_fill(~square.tril(), -torch.inf)
    else:
        score = score.masked_fill(~visible, -torch.inf)
    return score.softmax(-1) @ v


class FFN(nn.Module):
    """SwiGLU without biases, or GELU with them."""

    def __init__(self, config: Config):
        super().__init__()
        bias, self.gated = config.style == "origin", config.style == "modern"
        self.up = nn.Linear(config.width, config.hidden, bias)
        self.down = nn.Linear(config.hidden, config.width, bias)
        if self.gated:
            self.gate = nn.Linear(config.width, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x) if self.gated else F.gelu(self.up(x)))


class Block(nn.Module):
    """One pre-norm block; with `writes` it owns W_K and W_V, otherwise it only reads."""

    def __init__(self, config: Config, writes: bool):
        super().__init__()
        reading, written = (n * config.head_size for n in (config.heads, config.kv_heads))
        self.config, self.kind = config, "fused"
        self.attention_norm, self.ffn_norm = norm(config), norm(config)
        self.query = nn.Linear(config.width, reading, bias=False)
        self.out = nn.Linear(reading, config.width, bias=False)
        if writes:
            self.key = nn.Linear(config.width, written, bias=False)
            self.value = nn.Linear(config.width, written, bias=False)
        self.ffn = FFN(config)

    def write(self, h: Tensor, turn: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Keys, turned, and values [B, h_kv, T, d_h] of the stream h [B, T, d]."""
        u = self.attention_norm(h)
        return rotate(self._split(self.key(u)), turn), self._split(self.value(u))

    def read(
        self,
        z: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Tensor | str,
        turn: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """The stream z [B, T, d] after attention to k, v [B, h_kv, S, d_h] and the FFN."""
        q = rotate(self._split(self.query(self.attention_norm(z))), turn)
        seen = attend(q, k, v, visible, self.kind)
        z = z + self.out(seen.transpose(1, 2).flatten(2))
        return z + self.ffn(self.ffn_norm(z))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.config.head_size)).transpose(1, 2)


def copy_block(source: Block, target: Block) -> None:
    """Values of norms, W_Q, W_O and FFN, as new parameters."""
    held = source.state_dict()
    target.load_state_dict({name: held[name] for name in target.state_dict()})


def initialise(module: nn.Module, config: Config) -> None:
    """Modern: matrices of standard deviation 1/sqrt(fan in), embedding 1, head small."""
    if config.style == "origin":
        return  # PyTorch's own, as nothing else is known of that variant
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear):
            scale = 0.02 if name == "head" else part.in_features**-0.5
            nn.init.normal_(part.weight, std=scale)
