"""The user cache: long-term interests, when to compute them again, and who may write.

Source: arXiv 2609.23677 reports an asynchronous refresh with adaptive caching; triggers, lifetimes
and order are our specification (project's notes, section 4). One entry a pair of user and model
revision. Times are seconds. Rules are here; bytes lie in a store, which can do three things: load
a value, change one in one go, and list a user's revisions (`store_sqlite`, `store_redis`).
"""

import heapq
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repro.errors import BadParameter
from repro.muser.cache_entry import Damaged, Entry, pack, unpack
from repro.muser.store_redis import RedisStore, Unreachable
from repro.muser.store_sqlite import SqliteStore


@dataclass(frozen=True)
class Limits:
    """Refresh at `count` new actions, `age` seconds (see `age_limit`), or this `drift`."""

    count: int = 50
    age: float = 86_400.0
    drift: float = 0.5

    def __post_init__(self):
        if self.count < 1 or not self.age > 0 or not 0 <= self.drift <= 2:
            raise BadParameter(f"{self}; accepted: count 1 or more, age above 0, drift 0 to 2.")


@dataclass(frozen=True, eq=False)
class Read:
    """The response record: `reasons` is empty for a fresh entry; `entry` is None without one."""

    entry: Entry | None
    reasons: tuple[str, ...]
    new: int
    age: float

    @property
    def state(self) -> str:
        """``fresh``, ``stale`` (served, and marked), ``miss``, or ``degraded`` (no store)."""
        if self.entry is None:
            return "degraded" if "unreachable" in self.reasons else "miss"
        return "stale" if self.reasons else "fresh"


def drift(long: np.ndarray, short: np.ndarray) -> float:
    """1 - max_m cos(u_S, u_L_m) for cached [M, d] and one fresh vector [d]."""
    if long.shape[1:] != short.shape or not np.linalg.norm(short) > 0:
        raise BadParameter(f"short has shape {short.shape}; accepted: {long.shape[1:]}, not zero.")
    cos = long @ short / (np.linalg.norm(long, axis=1) * np.linalg.norm(short))
    return float(1 - cos.max())


def age_limit(
    times: Sequence[float], factor: float = 4.0, least: float = 3_600.0, most: float = 604_800.0
) -> float:
    """Adaptive time to live: `factor` times the median gap between sessions, within bounds.

    A session ends with half an hour without an action. Who has one session so far gets `most`.
    """
    gaps = np.diff(np.asarray(times, dtype=float))
    if (gaps < 0).any():
        raise BadParameter("times run backwards; accepted: times that never fall.")
    apart = gaps[gaps > 1_800]
    return float(np.clip(factor * np.median(apart), least, most)) if len(apart) else most


def due(
    entry: Entry, at: float, actions: int, limits: Limits, short: np.ndarray | None = None
) -> tuple[str, ...]:
    """Which triggers fire at time `at` for a user with `actions` actions so far."""
    found = []
    if actions - entry.covered >= limits.count:
        found.append("count")
    if at - entry.made >= limits.age:
        found.append("age")
    if short is not None and actions > entry.covered and drift(entry.vectors, short) > limits.drift:
        found.append("drift")
    return tuple(found)


def order(waiting: Iterable[tuple[str, float, float]]) -> list[str]:
    """Users by (expected requests until the next refresh) x drift, largest first; then by name."""
    heap = []
    for user, requests, moved in waiting:
        if not (requests >= 0 and moved >= 0):
            raise BadParameter(f"user {user!r} has {requests} x {moved}; accepted: both 0 or more.")
        heapq.heappush(heap, (-requests * moved, user))
    return [heapq.heappop(heap)[1] for _ in range(len(heap))]


def connect(where: Path | str, wait: float | None = None) -> "UserCache":
    """The cache on Redis for a URL (``redis://``, ``rediss://``, ``unix://``), else in a file."""
    given = {} if wait is None else {"wait": wait}
    if isinstance(where, str) and "://" in where:
        return UserCache(RedisStore(where, **given))
    return UserCache(SqliteStore(where, **given))


class UserCache:
    """The rules of the cache over the bytes of a store."""

    def __init__(self, store: SqliteStore | RedisStore):
        self.store = store

    def get(self, user: str, revision: str) -> Entry | None:
        """The entry of this very revision, checked against its hash; None where there is none."""
        value = self.store.load("entry", user, revision)
        return None if value is None else unpack(user, revision, value)

    def put(self, entry: Entry) -> bool:
        """Keep `entry` unless one that covers more, or as much and later, is there already.

        A damaged entry is replaced.
        """

        def step(value: bytes | None) -> bytes | None:
            try:
                held = value and unpack(entry.user, entry.revision, value)
            except Damaged:
                held = None
            if held and (held.covered, held.made) >= (entry.covered, entry.made):
                return None
            return pack(entry)

        return self.store.change("entry", entry.user, entry.revision, step)

    def lease(self, user: str, revision: str, owner: str, now: float, lasts: float = 60.0) -> bool:
        """Claim a refresh. False while another owner's claim lasts; a killed owner's runs out.

        A claim from `lasts` or more in the future was made before the clock went back, and is over.
        """
        if not lasts > 0:
            raise BadParameter(f"lasts={lasts} is refused; accepted: above 0 seconds.")

        def step(value: bytes | None) -> bytes | None:
            if value is not None:
                holder, since, length = json.loads(value)
                if holder != owner and abs(now - since) < length:
                    return None
            return json.dumps([owner, now, lasts]).encode()

        return self.store.change("lease", user, revision, step, 2 * lasts)

    def read(
        self,
        user: str,
        revision: str,
        at: float,
        times: np.ndarray,
        limits: Limits,
        short: np.ndarray | None = None,
        degrade: bool = False,
    ) -> Read:
        """What may be served at time `at` to a user with actions at `times` [L], all up to `at`.

        An entry of another revision is a miss, and so is one that holds an action later than `at`.
        degrade: answer with a record marked ``degraded`` where the store cannot be reached,
        instead of raising `Unreachable`. A store that answers wrongly is an error always.
        """
        times = np.asarray(times, dtype=float)
        if not len(times) or times[-1] > at:
            raise BadParameter(
                f"times has {len(times)} actions and may not end after at={at}; accepted: one or "
                "more, none later than the request."
            )
        try:
            entry = self.get(user, revision)
            others = entry is None and self.store.revisions(user)
        except Unreachable:
            if not degrade:
                raise
            return Read(None, ("unreachable",), len(times), 0.0)
        if entry is None:
            return Read(None, ("revision" if others else "absent",), len(times), 0.0)
        if entry.made > at or entry.newest > at or entry.covered > len(times):
            return Read(None, ("from the future",), len(times), 0.0)
        reasons = due(entry, at, len(times), limits, short)
        return Read(entry, reasons, len(times) - entry.covered, at - entry.made)


def refresh(
    cache: UserCache,
    user: str,
    revision: str,
    at: float,
    times: Sequence[float],
    compute: Callable[[int], np.ndarray],
    owner: str = "worker",
    lasts: float = 60.0,
) -> bool:
    """Claim, compute from the actions up to `at` only, and write; False where another has it.

    compute: number of actions n -> vectors [M, d] from the first n. times: [L] seconds.
    """
    seen = int(np.searchsorted(np.asarray(times, dtype=float), at, side="right"))
    if not seen:
        raise BadParameter(f"history of user {user!r} is empty at {at}; accepted: one action.")
    if not cache.lease(user, revision, owner, time.time(), lasts):
        return False
    vectors = np.asarray(compute(seen))
    return cache.put(Entry(user, revision, at, seen, float(times[seen - 1]), vectors, owner))
