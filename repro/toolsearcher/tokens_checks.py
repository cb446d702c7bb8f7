"""What must hold of `repro.toolsearcher.tokens`: provenance, turns, caps, padding.

A rollout is written down by hand, so that every expected value can be counted on it. Sources: the
project's notes on arXiv 2609.30906, sections 3 and 7.2. Everything is reached through the module.
"""

import numpy as np
import torch

from repro.toolsearcher import tokens
from repro.toolsearcher.tokens import Piece

END = 2  # the end-of-turn id, and the padding id as well


def pieces(returned: tuple[int, ...] = (5, END, 6), second: tuple[int, ...] = ()) -> list[Piece]:
    """A rollout of two searches and an answer; `returned` and `second` are what came back."""
    head, close = Piece("template", (7, 8)), Piece("template", (9,))
    return [
        Piece("prompt", (1, 3, 1)),
        *(head, Piece("sampled", (11, 12, END)), close, Piece("returned", returned)),
        *(head, Piece("sampled", (13, END)), close, Piece("returned", second)),
        *(head, Piece("sampled", (14, 15, 16, END))),
    ]


VALUES = np.array([0.5, 0.0, -1.0])  # one advantage a turn


def near(found, expected, what: str, atol: float = 1e-9) -> None:
    found, expected = (torch.as_tensor(v, dtype=torch.float64) for v in (found, expected))
    same = found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=atol)
    assert same, f"{what}: {found.tolist()} != {expected.tolist()}"


def mask_is_what_was_sampled() -> None:
    """The mask holds the sampled tokens, end of turn included, and nothing else."""
    row = tokens.row(pieces())
    wanted = [0] * 5 + [1, 1, 1] + [0] * 6 + [1, 1] + [0] * 3 + [1, 1, 1, 1]
    near(tokens.trainable(row.turn), wanted, "mask")
    assert row.ids.tolist() == [i for p in pieces() for i in p.ids], "ids are not those sampled"


def turns_keep_their_number() -> None:
    """Two turns with nothing between them stay two; returned text ends no turn's credit."""
    together = tokens.row([Piece("sampled", (4, 5)), Piece("sampled", (6,))])
    near(tokens.token_advantage(together.turn, [1.0, 2.0]), [1, 1, 2], "adjacent turns")
    for length in (0, 1, 50):
        row = tokens.row(pieces((5,) * length))
        given = tokens.token_advantage(row.turn, VALUES)
        near(given[row.turn == 0], [0.5] * 3, f"turn 1 before {length} returned tokens")
        near(given[row.turn == 2], [-1] * 4, f"the answer after {length} returned tokens")


def turns_and_values_are_one_to_one() -> None:
    """Too few or too many values for the turns of a row are refused."""
    row = tokens.row(pieces())
    for values in (VALUES[:2], np.append(VALUES, 1.0)):
        try:
            tokens.token_advantage(row.turn, values)
        except ValueError:
            continue
        raise AssertionError(f"{len(values)} values for 3 turns were taken")


def a_cap_drops_whole_turns_and_says_so() -> None:
    """A trajectory over its cap keeps turns and values aligned, and names what is lost."""
    full = tokens.row(pieces())
    for limit, kept, length in ((23, 3, 23), (22, 2, 19), (15, 1, 14), (6, 0, 5), (2, 0, 2)):
        cut = tokens.capped(full, limit)
        assert cut.lost == tuple(range(kept, 3)), f"lost at {limit}: {cut.lost}"
        assert len(cut.ids) == length, f"tokens at {limit}: {len(cut.ids)}"
        given = tokens.token_advantage(cut.turn, VALUES[:kept])
        whole = tokens.token_advantage(full.turn, VALUES)[:length]
        near(given, whole, f"advantages at {limit}")


def padding_and_mask_are_kept_apart() -> None:
    """Pad and end of turn share an id: no sampled or returned one is taken for padding."""
    batch = tokens.padded([tokens.row(pieces()), tokens.row([Piece("sampled", (END,))])], pad=END)
    near(batch.attention.sum(1), [23, 1], "tokens that may be read")
    near(batch.trainable.sum(1), [9, 1], "tokens trained on")


CHECKS = {
    check.__name__: check
    for check in (
        mask_is_what_was_sampled,
        turns_keep_their_number,
        turns_and_values_are_one_to_one,
        a_cap_drops_whole_turns_and_says_so,
        padding_and_mask_are_kept_apart,
    )
}
