"""MuSeR's user cache: invariants, two concurrent refreshers, a killed one, bad input."""

import multiprocessing
import os
import signal
import sqlite3
import threading
import time

import numpy as np
import pytest
import torch

from repro import intervals
from repro.errors import BadParameter, ReproError
from repro.muser import cache, study_cache, synthetic

EYE = np.eye(2, dtype=np.float32)


@pytest.fixture
def held(tmp_path):
    return cache.SqliteCache(tmp_path / "users.sqlite")


def test_two_refreshers_leave_one_consistent_entry(held):
    """Forty writes from two threads: the entry that covers most stays, whole."""
    start = threading.Barrier(2)

    def work(name, counts):
        start.wait()
        for n in counts:
            vectors = np.full((3, 4), n, np.float32)
            held.put(cache.Entry("ann", "r1", float(n), n, float(n), vectors, name))

    threads = [
        threading.Thread(target=work, args=("one", range(1, 41, 2))),
        threading.Thread(target=work, args=("two", range(40, 1, -2))),
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    kept = held.get("ann", "r1")
    assert (kept.covered, kept.writer) == (40, "two") and (kept.vectors == 40).all()


def test_one_of_two_claims_wins(held):
    computed, start = [], threading.Barrier(2)

    def work(name):
        start.wait()
        cache.refresh(
            held, "ann", "r1", 5.0, np.array([1.0]), lambda n: computed.append(name) or EYE, name
        )

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(computed) == 1 and held.get("ann", "r1").writer == computed[0]


def _half_written(path, wrote):
    """Claims, writes without committing, and waits to be killed."""
    held = cache.SqliteCache(path)
    held.lease("ann", "r1", "killed", time.time(), 0.2)
    with held._writing() as db:
        db.execute("update users set covered = 99, vectors = x'00'")
        wrote.set()
        time.sleep(60)


def test_a_killed_refresher_leaves_the_entry_before_it(tmp_path, held):
    held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE, "first"))
    spawn = multiprocessing.get_context("spawn")
    wrote = spawn.Event()
    worker = spawn.Process(target=_half_written, args=(tmp_path / "users.sqlite", wrote))
    worker.start()
    try:
        assert wrote.wait(120)
        assert held.get("ann", "r1").covered == 3  # what is not committed is not seen
        os.kill(worker.pid, signal.SIGKILL)
    finally:
        worker.kill()
        worker.join(30)
    assert held.get("ann", "r1").covered == 3 and held.get("ann", "r1").writer == "first"
    time.sleep(0.25)  # the claim of the killed one runs out
    times = np.array([1.0, 2, 3, 4, 6])
    assert cache.refresh(held, "ann", "r1", 7.0, times, lambda n: n * EYE, "next")
    assert held.get("ann", "r1").covered == 5 and held.get("ann", "r1").vectors[0, 0] == 5


def test_entries_outlive_the_process(tmp_path, held):
    held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE))
    assert cache.SqliteCache(tmp_path / "users.sqlite").get("ann", "r1").covered == 3
    assert held.get("bob", "r1") is None


def test_a_store_that_cannot_be_used_says_so(tmp_path):
    with pytest.raises(ReproError, match="user cache cannot be"):
        cache.SqliteCache(tmp_path / "none" / "users.sqlite")
    (tmp_path / "text").write_text("no database, and long enough to be looked at\n" * 9)
    with pytest.raises(ReproError, match="user cache cannot be used"):
        cache.SqliteCache(tmp_path / "text")


def test_a_locked_store_says_so(tmp_path, held):
    other = sqlite3.connect(tmp_path / "users.sqlite", isolation_level=None)
    other.execute("begin immediate")
    quick = cache.SqliteCache.__new__(cache.SqliteCache)
    quick._path, quick._wait = str(tmp_path / "users.sqlite"), 0.05
    with pytest.raises(ReproError, match="locked"):
        quick.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE))
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
