"""Sizes and costs of the signal from the layer counts (DeltaS, arXiv 2609.27470; notes, section 4).

Nothing here is measured. The defaults are those of a Qwen3.5-9B-style text stack in `transformers`
5.24: 32 layers, every fourth with full attention.
"""

from dataclasses import dataclass

from repro.errors import BadParameter


@dataclass(frozen=True)
class Stack:
    """Layer counts and head sizes; `body` is the number of parameters without embeddings."""

    linear_layers: int = 24
    attention_layers: int = 8
    value_heads: int = 32
    key_dim: int = 128
    value_dim: int = 128
    kv_heads: int = 4
    kv_dim: int = 256
    body: float = 6.92e9

    @property
    def state_numbers(self) -> int:
        """Numbers of all recurrent states."""
        return self.linear_layers * self.value_heads * self.key_dim * self.value_dim

    def state_bytes(self, size: int = 4) -> int:
        """Bytes of all recurrent states, `size` bytes a number."""
        return size * self.state_numbers

    def kv_bytes(self, tokens: int = 1, size: int = 2) -> int:
        """Bytes of keys and values of `tokens` tokens."""
        return tokens * 2 * self.kv_heads * self.kv_dim * self.attention_layers * size

    def signal_bytes(self) -> int:
        """Traffic of one drift: copy the states (read, write), then read both ends. fp32."""
        return 4 * self.state_bytes()

    def signal_flops(self) -> int:
        """A difference, two squares and two sums a number of the state."""
        return 5 * self.state_numbers

    def forward_flops(self, tokens: int) -> float:
        """Two operations a parameter and token; attention over the cache left out."""
        return 2 * self.body * tokens

    def share(
        self,
        tokens: int,
        bandwidth: float = 3.35e12,
        rate: float = 989e12,
        reached: tuple[float, float] = (0.8, 0.5),
    ) -> float:
        """Time of the signal over time of a forward pass of a chunk of `tokens`.

        bandwidth in bytes/s and rate in FLOP/s are an H100's data sheet; reached: shares of the two
        that are assumed to be used.
        """
        if tokens < 1:
            raise BadParameter(f"tokens={tokens!r} is refused; accepted: at least 1.")
        signal = self.signal_bytes() / (reached[0] * bandwidth)
        return signal / (self.forward_flops(tokens) / (reached[1] * rate))
