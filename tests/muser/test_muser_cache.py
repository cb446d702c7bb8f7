"""MuSeR's user cache in a file: what outlives a process, what staleness costs, bad input."""

import sqlite3

import numpy as np
import pytest
import torch

from repro import intervals
from repro.errors import BadParameter, ReproError
from repro.muser import cache, study_cache, synthetic

EYE = np.eye(2, dtype=np.float32)


@pytest.fixture
def held(tmp_path):
    return cache.connect(tmp_path / "users.sqlite")


def test_entries_outlive_the_process(tmp_path, held):
    held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE))
    assert cache.connect(tmp_path / "users.sqlite").get("ann", "r1").covered == 3
    assert held.get("bob", "r1") is None


def test_a_store_that_cannot_be_used_says_so(tmp_path):
    with pytest.raises(ReproError, match="user cache cannot be"):
        cache.connect(tmp_path / "none" / "users.sqlite")
    (tmp_path / "text").write_text("no database, and long enough to be looked at\n" * 9)
    with pytest.raises(ReproError, match="user cache cannot be used"):
        cache.connect(tmp_path / "text")


def test_a_locked_store_says_so(tmp_path, held):
    other = sqlite3.connect(tmp_path / "users.sqlite", isolation_level=None)
    other.execute("begin immediate")
    held.store._wait = 0.05
    with pytest.raises(ReproError, match="locked"):
        held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE))
    other.close()


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    world = synthetic.world(rng)
    return world, [study_cache.moving(world, rng, 600, 64) for _ in range(30)]


def test_staleness_costs_recall(drawn):
    """By a paired interval; nothing new costs nothing, for every user."""
    world, users = drawn
    queries = 20 * torch.from_numpy(world.topics).float()
    found = study_cache.curve(world, users, queries, [0, 256], 80)
    lost = found["always fresh"] - found["cached"]
    assert not lost[0].any()
    assert intervals.of_mean(lost[1])[0] > 0
    fused = (found["cached and short, fused"] - found["cached"])[1]
    assert intervals.of_mean(fused)[0] > 0


def test_a_count_rule_saves_what_it_says(drawn):
    users = drawn[1][:1]
    for n, saved in ((1, 0.0), (4, 0.75)):
        found = study_cache.served(users, cache.Limits(count=n, age=1e9), 400, 20)
        assert found["saved"] == found["hit"] == saved


def test_a_user_moves_on(drawn):
    world, users = drawn
    for u in users:
        topics = world.topic[u.history]
        assert set(world.topic[u.future]) <= set(topics[-24:])
        assert len(set(topics[:64])) == 2 and (np.diff(u.times) > 0).all()


LIMITS = cache.Limits()
ENTRY = ("ann", "r1", 5.0, 3, 4.0)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda c: cache.Entry("ann", "r1", 5.0, 0, 4.0, EYE), "empty history"),
        (lambda c: cache.Entry("ann", "r1", 5.0, 3, 6.0, EYE), "clock ran backwards"),
        (lambda c: cache.Entry(*ENTRY, EYE[0]), "vectors has shape (2,)"),
        (lambda c: cache.Entry(*ENTRY, EYE * np.nan), "finite"),
        (lambda c: cache.Limits(count=0), "count 1 or more"),
        (lambda c: cache.drift(EYE, np.ones(3)), "short has shape (3,)"),
        (lambda c: cache.drift(EYE, np.zeros(2)), "not zero"),
        (lambda c: cache.age_limit([0.0, 9.0, 8.0]), "times run backwards"),
        (lambda c: cache.order([("a", -1, 0.5)]), "user 'a'"),
        (lambda c: c.lease("ann", "r1", "one", 0.0, 0), "lasts=0"),
        (lambda c: c.read("ann", "r1", 5.0, [], LIMITS), "0 actions"),
        (lambda c: c.read("ann", "r1", 5.0, [4.0, 6.0], LIMITS), "may not end after at=5.0"),
        (lambda c: cache.refresh(c, "ann", "r1", 0.5, [1.0], lambda n: EYE), "empty at 0.5"),
    ],
)
def test_bad_input_names_itself(held, call, says):
    with pytest.raises(BadParameter) as caught:
        call(held)
    assert says in str(caught.value)
