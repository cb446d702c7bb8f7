"""MuSeR's user cache on both back ends: invariants, concurrent and killed writers, no server."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from cache_backends import Server, never_finishes, program

from repro import faults
from repro.errors import BadParameter, ReproError
from repro.muser import cache, cache_checks, store_redis, study_cache, synthetic
from repro.muser.cache_faults import FAULTS

EYE = np.eye(2, dtype=np.float32)
LIMITS = cache.Limits()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    pytest.importorskip("redis", reason="the package redis is not installed")
    if program() is None:
        pytest.skip("no redis-server on this machine: apt-get install redis-server")
    running = Server(tmp_path_factory.mktemp("redis"))
    yield running
    running.kill()


@pytest.fixture
def redis_url(server):
    store_redis.RedisStore(server.url)._client.flushall()
    return server.url


@pytest.fixture(params=["sqlite", "redis"])
def where(request, tmp_path):
    """A file or a URL; every `cache.connect(where)` reaches the same empty store."""
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return str(tmp_path / "users.sqlite")


def together(*work):
    """Start all at the same moment, and wait; what goes wrong in one of them is raised."""
    start = threading.Barrier(len(work))
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(lambda w=w: (start.wait(), w())) for w in work]:
            done.result()


@pytest.fixture
def on_redis(redis_url, monkeypatch):
    count = iter(range(1_000))

    @contextmanager
    def fresh():
        yield cache.UserCache(store_redis.RedisStore(redis_url, prefix=f"check{next(count)}"))

    monkeypatch.setattr(cache_checks, "fresh", fresh)


@pytest.mark.parametrize("name", cache_checks.CHECKS)
def test_invariant_on_redis(on_redis, name):
    cache_checks.CHECKS[name]()


def test_every_fault_is_caught_on_redis(on_redis):
    caught = faults.audit(FAULTS, cache_checks.CHECKS)
    assert all(caught.values()), caught


def test_two_refreshers_leave_one_consistent_entry(where):
    """Forty writes over two connections: the entry that covers most stays, whole."""

    def writes(name, counts):
        held = cache.connect(where)

        def work():
            for n in counts:
                vectors = np.full((3, 4), n, np.float32)
                held.put(cache.Entry("ann", "r1", float(n), n, float(n), vectors, name))

        return work

    together(writes("one", range(1, 41, 2)), writes("two", range(40, 1, -2)))
    kept = cache.connect(where).get("ann", "r1")
    assert (kept.covered, kept.writer) == (40, "two") and (kept.vectors == 40).all()


def test_one_of_two_claims_wins(where):
    computed, times = [], np.array([1.0])

    def claims(name):
        held = cache.connect(where)
        return lambda: cache.refresh(
            held, "ann", "r1", 5.0, times, lambda n: computed.append(name) or EYE, name
        )

    together(claims("one"), claims("two"))
    assert len(computed) == 1
    assert cache.connect(where).get("ann", "r1").writer == computed[0]


def test_a_change_sees_what_another_wrote_meanwhile(redis_url):
    """The second client writes between read and write of the first, which then reads again."""
    one, two = (store_redis.RedisStore(redis_url) for _ in range(2))
    seen = []

    def step(value):
        seen.append(value)
        if len(seen) == 1:
            two.change("entry", "ann", "r1", lambda _: b"theirs")
        return (value or b"") + b" and mine"

    assert one.change("entry", "ann", "r1", step)
    assert seen == [None, b"theirs"] and two.load("entry", "ann", "r1") == b"theirs and mine"


def test_a_killed_refresher_leaves_the_entry_before_it(where):
    held = cache.connect(where)
    held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE, "first"))
    spawn = multiprocessing.get_context("spawn")
    wrote = spawn.Event()
    worker = spawn.Process(target=never_finishes, args=(where, wrote))
    worker.start()
    try:
        assert wrote.wait(120)
        assert held.get("ann", "r1").covered == 3  # what is not made to hold is not seen
        os.kill(worker.pid, signal.SIGKILL)
    finally:
        worker.kill()
        worker.join(30)
    assert held.get("ann", "r1").covered == 3 and held.get("ann", "r1").writer == "first"
    time.sleep(0.25)  # the claim of the killed one runs out
    times = np.array([1.0, 2, 3, 4, 6])
    assert cache.refresh(held, "ann", "r1", 7.0, times, lambda n: n * EYE, "next")
    assert held.get("ann", "r1").covered == 5 and held.get("ann", "r1").vectors[0, 0] == 5


def test_entries_are_bit_for_bit_the_same_on_both(tmp_path, redis_url):
    rng = np.random.default_rng(0)
    entry = cache.Entry("a:b", "r:1", 0.1 + 0.2, 7, 0.1, rng.random((3, 5), "f4"), "wör\n")
    for place in (tmp_path / "users.sqlite", redis_url):
        held = cache.connect(place)
        assert held.put(entry) and held.get("a:b:r", "1") is None
        back = held.get("a:b", "r:1")
        assert (back.made, back.newest, back.writer) == (entry.made, entry.newest, entry.writer)
        assert back.vectors.tobytes() == entry.vectors.tobytes()
        assert held.store.revisions("a:b") == {"r:1"} and not held.store.revisions("a")


def test_a_claim_does_not_stay_on_the_server(redis_url):
    store = store_redis.RedisStore(redis_url)
    cache.UserCache(store).lease("ann", "r1", "one", time.time(), 0.1)
    assert store.load("lease", "ann", "r1")
    time.sleep(0.3)
    assert store.load("lease", "ann", "r1") is None


def test_a_server_that_is_gone_says_so_or_degrades(tmp_path_factory, server):
    """A clear error; on request a marked record; after a restart, the entry from before."""
    own = Server(tmp_path_factory.mktemp("gone"))
    try:
        held = cache.connect(own.url)
        held.put(cache.Entry("ann", "r1", 5.0, 3, 4.0, EYE))
        own.kill()
        place = f"Redis at 127.0.0.1:{own.port} cannot be reached"
        for call in (
            lambda: held.put(cache.Entry("ann", "r1", 6.0, 4, 5.0, EYE)),
            lambda: held.lease("ann", "r1", "one", 0.0),
            lambda: held.read("ann", "r1", 5.0, [1.0, 2.0, 4.0], LIMITS),
        ):
            with pytest.raises(cache.Unreachable, match=place):
                call()
        got = held.read("ann", "r1", 5.0, [1.0, 2.0, 4.0], LIMITS, degrade=True)
        assert (got.state, got.reasons, got.entry) == ("degraded", ("unreachable",), None)
        own.start()
        got = held.read("ann", "r1", 5.0, [1.0, 2.0, 4.0], LIMITS, degrade=True)
        assert got.state == "fresh" and got.entry.covered == 3
    finally:
        own.kill()


def test_a_server_that_keeps_silent_is_unreachable_soon():
    pytest.importorskip("redis", reason="the package redis is not installed")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        held = cache.connect(f"redis://user:secret@127.0.0.1:{silent.getsockname()[1]}/0", 0.2)
        began = time.monotonic()
        with pytest.raises(cache.Unreachable) as caught:
            held.get("ann", "r1")
        assert time.monotonic() - began < 5 and "secret" not in str(caught.value)


def test_a_server_that_refuses_is_an_error_also_when_degrading(redis_url):
    """Bytes of another kind under the key are no outage."""
    held = cache.connect(redis_url)
    held.store._client.lpush(held.store._key("entry", "ann", "r1"), "x")
    with pytest.raises(ReproError, match="on Redis cannot be used"):
        held.read("ann", "r1", 5.0, [1.0], LIMITS, degrade=True)


def test_a_url_that_is_none_names_what_is_accepted():
    pytest.importorskip("redis", reason="the package redis is not installed")
    with pytest.raises(BadParameter, match="redis://host:port"):
        cache.connect("http://127.0.0.1:1/")


def test_without_the_package_redis_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ReproError, match="pip install redis"):
        cache.connect("redis://127.0.0.1:1/0")


def test_a_count_rule_saves_the_same_on_redis(server):
    rng = np.random.default_rng(0)
    users = [study_cache.moving(synthetic.world(rng), rng, 450, 64)]
    limits = cache.Limits(count=4, age=1e9)
    for _ in range(2):  # a server that still holds a run before
        found = study_cache.served(users, limits, 400, 20, server.port)
        assert found == study_cache.served(users, limits, 400, 20)
