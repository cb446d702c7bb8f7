"""What is kept between forwards: the Prefiller's keys and values, and nothing of the Decoder.

n_P pairs [B, h_kv, slots, d_h]; slot j of a row holds its position j. Rows may hold different
numbers of tokens; what stands in the slots beyond a row's count is never read.
"""

from torch import Tensor

from repro.errors import BadParameter

STEP = 64  # slots by which a full buffer grows, so that decoding does not copy at each token


class Past:
    """Keys and values of `layers` Prefiller layers. Gradients end with the forward that wrote them.

    `rows`: valid tokens of each row. `append` of a later forward writes into the same buffers, so a
    Past that is continued twice is copied first (`copy`).
    """

    def __init__(self, layers: int):
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.rows: list[int] = []
        self._owned = [False] * layers

    def __len__(self) -> int:
        """Tokens of the longest row."""
        return max(self.rows, default=0)

    def layer(self, layer: int, length: int | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `length` slots (all valid ones): views, not copies."""
        length = len(self) if length is None else length
        return self.keys[layer][:, :, :length], self.values[layer][:, :, :length]

    def append(self, layer: int, k: Tensor, v: Tensor, new: list[int]) -> None:
        """Put the first new[b] of k, v [B, h_kv, T, d_h] after row b's tokens.

        `rows` stays as it is until `advance`. Raises BadParameter for another shape than the
        cached one.
        """
        held = self.keys[layer]
        if held is None:
            self.keys[layer], self.values[layer] = k, v
            return
        if (held.shape[0], held.shape[1], held.shape[3]) != (k.shape[0], k.shape[1], k.shape[3]):
            raise BadParameter(
                f"past has keys {list(held.shape)}, the model writes {list(k.shape)}; accepted: "
                "equal batch, KV heads and head size."
            )
        need = max(r + n for r, n in zip(self.rows, new, strict=True))
        self._make_room(layer, need)
        for kept, fresh in ((self.keys[layer], k.detach()), (self.values[layer], v.detach())):
            if len(set(self.rows)) == len(set(new)) == 1:
                kept[:, :, self.rows[0] : self.rows[0] + new[0]] = fresh[:, :, : new[0]]
                continue
            for b, (start, count) in enumerate(zip(self.rows, new, strict=True)):
                kept[b, :, start : start + count] = fresh[b, :, :count]

    def advance(self, new: list[int]) -> None:
        """Count the new tokens, after all layers have written."""
        self.rows = [r + n for r, n in zip(self.rows or [0] * len(new), new, strict=True)]

    def copy(self) -> "Past":
        """One that can be continued on its own."""
        other = Past(len(self.keys))
        other.keys = [k.detach().clone() for k in self.keys]
        other.values = [v.detach().clone() for v in self.values]
        other.rows, other._owned = list(self.rows), [True] * len(self.keys)
        return other

    def bytes(self) -> int:
        """Bytes of the keys and values of all valid tokens."""
        one = [t[0, :, 0] for t in (*self.keys, *self.values)]
        return sum(self.rows) * sum(t.numel() * t.element_size() for t in one)

    def _make_room(self, layer: int, need: int) -> None:
        """A buffer of our own with at least `need` slots, for keys and for values."""
        held = self.keys[layer]
        if self._owned[layer] and held.shape[2] >= need:
            return
        slots = -(-need // STEP) * STEP
        for kept in (self.keys, self.values):
            old = kept[layer].detach()
            buffer = old.new_zeros((*old.shape[:2], max(slots, old.shape[2]), old.shape[3]))
            buffer[:, :, : old.shape[2]] = old
            kept[layer] = buffer
        self._owned[layer] = True
