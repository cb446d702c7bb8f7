"""Sizes of a model, and how many parameters they make.

Two styles. "modern" has RoPE, RMSNorm and SwiGLU and no biases; "origin" is the small public
variant: learned positions added once, LayerNorm, GELU with biases, one head. The paper's own
choice is not public, so this is a named argument.
"""

from dataclasses import dataclass

from repro import accept
from repro.errors import BadParameter

STYLES = ("modern", "origin")


@dataclass(frozen=True)
class Config:
    """Sizes of the source model, later the Prefiller.

    width d; layers n_P; heads h_q, kv_heads h_kv (0: as many), head_size d_h (0: d / h_q);
    hidden f of the FFN (0: the multiple of 8 next to 8d/3, or 4d in the origin style); vocab V;
    positions: rows of the learned table, "origin" only. Raises BadParameter for sizes that do not
    fit together.
    """

    width: int = 64
    layers: int = 2
    heads: int = 1
    kv_heads: int = 0
    head_size: int = 0
    hidden: int = 0
    vocab: int = 256
    positions: int = 64
    style: str = "modern"

    def __post_init__(self):
        accept.one_of("style", self.style, STYLES)
        for name in ("width", "layers", "heads", "vocab", "positions"):
            accept.count(name, getattr(self, name))
        for name in ("kv_heads", "head_size", "hidden"):
            accept.count(name, getattr(self, name), least=0)
        if not self.head_size and self.width % self.heads:
            raise BadParameter(
                f"heads={self.heads} is refused; accepted: a divisor of width={self.width}."
            )
        usual = 4 * self.width if self.style == "origin" else max(8, 8 * round(self.width / 3))
        fill = {"kv_heads": self.heads, "head_size": self.width // self.heads, "hidden": usual}
        for name, value in fill.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.heads % self.kv_heads:
            raise BadParameter(
                f"kv_heads={self.kv_heads} is refused; accepted: a divisor of heads={self.heads}."
            )
        if self.style == "modern" and self.head_size % 2:
            raise BadParameter(
                f"head_size={self.head_size} is refused; accepted: an even number, for RoPE."
            )

    @property
    def gated(self) -> int:
        """Matrices of the FFN, g."""
        return 3 if self.style == "modern" else 2

    def block_parameters(self, writes: bool) -> int:
        """Parameters of one block; `writes`: with W_K and W_V, as in the Prefiller."""
        d, reading, written = (
            self.width,
            self.heads * self.head_size,
            self.kv_heads * self.head_size,
        )
        count = 2 * d * reading + 2 * d * written * writes + self.gated * d * self.hidden + 2 * d
        biases = d + self.hidden + 2 * d  # of the FFN and of both norms
        return count + biases * (self.style == "origin")

    def parameters(self, decoder_layers: int = 0) -> int:
        """All parameters, with `decoder_layers` blocks that only read."""
        d, origin = self.width, self.style == "origin"
        shared = 2 * self.vocab * d + d + origin * (d + self.positions * d)
        towers = self.layers * self.block_parameters(True)
        return shared + towers + decoder_layers * self.block_parameters(False)
