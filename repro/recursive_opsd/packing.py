"""Answers and batches by length. No mask is ever made from token values.

SmolLM2's pad token *is* its end token (id 2). A mask "everything that is not pad" would hide the
end of every answer from the loss, and the model would never learn to stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter


@dataclass(frozen=True)
class Answer:
    """Sampled ids up to and including the first end token; `ended`: whether there is one."""

    ids: tuple[int, ...]
    ended: bool

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Packed:
    """A batch: ids, mask, positions [B, L]; first [B]: where the first answer token is predicted.

    Answer token j of row b is scored by the logits at first[b] + j: the last prefix token scores
    the first answer token, in each sequence by its own offset.
    """

    ids: Tensor
    mask: Tensor
    positions: Tensor
    first: tuple[int, ...]
    lengths: tuple[int, ...]


def keep(generated: Sequence[int], ends: Sequence[int]) -> Answer:
    """The answer in a generated row: the first end token belongs to it, what follows does not."""
    for at, token in enumerate(generated):
        if token in ends:
            return Answer(tuple(generated[: at + 1]), True)
    return Answer(tuple(generated), False)


def length_mask(lengths: Sequence[int], width: int, side: str = "right") -> Tensor:
    """[B, width], 1 on the real tokens; padding lies on the `side`."""
    accept.one_of("side", side, ("right", "left"))
    at = torch.arange(width)[None]
    sizes = torch.tensor(list(lengths), dtype=torch.long)[:, None]
    return (at < sizes if side == "right" else at >= width - sizes).long()


def pack(
    prefixes: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    pad: int,
    side: str = "right",
) -> Packed:
    """Each prefix with its answer appended, padded to one width on the `side`.

    Raises BadParameter for an empty prefix (nothing would score the first token) or other counts.
    """
    if not prefixes or len(prefixes) != len(answers):
        raise BadParameter(
            f"{len(prefixes)} prefixes and {len(answers)} answers are refused; accepted: as many."
        )
    if any(not len(prefix) for prefix in prefixes):
        raise BadParameter("an empty prefix is refused; accepted: at least one token.")
    rows = [[*prefix, *answer] for prefix, answer in zip(prefixes, answers, strict=True)]
    width = max(map(len, rows))
    mask = length_mask([len(row) for row in rows], width, side)
    filled = [row + [pad] * (width - len(row)) for row in rows]
    if side == "left":
        filled = [[pad] * (width - len(row)) + row for row in rows]
    shift = [0 if side == "right" else width - len(row) for row in rows]
    return Packed(
        ids=torch.tensor(filled),
        mask=mask,
        positions=(mask.cumsum(1) - 1).clamp(min=0),
        first=tuple(s + len(prefix) - 1 for s, prefix in zip(shift, prefixes, strict=True)),
        lengths=tuple(len(answer) for answer in answers),
    )


def within(
    prefixes: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], context: int
) -> tuple[list[int], int]:
    """Indices whose prefix and answer fit into `context` tokens, and how many do not.

    An example that does not fit is dropped and counted. It is never cut: a cut from the left would
    take the problem away first.
    """
    accept.count("context", context)
    sizes = [len(p) + len(a) for p, a in zip(prefixes, answers, strict=True)]
    fits = [at for at, size in enumerate(sizes) if size <= context]
    return fits, len(sizes) - len(fits)
