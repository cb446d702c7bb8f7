"""What must hold of rooms, choices and rows of unequal length."""

import numpy as np
import torch

from repro import minihack
from repro.actkv import study_turns
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import tiny, tokens


def a_seed_fixes_the_level() -> None:
    """The same seed gives the same first picture twice, another seed another one."""
    room = minihack.Room("MiniHack-Room-Random-5x5-v0")
    try:
        first, again, other = (room.reset(seed).chars for seed in (7, 7, 8))
    finally:
        room.close()
    assert (first == again).all(), "one seed, two levels"
    assert (first != other).any(), "two seeds, one level"


def a_move_is_made() -> None:
    """A named move changes the agent's place by that move, or leaves it at a wall."""
    room = minihack.Room("MiniHack-Room-5x5-v0")
    try:
        view, moved = room.reset(3), 0
        for name in ("south", "east", "north", "west"):
            before, (view, _, over) = view.at, room.step(name)
            step = (view.at[0] - before[0], view.at[1] - before[1])
            assert over or step in (minihack.MOVES[name], (0, 0)), f"{name} moved by {step}"
            moved += step == minihack.MOVES[name]
    finally:
        room.close()
    assert moved >= 2, f"{moved} of 4 moves were made"


def choice_by_hand() -> None:
    """log p = (-1, -2), lots (0, 0.6), temperature 2: -0.5 and -0.4, so the second."""
    logp = np.array([[-1.0, -2.0], [-0.1, -9.0]])
    found = study_turns.choose(logp, np.array([0.0, 0.6]), temperature=2)
    assert found.tolist() == [1, 0], f"chose {found.tolist()}"


def unequal_rows_are_read_as_alone() -> None:
    """In one batch every row, short or long, ends in the hidden state that it has alone."""
    rows = [tokens(5)[0].tolist(), tokens(9, seed=1)[0].tolist()]
    with torch.inference_mode():
        both = PagedCache(tiny(), 2)
        study_turns.read(tiny(), both, [rows[1], rows[0]])
        found = study_turns.read(tiny(), both, rows)
        for at, (first, row) in enumerate(zip((rows[1], rows[0]), rows, strict=True)):
            hidden = tiny().base_model(torch.tensor([first + row])).last_hidden_state[0, -1]
            assert torch.allclose(found[at], hidden, atol=1e-4), f"row {at} differs"


CHECKS = {
    check.__name__: check
    for check in (
        a_seed_fixes_the_level,
        a_move_is_made,
        choice_by_hand,
        unequal_rows_are_read_as_alone,
    )
}
