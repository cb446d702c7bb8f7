"""The model's own turns, with a tiny random model and a room without an engine."""

import numpy as np
import pytest

from repro import digest, notebooks
from repro.actkv import study_arms, study_turns
from repro.actkv.cache_checks import LAYERS, tiny
from repro.actkv.study_turns import Episode
from repro.actkv.turns_faults import FAULTS
from repro.minihack import View

TEMPERATURE = 2.0


class Words:
    """A tokenizer: one token a move name, else one a character."""

    names = ("north", "east", "south", "west")

    def __call__(self, text, add_special_tokens):
        ids = []
        while text:
            name = next((n for n in self.names if text.startswith(n)), text[0])
            text = text[len(name) :]
            ids.append(1 + self.names.index(name) if name in self.names else 5 + ord(name) % 55)
        return {"input_ids": ids}


class Corridor:
    """A room without an engine: the stairs are three squares east; the level shifts the row."""

    actions = Words.names

    def reset(self, seed):
        self.row, self.column = 2 + seed % 3, 2
        return self._view()

    def step(self, name):
        self.column += {"east": 1, "west": -1}.get(name, 0)
        return self._view(), float(self.column == 5), self.column == 5

    def _view(self):
        chars = np.full((8, 9), ord("."))
        chars[self.row, 5] = ord(">")
        return View(chars, (self.row, self.column), "")


def play(arms, rounds=5, budget=10**6, path=None, noise=None):
    made = study_arms.build(arms, LAYERS, 1, 4, 0)
    if noise is None:
        noise = np.random.default_rng(0).gumbel(size=(rounds, 4))
    protected = len(Words()(prefix(), add_special_tokens=False)["input_ids"])
    for policy in made.values():
        policy.protected = protected
        for state in getattr(policy, "state", []):
            state.protected = protected
    return study_turns.play(
        tiny(), Words(), list(made.values()), [Corridor() for _ in arms], 1, noise, budget, 60,
        TEMPERATURE, path,
    )  # fmt: skip


def prefix():
    named = study_turns.SYSTEM.format(names=", ".join(Words.names))
    return f"<|im_start|>system\n{named}<|im_end|>\n"


def test_arms_with_room_for_all_play_alike():
    full, acting, lot = play(["fullkv", "actkv", "random"])
    for other in (acting, lot):
        assert full.same(other).all() and full.together(other) == 5
        np.testing.assert_allclose(other.logp, full.logp, atol=1e-4)
        assert other.divergence(full) == pytest.approx(0, abs=1e-5)
    assert full.peak == full.length and full.share == 1
    np.testing.assert_allclose(np.exp(full.logp).sum(1), 1, atol=1e-5)


def test_what_is_evicted_is_felt_and_the_budget_holds():
    full, acting, streaming = play(["fullkv", "actkv", "streaming"], budget=40)
    for other in (acting, streaming):
        assert np.abs(other.logp - full.logp).max() > 1e-4 and other.peak < full.peak
        assert other.divergence(full) > 0
    assert acting.logp[0] == pytest.approx(full.logp[0], abs=1e-4)  # nothing is gone yet


def test_the_peak_is_the_most_that_was_cached_after_any_reading(monkeypatch):
    held, real = [], study_turns.read

    def read(model, cache, rows):
        found = real(model, cache, rows)
        held.append(cache.physical)
        return found

    monkeypatch.setattr(study_turns, "read", read)
    streaming, acting = play(["streaming", "actkv"], budget=40)
    assert (streaming.peak, acting.peak) == tuple(np.max(held, axis=0))


def test_on_a_given_path_the_moves_are_made_whatever_is_chosen():
    walked = play(["fullkv"], path=[1, 1, 1, 3, 3])[0]
    assert walked.solved == 1  # three steps east
    assert walked.toward.tolist() == (walked.choices == 1).tolist()  # the stairs lie east
    stuck = play(["fullkv"], path=[3, 3, 3, 3, 3])[0]
    assert stuck.solved == 0


def test_noise_decides_where_probabilities_do_not():
    noise = np.zeros((3, 4))
    noise[np.arange(3), [2, 0, 3]] = 100.0
    assert play(["fullkv"], noise=noise)[0].choices.tolist() == [2, 0, 3]


def test_names_of_several_tokens_are_refused():
    with pytest.raises(ValueError, match="moves .'northeast'. are several tokens"):
        study_turns.move_ids(Words(), ["north", "northeast"])


def test_what_two_episodes_say():
    flat = np.log(np.full((3, 2), 0.5))
    one = Episode(np.array([0, 1, 0]), flat, np.zeros(3), 0, 30, 50, 10)
    other = Episode(np.array([0, 0, 0]), flat, np.zeros(3), 0, 50, 50, 10)
    assert one.together(other) == 1 and one.same(other).tolist() == [True, False, True]
    assert one.likeliest.tolist() == [0, 0, 0]
    assert one.share == 0.5 and one.divergence(other) == 0


def test_notebook_rests_on_rooms_and_policies():
    notebook = notebooks.read("actkv/agent_turns")
    assert notebook.assets == ("smollm2-135m",) and len(FAULTS) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert {"repro.minihack", "repro.actkv.policies.actkv"} <= set(modules)
