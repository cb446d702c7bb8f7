"""What a hybrid model remembers of a stream: KV entries that can go, and states that cannot.

`Memory` is what `repro.deltas.runner` works with; `repro.deltas.adapter` gives a `transformers`
model the same five methods. Shapes: B streams, S cached entries, H heads.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class Pass:
    """What one chunk of T tokens gave.

    logits [B, T, classes]; a list entry a linear layer: log_decay [B, T, H], and committed, the
    written residual beta * |e| [B, T, H]. None where the model does not show its gates.
    """

    logits: Tensor
    log_decay: list[Tensor] | None = None
    committed: list[Tensor] | None = None


@dataclass
class Linear:
    """A linear layer: recurrent state [B, H, d_k, d_v] and the last inputs of the convolution."""

    state: Tensor
    conv: Tensor

    def replace(self, state: Tensor, conv: Tensor) -> None:
        """Update in place where no gradient is wanted, as `transformers` does."""
        if state.requires_grad:
            self.state, self.conv = state, conv
        else:
            self.state.copy_(state)
            self.conv.copy_(conv)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.state, self.conv

    def restore(self, saved: tuple[Tensor, ...]) -> None:
        self.replace(*saved)


@dataclass
class Attended:
    """A full-attention layer: keys, already rotated, and values, both [B, H, S, d]."""

    keys: Tensor
    values: Tensor
    asked: tuple[Tensor, Tensor] | None = None  # the newest scaled queries, and what they may see

    def probabilities(self) -> Tensor:
        queries, allowed = self.asked
        logits = queries @ self.keys.transpose(-1, -2)
        return logits.masked_fill(~allowed, -torch.inf).softmax(-1)

    def append(self, keys: Tensor, values: Tensor) -> None:
        self.keys = torch.cat([self.keys, keys], 2)
        self.values = torch.cat([self.values, values], 2)

    def keep(self, index: Tensor) -> None:
        """Keep the entries `index` [B, kept], in that order."""
        at = index[:, None, :, None].expand(-1, self.keys.shape[1], -1, self.keys.shape[3])
        self.keys, self.values = self.keys.gather(2, at), self.values.gather(2, at)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.keys, self.values

    def restore(self, saved: tuple[Tensor, ...]) -> None:
        self.keys, self.values = (x.clone() for x in saved)


class Memory:
    """The layers of B streams, in order; `model` reads chunks into them."""

    def __init__(self, model: Any, layers: list[Linear | Attended]):
        self.model, self.layers = model, layers

    def forward(self, inputs: Tensor, positions: Tensor, real: Tensor | None = None) -> Pass:
        """Read a chunk. positions [B, T] or [axes, B, T]; real [B, S + T], False where unseen."""
        return self.model.step(self, inputs, positions, real)

    def states(self) -> list[Tensor]:
        """The live recurrent states, [B, H, d_k, d_v] a linear layer. They change in place."""
        return [held.state for held in self.layers if isinstance(held, Linear)]

    def attended(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of every full-attention layer."""
        return [(h.keys, h.values) for h in self.layers if isinstance(h, Attended)]

    def attention(self) -> list[Tensor]:
        """Probabilities [B, H, T, S + T] of the newest chunk, an attention layer each."""
        return [h.probabilities() for h in self.layers if isinstance(h, Attended)]

    def keep(self, index: Tensor) -> None:
        """Gather the entries `index` [B, kept] in every full-attention layer alike."""
        for held in self.layers:
            if isinstance(held, Attended):
                held.keep(index)

    def snapshot(self) -> list[tuple[Tensor, ...]]:
        """Copies of everything: cropping alone cannot take back a recurrent update."""
        return [tuple(x.detach().clone() for x in held.tensors()) for held in self.layers]

    def restore(self, saved: list[tuple[Tensor, ...]]) -> None:
        for held, copy in zip(self.layers, saved, strict=True):
            held.restore(copy)
