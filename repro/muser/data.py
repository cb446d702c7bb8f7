"""A log of actions, split at one time for everybody; histories before it, wanted items after it.

Protocol of the project's notes on arXiv 2609.23677 (section 9): a global time split, so that no
model has seen what happened later to anyone; full ranking; items already seen are masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from repro.accept import count
from repro.errors import BadParameter


@dataclass(frozen=True, eq=False)
class Log:
    """Actions in order of time. user, item: [n] int. time: [n] seconds. texts: one an item.

    caveat: what the data cannot carry. allows: the sentence that a result on them may say.
    """

    name: str
    user: np.ndarray
    item: np.ndarray
    time: np.ndarray
    texts: tuple[str, ...]
    caveat: str
    allows: str

    def __post_init__(self):
        if not len(self.user) == len(self.item) == len(self.time) > 0:
            sizes = len(self.user), len(self.item), len(self.time)
            raise BadParameter(f"user, item, time have {sizes} entries; accepted: as many, not 0.")
        if not np.isfinite(self.time).all() or (np.diff(self.time) < 0).any():
            raise BadParameter("time is not finite or runs backwards; accepted: in order of time.")
        if self.item.min() < 0 or self.item.max() >= len(self.texts):
            raise BadParameter(
                f"item {self.item.min()} or {self.item.max()} is unknown; accepted: 0 to "
                f"{len(self.texts) - 1}, the items with a text."
            )
        if self.user.min() < 0:
            raise BadParameter(f"user {self.user.min()} is unknown; accepted: 0 and above.")


def log(
    name: str,
    user: Sequence[int],
    item: Sequence[int],
    time: Sequence[float],
    texts: Sequence[str],
    caveat: str = "",
    allows: str = "",
) -> Log:
    """A `Log` from actions in any order; those of one second keep the order that they came in."""
    if not len(user) == len(item) == len(time):
        sizes = len(user), len(item), len(time)
        raise BadParameter(f"user, item, time have {sizes} entries; accepted: as many of each.")
    order = np.argsort(np.asarray(time, dtype=float), kind="stable")
    columns = [np.asarray(x)[order] for x in (user, item)]
    return Log(name, *columns, np.asarray(time, dtype=float)[order], tuple(texts), caveat, allows)


def cuts(log: Log, shares: Sequence[float] = (0.7, 0.8, 0.9)) -> tuple[float, ...]:
    """Times before which these shares of all actions lie."""
    if not all(0 < a < b < 1 for a, b in zip(shares, [*shares[1:], 1 - 1e-12], strict=True)):
        raise BadParameter(f"shares={tuple(shares)} is refused; accepted: rising, within (0, 1).")
    return tuple(float(log.time[int(share * len(log.time))]) for share in shares)


def counts(log: Log, before: float) -> np.ndarray:
    """Actions on each item before a time, [items]."""
    return np.bincount(log.item[log.time < before], minlength=len(log.texts))


@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of each user at time `cut`, and what came after it.

    users: [B]. history: for each its items before `cut`, old to new; times: theirs. future: the
    first few different items from `cut` on that the history does not hold; later: their times.
    counts: [items] actions of everybody before `cut`.
    """

    cut: float
    users: np.ndarray
    history: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    future: tuple[np.ndarray, ...]
    later: tuple[np.ndarray, ...]
    counts: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.users)

    def wanted(self, k: int) -> np.ndarray:
        """[B, k] future items; a user with fewer has them again in turn."""
        return np.stack([np.resize(items, k) for items in self.future])


def at(log: Log, cut: float, until: float = np.inf, k: int = 10, least: int = 1) -> Rows:
    """Users with `least` actions before `cut` and a new item from `cut` to before `until`.

    Raises BadParameter when `until` is not after `cut`, or when nobody is left.
    """
    if not cut < until:
        raise BadParameter(f"cut={cut}, until={until} is refused; accepted: cut < until.")
    count("k", k)
    count("least", least)
    places = np.split(
        np.argsort(log.user, kind="stable"), np.cumsum(np.bincount(log.user))[:-1]
    )  # of each user, in order of time
    found = []
    for user, mine in enumerate(places):
        old = mine[log.time[mine] < cut]
        new = mine[(log.time[mine] >= cut) & (log.time[mine] < until)]
        new = new[~np.isin(log.item[new], log.item[old])]
        new = new[np.sort(np.unique(log.item[new], return_index=True)[1])][:k]
        if len(old) >= least and len(new):
            found.append((user, old, new))
    if not found:
        raise BadParameter(f"cut={cut}, until={until} leave no user; accepted: times with actions.")
    users, old, new = zip(*found, strict=True)
    return Rows(
        cut,
        np.array(users),
        tuple(log.item[p] for p in old),
        tuple(log.time[p] for p in old),
        tuple(log.item[p] for p in new),
        tuple(log.time[p] for p in new),
        counts(log, cut),
    )


def seen(rows: Rows) -> np.ndarray:
    """[B, items] bool: what each user's history holds."""
    found = np.zeros((len(rows), len(rows.counts)), bool)
    for mask, items in zip(found, rows.history, strict=True):
        mask[items] = True
    return found


def ranks(scores: np.ndarray, rows: Rows) -> list[np.ndarray]:
    """Rank, from 0, of each user's future items among all items not seen, by scores [B, items].

    An item's rank counts those that score more, and half of those that tie with it, so that equal
    scores are no advantage.
    """
    if scores.shape != (len(rows), len(rows.counts)) or not np.isfinite(scores).all():
        raise BadParameter(
            f"scores has shape {scores.shape}; accepted: {(len(rows), len(rows.counts))}, finite."
        )
    hidden = np.where(seen(rows), -np.inf, scores)
    found = []
    for row, items in zip(hidden, rows.future, strict=True):
        mine = row[items, None]
        found.append((row > mine).sum(1) + ((row == mine).sum(1) - 1) / 2)
    return found


def recall(ranks: Sequence[np.ndarray], k: int, which: Sequence[np.ndarray]) -> np.ndarray:
    """Share of each user's items marked in `which` that rank among the first k; NaN for none."""
    return np.array(
        [(r[w] < k).mean() if w.any() else np.nan for r, w in zip(ranks, which, strict=True)]
    )


def cold(rows: Rows) -> list[np.ndarray]:
    """Of each user's future items: bool, no action of anybody before the cut."""
    return [rows.counts[items] == 0 for items in rows.future]
