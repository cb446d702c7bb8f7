"""Which positions the Decoder and the head run on: an index of rows, never "the last column".

Serving engines mix prompts and single tokens in one batch, of different lengths. What is needed
is the last row of each prompt and every decoded row (vllm PR 19719, notes 11.4).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.kite.past import Past


def starts(rows: Sequence[int], new: int, device: torch.device) -> Tensor:
    """Absolute positions [B or 1, T] of `new` tokens after rows with so many valid tokens.

    The position is the number of valid Prefiller tokens of that row, not the padded width.
    """
    distinct = rows[:1] if len(set(rows)) == 1 else rows
    return torch.tensor(distinct, device=device)[:, None] + torch.arange(new, device=device)


def visible(positions: Tensor, length: int) -> Tensor:
    """Whether the query at positions [B, T] sees slot j < length: j <= t, its own included."""
    return (torch.arange(length, device=positions.device) <= positions[..., None])[:, None]


def last(new: Sequence[int], keep: int) -> list[list[int]]:
    """The last `keep` valid columns of every row. Raises BadParameter where a row has fewer."""
    if keep > min(new):
        raise BadParameter(
            f"logits_to_keep={keep} is refused; accepted: 0 to {min(new)}, the new tokens of the "
            "shortest row."
        )
    return [list(range(n - keep, n)) for n in new]


def grid(index: Tensor, new: Sequence[int]) -> tuple[list[list[int]], Tensor]:
    """An index [N, 2] of (row, column) as padded columns a row, and where each entry went [N, 2].

    No cached key is copied: a row's entries share its cache. Raises BadParameter for an entry that
    names no new token.
    """
    columns: list[list[int]] = [[] for _ in new]
    places = []
    for row, column in index.tolist():
        if not (0 <= row < len(new) and 0 <= column < new[row]):
            raise BadParameter(
                f"logits_to_keep holds ({row}, {column}); accepted: a row below {len(new)} and one "
                f"of its new tokens, {list(new)}."
            )
        places.append((row, len(columns[row])))
        columns[row].append(column)
    most = max(map(len, columns), default=0)
    padded = [row + [row[-1] if row else 0] * (most - len(row)) for row in columns]
    return padded, torch.tensor(places, dtype=torch.long).reshape(-1, 2)


def needed(new: Sequence[int], decoding: Sequence[bool]) -> Tensor:
    """The index [N, 2] of a mixed batch: all tokens of decoding rows, the last one of prompts."""
    rows = [
        (b, t)
        for b, (n, all_) in enumerate(zip(new, decoding, strict=True))
        for t in range(0 if all_ else n - 1, n)
    ]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 2)


def padded(index: Tensor, sizes: Sequence[int]) -> Tensor:
    """`index` [N, 2], its last entry repeated to the next of the captured `sizes`."""
    fitting = [size for size in sorted(sizes) if size >= len(index)]
    if not len(index) or not fitting:
        raise BadParameter(
            f"index has {len(index)} entries; accepted: 1 to {max(sizes, default=0)}."
        )
    return torch.cat([index, index[-1:].expand(fitting[0] - len(index), -1)])


def counts(tokens: Tensor, lengths: Sequence[int] | None, past: Past | None) -> list[int]:
    """Valid new tokens of each row. Raises BadParameter for an empty prompt or too long a row."""
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise BadParameter(
            f"tokens has shape {list(tokens.shape)}; accepted: [B, T], none of them 0: an empty "
            "prompt has no position to predict from."
        )
    new = [tokens.shape[1]] * len(tokens) if lengths is None else [int(n) for n in lengths]
    known = past.rows if past is not None and past.rows else [0] * len(new)
    if len(new) != len(tokens) or len(known) != len(tokens):
        raise BadParameter(
            f"lengths={new} with a past of {len(known)} rows is refused; accepted: one a row of "
            f"tokens, {len(tokens)}."
        )
    for row, (n, held) in enumerate(zip(new, known, strict=True)):
        accept.count(f"lengths[{row}]", n, least=0 if held else 1)
        if n > tokens.shape[1]:
            raise BadParameter(
                f"lengths[{row}]={n} is refused; accepted: at most {tokens.shape[1]}."
            )
    return new
