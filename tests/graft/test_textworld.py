"""GRAFT on TextWorld: the toy's checks and faults, bad input, and one real game where it can be."""

import importlib.util
import sys

import numpy as np
import pytest

from repro import faults
from repro.errors import BadParameter, MissingAsset, ReproError
from repro.graft import graph, study_textworld, textworld
from repro.graft.textworld_checks import CHECKS, Toy
from repro.graft.textworld_faults import FAULTS

needs_games = pytest.mark.skipif(
    importlib.util.find_spec("textworld") is None, reason="the package textworld is not installed"
)


@pytest.mark.parametrize("name", CHECKS)
def test_check(name):
    CHECKS[name]()


def test_every_fault_is_caught():
    caught = faults.audit(FAULTS, CHECKS)
    assert all(caught.values()), caught


@pytest.fixture(scope="module")
def toy():
    return study_textworld.task(textworld.explore(Toy(), "toy"), d=64)


def test_a_state_that_shows_two_texts_is_refused():
    class Odd(Toy):
        def _state(self):
            return {**super()._state(), "inventory": f"shown {self._takes}"}

        def reset(self):
            self._takes += 1
            return super().reset()

    with pytest.raises(ReproError, match="one state shows two texts"):
        textworld.explore(Odd())


def test_a_large_game_is_refused():
    with pytest.raises(ReproError, match="not explored after 2 commands"):
        textworld.explore(Toy(), most=2)


def test_a_lost_game_offers_nothing():
    state = {**Toy().reset(), "lost": True}
    assert textworld.offered(state) == () and textworld.offered({**state, "lost": False})


def test_features_are_those_of_the_text(toy):
    """Equal texts and commands have equal rows, of length 1; another text changes them."""
    assert np.allclose(np.linalg.norm(toy.features, axis=1), 1)
    twice = textworld.Game(
        "two", ("a lamp", "a lamp", "no lamp"), ("",) * 3, (("go up",),) * 3, ((1,), (2,), (0,)),
        np.zeros(3, bool),
    )  # fmt: skip
    rows = study_textworld.task(twice, 64).features
    assert (rows[0] == rows[1]).all() and (rows[0] != rows[2]).any()


def test_policy_sums_to_one_in_each_state(toy):
    p = study_textworld.policy(toy, np.random.default_rng(0).normal(size=64))
    sums = [p[a:b].sum() for a, b in zip(toy.first, toy.first[1:], strict=False) if a < b]
    assert np.allclose(sums, 1)


def test_arms_are_not_the_same_signal(toy):
    """Else a comparison of them would be empty."""
    group, _ = study_textworld.rollouts(toy, np.zeros(64), 12, 6, np.random.default_rng(0))
    built = graph.build(group, phi=toy.nodes("text"))
    signals = [study_textworld.ARMS[arm](built) for arm in study_textworld.ARMS]
    for i, one in enumerate(signals):
        assert all(np.abs(one - other).max() > 1e-3 for other in signals[:i])


def test_learning_is_a_function_of_the_seed(toy):
    one, same, other = (
        study_textworld.learn([toy], "GRAFT", s, 5.0, updates=4, size=4, horizon=5)
        for s in (0, 0, 1)
    )
    assert (one == same).all() and (one != other).any()


SMALL = {"seed": 1, "rooms": 2, "objects": 3, "quest": 3}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    env = textworld.play(textworld.make(tmp_path_factory.mktemp("games"), **SMALL))
    return env, textworld.explore(env, "game")


@needs_games
def test_a_real_game_is_its_table(real, tmp_path):
    """Made offline, explored, walked again; a second making is the same game."""
    env, game = real
    compared, equal = textworld.agrees(env, game, 10, 10)
    assert compared == equal > 20 and game.won.any()
    again = textworld.explore(textworld.play(textworld.make(tmp_path, **SMALL)), "game")
    assert again.text == game.text and again.after == game.after


@needs_games
def test_a_real_game_is_learned(real):
    """No policy wins in fewer commands than the shortest solution; two arms learn to win."""
    made = study_textworld.task(real[1])
    zero = np.zeros(made.features.shape[1])
    assert study_textworld.success(made, zero, 2) == 0 < study_textworld.success(made, zero, 3)
    for arm in ("outcome (GRPO)", "GRAFT"):
        curve = study_textworld.learn([made], arm, 0, 30.0, updates=30, horizon=6)
        assert curve[0] < 0.5 and curve[-1] > 0.8


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda t: textworld.make("x", 1, rooms=0), "rooms=0"),
        (lambda t: textworld.make("x", 1, quest=0), "quest=0"),
        (lambda t: t.nodes("words"), "nodes='words'"),
        (lambda t: study_textworld.task(t.game, 4), "d=4"),
        (lambda t: study_textworld.learn([t], "best", 0, 1.0), "arm='best'"),
        (lambda t: study_textworld.learn([t], "GRAFT", 0, 1.0, size=1), "size=1"),
        (lambda t: study_textworld.learn([t], "GRAFT", 0, 1.0, horizon=0), "horizon=0"),
        (lambda t: study_textworld.learn([t], "GRAFT", 0, float("nan")), "rate=nan"),
        (lambda t: study_textworld.learn([], "GRAFT", 0, 1.0), "0 tasks"),
        (lambda t: study_textworld.learn([t], "GRAFT", 0, 1.0, nodes="x"), "nodes='x'"),
    ],
)
def test_bad_input_names_itself(toy, call, says):
    with pytest.raises(BadParameter) as caught:
        call(toy)
    assert says in str(caught.value)


def test_without_the_package_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(MissingAsset, match="pip install"):
        textworld.make(tmp_path, 1)
