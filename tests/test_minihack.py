"""MiniHack rooms on the real engine."""

import builtins

import numpy as np
import pytest

from repro import minihack
from repro.errors import BadParameter, MissingAsset


@pytest.fixture(scope="module")
def room():
    made = minihack.Room("MiniHack-Room-Random-5x5-v0", most=4)
    yield made
    made.close()


def test_a_level_is_its_seed(room):
    first, again, other = room.reset(3), room.reset(3), room.reset(4)
    assert (first.chars == again.chars).all() and first.at == again.at
    assert first.at != other.at or (first.chars != other.chars).any()


def test_a_view_is_a_copy(room):
    view = room.reset(3)
    kept = view.chars.copy()
    for name in ("south", "east"):
        room.step(name)
    assert (view.chars == kept).all()


def test_an_episode_ends_when_it_has_to(room):
    room.reset(3)
    ends = [room.step("north" if turn % 2 else "south")[2] for turn in range(4)]
    assert ends == [False, False, False, True]


def test_bad_input_is_named(room):
    with pytest.raises(BadParameter, match="seed=0 is refused"):
        room.reset(0)
    with pytest.raises(BadParameter, match="action='up' is not known; accepted: .*north"):
        room.step("up")
    with pytest.raises(BadParameter, match="environment='MiniHack-Nothing-v0' is not known"):
        minihack.Room("MiniHack-Nothing-v0")


def test_without_the_engine_the_way_to_get_it_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith(("nle", "minihack")):
            raise ImportError("no", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingAsset, match="pip install nle==1.3.0 minihack==1.0.2"):
        minihack.Room()


def view(stairs=None):
    chars = np.full((21, 79), ord(" "))
    chars[5:8, 5:8] = ord(".")
    chars[6, 6] = ord("@")
    if stairs:
        chars[stairs] = ord(">")
    return minihack.View(chars, (6, 6), "")


def test_a_view_in_words():
    text = view(stairs=(5, 7)).text(reach=1)
    assert text.splitlines() == [
        "You are at row 6, column 6.",
        "Stairs: 1 north and 1 east.",
        "Next to you: north floor, east floor, south floor, west floor.",
        "Map:",
        ". . >",
        ". @ .",
        ". . .",
    ]
    assert "Stairs" not in view().text() and view().toward() == []
    assert view(stairs=(5, 7)).toward() == ["north", "east"]
    assert view(stairs=(6, 5)).toward() == ["west"]
    assert "west stairs" in view(stairs=(6, 5)).text()
