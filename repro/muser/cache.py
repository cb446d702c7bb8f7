"""The user cache: long-term interests, when to compute them again, and who may write.

Source: arXiv 2609.23677 reports an asynchronous refresh with adaptive caching; triggers, lifetimes
and order are our specification (project's notes, section 4). One entry a pair of user and model
revision. Times are seconds. This back end is one SQLite file; every write is one transaction, so a
process that is killed leaves the entry before it.
"""

import hashlib
import heapq
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repro.errors import BadParameter, ReproError

SCHEMA = """
create table if not exists users (
  user text, revision text, made real, covered integer, newest real, m integer, d integer,
  vectors blob, sha256 text, writer text, primary key (user, revision));
create table if not exists leases (
  user text, revision text, owner text, until real, primary key (user, revision));
"""


@dataclass(frozen=True, eq=False)
class Entry:
    """U^L [M, d] float32 of the first `covered` actions, the newest at `newest`; made at `made`."""

    user: str
    revision: str
    made: float
    covered: int
    newest: float
    vectors: np.ndarray
    writer: str = ""

    def __post_init__(self):
        if self.vectors.ndim != 2 or not np.isfinite(self.vectors).all():
            raise BadParameter(f"vectors has shape {self.vectors.shape}; accepted: [M, d], finite.")
        if self.covered < 1:
            raise BadParameter(f"covered={self.covered}: an empty history; accepted: 1 or more.")
        if not self.newest <= self.made:
            raise BadParameter(
                f"newest={self.newest} lies after made={self.made}: the clock ran backwards, or an "
                "action of the future got in; accepted: newest <= made."
            )


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
    """The response record: `reasons` is empty for a fresh entry; `entry` is None for a miss."""

    entry: Entry | None
    reasons: tuple[str, ...]
    new: int
    age: float

    @property
    def state(self) -> str:
        """``fresh``, ``stale`` (served, and marked) or ``miss``."""
        return "miss" if self.entry is None else "stale" if self.reasons else "fresh"


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


class SqliteCache:
    """The cache in the file `path`, shared by threads and processes."""

    def __init__(self, path: Path | str, wait: float = 10.0):
        self._path, self._wait = str(path), wait
        with self._open() as db:
            db.executescript(SCHEMA)

    @contextmanager
    def _open(self):
        try:
            db = sqlite3.connect(self._path, timeout=self._wait, isolation_level=None)
        except sqlite3.Error as error:
            raise ReproError(f"The user cache cannot be opened ({error}).") from error
        try:
            yield db
        except sqlite3.Error as error:
            raise ReproError(f"The user cache cannot be used ({error}).") from error
        finally:
            db.close()

    @contextmanager
    def _writing(self):
        with self._open() as db:
            db.execute("begin immediate")  # one writer at a time, from the first read on
            try:
                yield db
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")

    def get(self, user: str, revision: str) -> Entry | None:
        """The entry of this very revision, checked against its hash; None where there is none."""
        with self._open() as db:
            row = db.execute(
                "select made, covered, newest, m, d, vectors, sha256, writer from users "
                "where user = ? and revision = ?", (user, revision),
            ).fetchone()  # fmt: skip
        if row is None:
            return None
        made, covered, newest, m, d, blob, sha256, writer = row
        if _sha(user, revision, made, covered, newest, blob) != sha256:
            raise ReproError(f"The cache entry of user {user!r} is damaged; remove it.")
        vectors = np.frombuffer(blob, "<f4").reshape(m, d)
        return Entry(user, revision, made, covered, newest, vectors, writer)

    def put(self, entry: Entry) -> bool:
        """Keep `entry` unless one that covers more, or as much and later, is there already."""
        blob = np.ascontiguousarray(entry.vectors, "<f4").tobytes()
        key = (entry.user, entry.revision)
        sha256 = _sha(*key, entry.made, entry.covered, entry.newest, blob)
        with self._writing() as db:
            held = db.execute(
                "select covered, made from users where user = ? and revision = ?", key
            ).fetchone()
            if held is not None and tuple(held) >= (entry.covered, entry.made):
                return False
            db.execute(
                "insert or replace into users values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, entry.made, entry.covered, entry.newest, *entry.vectors.shape, blob, sha256,
                 entry.writer),
            )  # fmt: skip
        return True

    def lease(self, user: str, revision: str, owner: str, now: float, lasts: float = 60.0) -> bool:
        """Claim a refresh. False while another owner's claim lasts; a killed owner's runs out."""
        if not lasts > 0:
            raise BadParameter(f"lasts={lasts} is refused; accepted: above 0 seconds.")
        with self._writing() as db:
            held = db.execute(
                "select owner, until from leases where user = ? and revision = ?", (user, revision)
            ).fetchone()
            if held is not None and held[0] != owner and held[1] > now:
                return False
            db.execute(
                "insert or replace into leases values (?, ?, ?, ?)",
                (user, revision, owner, now + lasts),
            )
        return True

    def read(
        self,
        user: str,
        revision: str,
        at: float,
        times: np.ndarray,
        limits: Limits,
        short: np.ndarray | None = None,
    ) -> Read:
        """What may be served at time `at` to a user with actions at `times` [L], all up to `at`.

        An entry of another revision is a miss, and so is one that holds an action later than `at`.
        """
        times = np.asarray(times, dtype=float)
        if not len(times) or times[-1] > at:
            raise BadParameter(
                f"times has {len(times)} actions and may not end after at={at}; accepted: one or "
                "more, none later than the request."
            )
        entry = self.get(user, revision)
        if entry is None:
            return Read(None, ("absent",), len(times), 0.0)
        if entry.made > at or entry.newest > at or entry.covered > len(times):
            return Read(None, ("from the future",), len(times), 0.0)
        reasons = due(entry, at, len(times), limits, short)
        return Read(entry, reasons, len(times) - entry.covered, at - entry.made)


def refresh(cache, user, revision, at, times, compute, owner="worker", lasts=60.0) -> bool:
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


def _sha(user, revision, made, covered, newest, blob) -> str:
    head = repr((user, revision, float(made), int(covered), float(newest))).encode()
    return hashlib.sha256(head + blob).hexdigest()
