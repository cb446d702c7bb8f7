"""The Step Scale Transformer: a Prefiller that writes the KV, and a Decoder that only reads it.

Stage 1 is an ordinary language model. `expand` adds the Decoder, once. From then on, with the
equations of the project's notes 3.1 (arXiv 2609.27294, section 2, by public readers),

    z_0 = rms(e) + rms(h_n),      z_l = Block_l(z_{l-1};  K_{pi(l)}, V_{pi(l)}),   j <= t.

The boundary keeps every key and value, bit for bit. It does not keep the logits.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from repro import accept
from repro.errors import BadParameter
from repro.kite import rows
from repro.kite.blocks import KINDS, Block, angles, copy_block, initialise, norm, rms
from repro.kite.config import Config
from repro.kite.past import Past


class SST(nn.Module):
    """Stage 1: the source model. After `expand`: Prefiller and Decoder.

    `layer_map`: for each Decoder layer the Prefiller layer whose KV it reads, 0-based.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        if config.style == "origin":
            self.positions = nn.Embedding(config.positions, config.width)
        self.prefiller = nn.ModuleList(Block(config, writes=True) for _ in range(config.layers))
        self.decoder = nn.ModuleList()
        self.layer_map: tuple[int, ...] = ()
        self.norm = norm(config)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        initialise(self, config)

    def expand(
        self,
        init: str = "copy",
        layer_map: Sequence[int] | None = None,
        width: int = 0,
        hidden: int = 0,
    ) -> None:
        """Add the Decoder: one block for each entry of `layer_map` (identity, equal towers).

        init: "copy" takes norms, W_Q, W_O and FFN of Prefiller layer l for Decoder layer l (of the
        layer read, where the towers differ in depth); W_K and W_V are not copied. "random" draws
        them. width, hidden: sizes of the Decoder (0: the Prefiller's).
        Raises BadParameter for a second expansion and for sizes that do not match.
        """
        refuse_second(self)
        accept.one_of("init", init, ("copy", "random"))
        c, n = self.config, len(self.prefiller)
        chosen = tuple(range(n)) if layer_map is None else tuple(layer_map)
        if not chosen or any(not 0 <= layer < n for layer in chosen):
            raise BadParameter(f"layer_map={chosen} is refused; accepted: layers 0 to {n - 1}.")
        if width not in (0, c.width):
            raise BadParameter(
                f"width={width} is refused; accepted: {c.width}, the Prefiller's: the junction "
                "adds both streams."
            )
        if hidden not in (0, c.hidden) and init == "copy":
            raise BadParameter(
                f"hidden={hidden} is refused; accepted with init='copy': {c.hidden}, as copied."
            )
        shape = Config(**{**c.__dict__, "hidden": hidden or c.hidden})
        origin = range(n) if len(chosen) == n else chosen
        self.decoder = nn.ModuleList(Block(shape, writes=False) for _ in chosen)
        for block, layer in zip(self.decoder, origin, strict=True):
            if init == "copy":
                copy_block(self.prefiller[layer], block)
            else:
                initialise(block, c)
            block.kind = self.prefiller[0].kind
        self.layer_map = chosen
        self.decoder.to(self.embedding.weight.device)

    def forward(
        self,
        tokens: Tensor,
        past: Past | None = None,
        logits_to_keep: int | Tensor | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[Tensor, Past]:
        """Logits and the cache after `tokens` [B, T], padded on the right to their `lengths`.

        logits_to_keep: None runs the Decoder and the head on all T positions (train and score);
        k on the last k valid ones of every row, 0 on none (a chunk that is not the last); an index
        [N, 2] of (row, column) on those. It means the same with a `past` and without.
        Returns logits [B, T, V], [B, k, V] or [N, V]. `past` is continued in place.
        Raises BadParameter for an empty prompt and whatever names no token; `past` stays.
        """
        new = rows.counts(tokens, lengths, past)
        columns, places = _columns(logits_to_keep, new, tokens)  # refused before `past` is touched
        past = Past(len(self.prefiller)) if past is None else past
        if len(past.keys) != len(self.prefiller):
            raise BadParameter(
                f"past has {len(past.keys)} layers; accepted: {len(self.prefiller)}, as the model."
            )
        before = past.rows or [0] * len(new)
        positions = rows.starts(before, tokens.shape[1], tokens.device)
        e = self._embed(tokens, positions)
        h, first = e, not past.rows
        length = tokens.shape[1] if first else max(map(sum, zip(before, new, strict=True)))
        turn, seen = self._turn(positions), _seen(positions, length, first)
        for layer, block in enumerate(self.prefiller):
            past.append(layer, *block.write(h, turn), new)
            h = block.read(h, *past.layer(layer, length), seen, turn)
        past.advance(new)
        if columns is not None:
            if not columns or not columns[0]:
                shape = (0,) if places is not None else (len(new), 0)
                return h.new_zeros((*shape, self.config.vocab)), past
            at = torch.tensor(columns, device=tokens.device)
            e, h = _take(e, at), _take(h, at)
            positions = torch.gather(positions.expand(len(new), -1), 1, at)
            seen = _seen(positions, length, False)
        z = self.decode(e, h, past, length, positions, seen)
        logits = self.head(self.norm(z))
        return (logits if places is None else logits[places[:, 0], places[:, 1]]), past

    def decode(
        self, e: Tensor, h: Tensor, past: Past, length: int, positions: Tensor, seen: Tensor | str
    ) -> Tensor:
        """The second tower: e, h [B, m, d] at positions [B, m] -> z [B, m, d]; stage 1: h."""
        if not self.decoder:
            return h
        z, turn = junction(e, h), self._turn(positions)
        for layer, block in enumerate(self.decoder):
            z = block.read(z, *past.layer(source_layer(self.layer_map, layer), length), seen, turn)
        return z

    def prefiller_parameters(self) -> Iterator[nn.Parameter]:
        """All of the Prefiller's blocks."""
        return self.prefiller.parameters()

    def decoder_parameters(self) -> Iterator[nn.Parameter]:
        """All of the Decoder's blocks; none in stage 1."""
        return self.decoder.parameters()

    def shared_parameters(self) -> Iterator[nn.Parameter]:
        """Embedding, learned positions, final norm and head: of both stages."""
        for part in (self.embedding, getattr(self, "positions", None), self.norm, self.head):
            yield from part.parameters() if part is not None else ()

    def freeze_prefiller(self) -> None:
        """Fix everything that a key or a value depends on: the Prefiller and the embedding."""
        for part in (self.prefiller, self.embedding, getattr(self, "positions", None)):
            if part is not None:
                part.requires_grad_(False)

    def use_attention(self, kind: str) -> "SST":
        """ "fused" or "explicit" attention in all blocks; see `blocks.attend`."""
        accept.one_of("kind", kind, KINDS)
        for block in (*self.prefiller, *self.decoder):
            block.kind = kind
        return self

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        if self.config.style == "modern":
            return self.embedding(tokens)
        limit = self.config.positions
        if int(positions.max()) >= limit:
            raise BadParameter(
                f"position {int(positions.max())} is refused; accepted: below positions={limit}."
            )
        return self.embedding(tokens) + self.positions(positions)

    def _turn(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        return angles(positions, self.config.head_size) if self.config.style == "modern" else None


def junction(e: Tensor, h: Tensor) -> Tensor:
    """z_0 = rms(e) + rms(h): what the Decoder starts from, e and h [B, m, d]."""
    return rms(e) + rms(h)


def source_layer(layer_map: Sequence[int], layer: int) -> int:
    """pi(l): the Prefiller layer whose KV Decoder layer `layer` reads."""
    return layer_map[layer]


def refuse_second(model: SST) -> None:
    """Raises BadParameter when `model` has a Decoder already."""
    if len(model.decoder):
        raise BadParameter("expand() is refused: the model has a Decoder; accepted: one expansion.")


def _columns(
    keep: int | Tensor | None, new: list[int], tokens: Tensor
) -> tuple[list[list[int]] | None, Tensor | None]:
    if keep is None:
        return None, None
    if isinstance(keep, Tensor):
        if keep.ndim != 2 or keep.shape[1] != 2:
            raise BadParameter(
                f"logits_to_keep has shape {list(keep.shape)}; accepted: a number, or [N, 2]."
            )
        columns, places = rows.grid(keep, new)
        return columns, places.to(tokens.device)
    return rows.last(new, accept.count("logits_to_keep", keep, least=0)), None


def _seen(positions: Tensor, length: int, first: bool) -> Tensor | str:
    """What each query may read, in the cheapest form that says it."""
    if first and positions.shape[0] == 1:
        return "causal" if positions.shape[1] > 1 else "all"
    if positions.shape[1] == 1 and bool((positions == length - 1).all()):
        return "all"
    return rows.visible(positions, length)


def _take(x: Tensor, at: Tensor) -> Tensor:
    return torch.gather(x, 1, at[..., None].expand(-1, -1, x.shape[-1]))
