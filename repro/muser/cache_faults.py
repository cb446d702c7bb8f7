"""Deliberate faults in the user cache: mistakes that a reader could make."""

import dataclasses

from repro.faults import Fault
from repro.muser import cache_entry as entry_bytes


def _last_writer_wins(original):
    def put(self, entry):
        return self.store.change(
            "entry", entry.user, entry.revision, lambda _: entry_bytes.pack(entry)
        )

    return put


FAULTS = {
    "revision_ignored": Fault(
        "an entry is found by its user alone",
        "repro.muser.cache:UserCache.get",
        lambda original: (
            lambda self, user, revision: (
                original(self, user, revision) or original(self, user, "r1")
            )
        ),
    ),
    "stale_unmarked": Fault(
        "no trigger is looked at when reading",
        "repro.muser.cache:due",
        lambda original: lambda *given: (),
    ),
    "last_writer_wins": Fault(
        "a write replaces whatever is there",
        "repro.muser.cache:UserCache.put",
        _last_writer_wins,
    ),
    "future_seen": Fault(
        "the refresh computes from the whole log",
        "repro.muser.cache:refresh",
        lambda original: (
            lambda cache, user, revision, at, times, *rest: original(
                cache, user, revision, max(at, times[-1]), times, *rest
            )
        ),
    ),
    "drift_of_the_farthest": Fault(
        "drift is measured to the farthest interest",
        "repro.muser.cache:drift",
        lambda original: lambda long, short: max(original(row[None], short) for row in long),
    ),
    "least_urgent_first": Fault(
        "the queue starts with the smallest product",
        "repro.muser.cache:order",
        lambda original: lambda waiting: original(waiting)[::-1],
    ),
    "claims_never_end": Fault(
        "the claim of a killed refresher stays",
        "repro.muser.cache:UserCache.lease",
        lambda original: (
            lambda self, user, revision, owner, now, lasts=60.0: original(
                self, user, revision, owner, now, 1e12
            )
        ),
    ),
    "half_precision": Fault(
        "vectors are kept with fewer digits",
        "repro.muser.cache:UserCache.put",
        lambda original: (
            lambda self, entry: original(
                self, dataclasses.replace(entry, vectors=entry.vectors.astype("f2").astype("f4"))
            )
        ),
    ),
    "hash_not_checked": Fault(
        "bytes are served as they lie there",
        "repro.muser.cache:unpack",
        lambda original: (
            lambda user, revision, value: original(
                user, revision, entry_bytes._sha(user, revision, value[64:]) + value[64:]
            )
        ),
    ),
}  # fmt: skip
