"""Which token came from where: provenance kept from the rollout on, never guessed from ids.

A rollout is a list of pieces, each ids with a kind. Only ``sampled`` ids came out of the policy and
are trained on (1 in the mask of arXiv 2609.30906, loss as in its Eq. 4); prompt, returned documents
and what the chat template inserts (role headers, the line break after a turn) are read and not
trained on. The end-of-turn token is sampled, so it is trained on. One sampled piece is one
assistant turn and carries its number: two turns with nothing between them stay two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter

KINDS = ("prompt", "template", "sampled", "returned")
NO_TURN = -1  # the turn of every token that the policy did not sample


@dataclass(frozen=True)
class Piece:
    """Token ids [n] of one kind; a returned piece may be empty, a sampled one may not."""

    kind: str
    ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One trajectory of S tokens. ids: [S]. turn: [S], assistant turn 0, 1, … or `NO_TURN`.
    kind: [S], index into `KINDS`. lost: assistant turns that did not fit, none when it is whole."""

    ids: np.ndarray
    turn: np.ndarray
    kind: np.ndarray
    lost: tuple[int, ...] = ()

    @property
    def turns(self) -> int:
        """How many assistant turns the row still holds."""
        return int(self.turn.max(initial=NO_TURN)) + 1


@dataclass(frozen=True, eq=False)
class Batch:
    """B rows padded on the right to S. ids, turn: [B, S]. attention: bool [B, S], what may be read;
    it has no holes. trainable: bool [B, S], what is learned from; it has many."""

    ids: np.ndarray
    turn: np.ndarray
    attention: np.ndarray

    @property
    def trainable(self) -> np.ndarray:
        return trainable(self.turn)


def row(pieces: Sequence[Piece]) -> Row:
    """The pieces in order as one row; the ids are kept as they are, nothing is written anew.

    Raises BadParameter for an unknown kind or a sampled piece without a token.
    """
    ids, turn, kind, turns = [], [], [], 0
    for at, piece in enumerate(pieces):
        if piece.kind not in KINDS:
            raise BadParameter(f"pieces[{at}].kind={piece.kind!r} is refused; accepted: {KINDS}.")
        mine = NO_TURN
        if piece.kind == "sampled":
            if not piece.ids:
                raise BadParameter(f"pieces[{at}].ids=() is refused; accepted: 1 or more sampled.")
            mine, turns = turns, turns + 1
        ids += piece.ids
        turn += [mine] * len(piece.ids)
        kind += [KINDS.index(piece.kind)] * len(piece.ids)
    return Row(*(np.array(values, dtype=np.int64) for values in (ids, turn, kind)))


def capped(full: Row, limit: int) -> Row:
    """At most the first `limit` tokens, a cap on the whole trajectory and not on a turn.

    An assistant turn that does not fit whole is dropped, with all that follows, and named in
    `lost`. That is the one mark of a cut: hand it to `Trajectory.without` before credit.
    """
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise BadParameter(f"limit={limit!r} is refused; accepted: an integer >= 1.")
    cut = sorted(set(full.turn[limit:].tolist()) - {NO_TURN})
    end = min(limit, int(np.argmax(full.turn == cut[0]))) if cut else limit
    lost = (*cut, *full.lost)
    return Row(full.ids[:end], full.turn[:end], full.kind[:end], lost)


def trainable(turn: np.ndarray) -> np.ndarray:
    """The mask m: 1 on tokens that the policy sampled. [..., S] -> bool [..., S]."""
    return turn != NO_TURN


def padded(rows: Sequence[Row], pad: int) -> Batch:
    """Rows as one batch. `pad` fills `ids` only; it may be any id, the end-of-turn one as well.

    Raises BadParameter for no rows.
    """
    if not rows:
        raise BadParameter("rows=[] is refused; accepted: one or more.")
    shape = len(rows), max(len(one.ids) for one in rows)
    ids, turn = np.full(shape, pad, np.int64), np.full(shape, NO_TURN, np.int64)
    attention = np.zeros(shape, dtype=bool)
    for b, one in enumerate(rows):
        ids[b, : len(one.ids)], turn[b, : len(one.ids)] = one.ids, one.turn
        attention[b, : len(one.ids)] = True
    return Batch(ids, turn, attention)


def token_advantage(turn: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each turn's value on all of its tokens, 0 elsewhere. [S], [turns] -> [S].

    Raises BadParameter unless turns and values are one to one: a list that is too long or too
    short is a bookkeeping error, and cutting it would move credit to other turns without a word.
    """
    values, turn = np.asarray(values, dtype=float), np.asarray(turn)
    held = np.unique(turn[turn != NO_TURN])
    if not np.array_equal(held, np.arange(len(values))):
        raise BadParameter(
            f"values has {len(values)} entries for the turns {held.tolist()}; "
            "accepted: one for each turn 0, 1, …"
        )
    return np.where(turn == NO_TURN, 0.0, np.append(values, 0.0)[turn])


def batch_advantage(batch: Batch, values: Sequence[np.ndarray]) -> np.ndarray:
    """`token_advantage` of each row with its own values. [B, S]."""
    return np.stack([token_advantage(t, v) for t, v in zip(batch.turn, values, strict=True)])
