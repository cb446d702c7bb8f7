"""The invariants (a) to (f) of the project's notes, section 4, and the triggers, by hand.

Each check works on a cache of its own, here in a file; the tests put Redis into the place of
`fresh`. Everything is reached through its module, so that a planted fault is seen. Concurrent and
killed writers are in the tests.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from repro.errors import ReproError
from repro.muser import cache, compression, interests

LIMITS = cache.Limits(count=3, age=100.0, drift=0.5)
EYE = np.eye(2, dtype=np.float32)


def _entry(made=10.0, covered=2, newest=9.0, vectors=EYE, revision="r1") -> cache.Entry:
    return cache.Entry("ann", revision, made, covered, newest, vectors)


@contextmanager
def fresh() -> Iterator[cache.UserCache]:
    """An empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        yield cache.connect(Path(folder) / "users.sqlite")


def _with(use) -> None:
    with fresh() as held:
        use(held)


def triggers_by_hand() -> None:
    """Three new actions, 100 seconds, or a fresh vector 60 degrees off: each fires, alone."""
    e, far = _entry(), np.array([-1.0, 0.1])
    for at, actions, short, expected in (
        (11.0, 4, EYE[0], ()), (11.0, 5, EYE[0], ("count",)), (110.0, 2, None, ("age",)),
        (109.9, 4, None, ()), (11.0, 3, far, ("drift",)), (11.0, 2, far, ()),
    ):  # fmt: skip
        found = cache.due(e, at, actions, LIMITS, short)
        assert found == expected, f"at {at} with {actions} actions: {found} != {expected}"


def drift_by_hand() -> None:
    """At 45 degrees to the nearest of two cached vectors the drift is 1 - sqrt(1/2)."""
    found = cache.drift(EYE, np.array([2.0, 2.0]))
    assert abs(found - (1 - 0.5**0.5)) < 1e-9, f"drift {found}"


def lifetime_by_hand() -> None:
    """Sessions 2 and 6 hours apart: the median, 4 hours, times 4; one session: the most."""
    hours = 3_600 * np.array([0, 0.1, 2.1, 8.1])
    found = cache.age_limit(hours)
    assert abs(found - 16 * 3_600) < 1e-6, f"{found} seconds"
    assert cache.age_limit([0.0, 60.0]) == 604_800.0, "one session"


def order_by_hand() -> None:
    """9 requests x drift 0.1 come after 2 x 0.8, and before 5 x 0."""
    found = cache.order([("a", 9, 0.1), ("b", 2, 0.8), ("c", 5, 0.0)])
    assert found == ["b", "a", "c"], f"order {found}"


def a_nothing_new_changes_no_bit() -> None:
    """(a) With no new action, cached and fresh interests fuse to the same bits, much later too."""
    draw = torch.Generator().manual_seed(0)
    long, short = (torch.randn(4, 6, generator=draw) for _ in range(2))
    w = torch.randn(14, generator=draw)

    def use(held):
        held.put(cache.Entry("ann", "r1", 10.0, 2, 9.0, long.numpy()))
        back = held.read("ann", "r1", 90.0, np.array([8.0, 9.0]), LIMITS)
        kept = torch.from_numpy(back.entry.vectors.copy())
        age = max(0.0, 9.0 - back.entry.newest)
        assert torch.equal(
            interests.fuse(kept, short, age, back.new, w), interests.fuse(long, short, 0.0, 0, w)
        ), "the cached answer differs"

    _with(use)


def b_update_equals_recompute() -> None:
    """(b) Blocks kept from before, and the new ones, equal the full computation."""
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    old, new = (compression.plan(n, 20, 128, align="absolute") for n in (280, 300))
    part = compression.extend(x, new, old, compression.pool(x[:280], old))
    assert torch.allclose(part, compression.pool(x, new), atol=1e-12, rtol=0), "blocks differ"


def c_revisions_never_mix() -> None:
    """(c) A request under another revision finds nothing, and both live side by side."""

    def use(held):
        held.put(_entry())
        found = held.read("ann", "r2", 11.0, np.array([8.0, 9.0]), LIMITS)
        assert found.state == "miss", f"revision r2 was served {found.entry}"
        assert found.reasons == ("revision",), f"reasons {found.reasons}"
        nobody = held.read("bob", "r2", 11.0, np.array([8.0]), LIMITS)
        assert nobody.reasons == ("absent",), f"reasons {nobody.reasons}"
        held.put(_entry(vectors=2 * EYE, revision="r2"))
        for revision, scale in (("r1", 1), ("r2", 2)):
            kept = held.get("ann", revision)
            assert kept and kept.revision == revision and kept.vectors[0, 0] == scale, "mixed"

    _with(use)


def d_stale_reads_are_marked() -> None:
    """(d) An entry past a trigger is served with state ``stale`` and its reasons."""

    def use(held):
        held.put(_entry())
        found = held.read("ann", "r1", 200.0, np.array([8.0, 9, 20, 30, 40]), LIMITS)
        assert found.state == "stale", f"state {found.state}"
        assert found.reasons == ("count", "age") and found.new == 3, f"{found}"

    _with(use)


def e_the_entry_that_knows_more_stays() -> None:
    """(e) A slow refresher that saw less cannot overwrite one that saw more."""

    def use(held):
        held.put(_entry(made=20.0, covered=5, newest=19.0, vectors=2 * EYE))
        assert not held.put(_entry()), "the older result was accepted"
        assert held.get("ann", "r1").covered == 5, "the newer entry is gone"
        assert held.lease("ann", "r1", "one", 0.0) and not held.lease("ann", "r1", "two", 59.0)
        assert held.lease("ann", "r1", "two", 60.0), "a claim never runs out"

    _with(use)


def f_no_action_of_the_future() -> None:
    """(f) A refresh at time t reads actions up to t only, and t sees no entry made later."""
    times = np.arange(1.0, 11.0)
    seen = []

    def use(held):
        cache.refresh(held, "ann", "r1", 6.5, times, lambda n: seen.append(n) or EYE)
        assert seen == [6], f"the computation saw {seen} actions"
        assert held.get("ann", "r1").newest <= 6.5, "an action of the future is in the cache"
        found = held.read("ann", "r1", 4.0, times[:4], LIMITS)
        assert found.state == "miss" and found.reasons == ("from the future",), f"{found}"

    _with(use)


def a_clock_that_goes_back_does_no_harm() -> None:
    """A claim from far ahead is over; an entry from ahead is no answer; an earlier write stays."""

    def use(held):
        assert held.lease("ann", "r1", "one", 1_000.0)
        assert not held.lease("ann", "r1", "two", 990.0), "a claim of ten seconds ahead is over"
        assert held.lease("ann", "r1", "two", 10.0), "a claim from ahead blocks until then"
        held.put(_entry(made=1_000.0, vectors=2 * EYE))
        found = held.read("ann", "r1", 10.0, np.array([8.0, 9.0]), LIMITS)
        assert found.reasons == ("from the future",) and found.age >= 0, f"{found}"
        assert not held.put(_entry(made=10.0)), "the same actions, written earlier, won"

    _with(use)


def damage_is_seen() -> None:
    """An entry with one changed bit, or under another's key, is refused; a refresh replaces it."""

    def use(held):
        held.put(_entry())
        kept = held.store.load("entry", "ann", "r1")
        held.store.change("entry", "bob", "r1", lambda _: kept)
        held.store.change("entry", "ann", "r1", lambda v: v[:-1] + bytes([v[-1] ^ 1]))
        for user in ("ann", "bob"):
            try:
                held.get(user, "r1")
            except ReproError as error:
                assert "damaged" in str(error)
            else:
                raise AssertionError(f"a changed entry was served to {user}")
        assert held.put(_entry()) and held.get("ann", "r1").covered == 2, "not replaced"

    _with(use)


CHECKS = {
    check.__name__: check
    for check in (
        triggers_by_hand, drift_by_hand, lifetime_by_hand, order_by_hand,
        a_nothing_new_changes_no_bit, b_update_equals_recompute, c_revisions_never_mix,
        d_stale_reads_are_marked, e_the_entry_that_knows_more_stays, f_no_action_of_the_future,
        a_clock_that_goes_back_does_no_harm, damage_is_seen,
    )
}  # fmt: skip
