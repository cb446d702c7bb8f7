"""Deliberate faults in item semantics, split, fused items and retrieval: easily made mistakes."""

from repro.faults import Fault


def _text_left_out(original):
    return lambda text_sha256, encoder: original("", encoder)


def _revision_left_out(original):
    def key(text_sha256, encoder):
        from dataclasses import replace

        return original(text_sha256, replace(encoder, revision=""))

    return key


def _sorted_rows(original):
    """Rows in the order of their texts' hashes, and not of the items that were asked for."""

    def vectors(self, texts, encoder):
        from repro.muser.semantics import sha256

        rows = original(self, texts, encoder)
        order = sorted(range(len(rows)), key=lambda at: sha256(list(texts.values())[at]))
        return rows[order]

    return vectors


def _not_held_full(original):
    return lambda folder, called, wanted: original(folder, called, ())


def _any_revision(original):
    def current(folder, encoder):
        from repro.muser import switch

        return switch.load(folder, (folder / switch.POINTER).read_text())

    return current


def _split_by_user(original):
    """The last two actions of each user are the future, whenever that was."""

    def at(log, cut, until=float("inf"), k=10, least=1):
        import numpy as np

        from repro.muser import data

        places = [np.flatnonzero(log.user == user) for user in np.unique(log.user)]
        old, new = zip(*((p[: max(1, len(p) - 2)], p[-2:]) for p in places), strict=True)
        return data.Rows(
            cut, np.unique(log.user),
            tuple(log.item[p] for p in old), tuple(log.time[p] for p in old),
            tuple(log.item[p] for p in new), tuple(log.time[p] for p in new),
            data.counts(log, cut),
        )  # fmt: skip

    return at


def _no_semantics(original):
    """The semantic half is there and the same for every item."""

    def halves(self):
        ids, meaning = original(self)
        return ids, None if meaning is None else meaning.mean(0).expand_as(meaning)

    return halves


def _whole_catalogue(original):
    def pool(parts):
        import numpy as np

        return np.arange(len(parts[0].counts))

    return pool


def _open(original):
    def forward(self, counts):
        gate, self.W_g = self.W_g, None
        try:
            return original(self, counts)
        finally:
            self.W_g = gate

    return forward


def _as_they_are(original):
    def unit(vectors, name):
        import numpy as np

        return np.asarray(vectors, np.float32)

    return unit


def _first_interest(original):
    return lambda index, u, k, each=None: original(index, u[:1], k, each)


FAULTS = {
    "text_left_out": Fault(
        "the key of a vector leaves out the hash of the text",
        "repro.muser.semantics:key",
        _text_left_out,
    ),
    "revision_left_out": Fault(
        "the key of a vector leaves out the encoder's revision",
        "repro.muser.semantics:key",
        _revision_left_out,
    ),
    "rows_in_another_order": Fault(
        "vectors come back in the order of their hashes",
        "repro.muser.semantics:ItemCache.vectors",
        _sorted_rows,
    ),
    "switched_before_full": Fault(
        "readers are pointed to an index that is not held against the catalogue",
        "repro.muser.switch:publish",
        _not_held_full,
    ),
    "other_revision_served": Fault(
        "readers take the index in use whatever encoder made it",
        "repro.muser.switch:current",
        _any_revision,
    ),
    "split_by_user": Fault(
        "each user's last actions are the test, whenever they were",
        "repro.muser.data:at",
        _split_by_user,
    ),
    "counts_see_the_test": Fault(
        "popularity is counted over the whole log",
        "repro.muser.data:counts",
        lambda original: lambda log, before: original(log, float("inf")),
    ),
    "seen_not_masked": Fault(
        "items of the history compete in the ranking",
        "repro.muser.data:seen",
        lambda original: lambda rows: original(rows) & False,
    ),
    "semantics_dropped": Fault(
        "every item has the mean of all semantic vectors",
        "repro.muser.fused:Tower.halves",
        _no_semantics,
    ),
    "future_items_as_negatives": Fault(
        "negatives are drawn from items that nobody can have met yet",
        "repro.muser.fused:pool",
        _whole_catalogue,
    ),
    "gate_always_open": Fault(
        "the gate is left out",
        "repro.muser.fused:Tower.forward",
        _open,
    ),
    "first_interest_only": Fault(
        "candidates of the first interest alone are merged",
        "repro.muser.retrieval:merged",
        _first_interest,
    ),
    "lengths_kept": Fault(
        "vectors are searched by inner product, without being scaled",
        "repro.muser.retrieval:unit",
        _as_they_are,
    ),
}  # fmt: skip
