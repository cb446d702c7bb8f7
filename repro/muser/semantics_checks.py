"""What must hold of item semantics and of the index that readers use.

Source: arXiv 2609.23677 as the project's notes give it, section 4. Everything is reached through
its module, so that a planted fault is seen.
"""

import tempfile
from pathlib import Path

import numpy as np

from repro.errors import BadParameter, ReproError
from repro.muser import semantics, switch

TEXTS = {"a": "rook and pawn endgame", "b": "tulips in the greenhouse", "c": "violin concert"}


def near(found, expected, what: str, within: float = 1e-6) -> None:
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    same = found.shape == expected.shape and np.abs(found - expected).max() <= within
    assert same, f"{what}: {found.tolist()} != {expected.tolist()}"


def refused(call, says: str, kind=BadParameter) -> None:
    try:
        call()
    except kind as error:
        assert says in str(error), f"the error says {error}"
    else:
        raise AssertionError(f"accepted, and should be refused: {says}")


def _encoder(revision: str, sign: float = 1.0) -> semantics.Encoder:
    return semantics.Encoder("toy", revision, 16, lambda texts: sign * semantics.bag(texts, 16))


def changed_text_is_encoded_again() -> None:
    """One changed letter is a miss and gives the vector of the new text; the others are hits."""
    kept, encoder = semantics.ItemCache(), _encoder("1")
    kept.vectors(TEXTS, encoder)
    new = TEXTS | {"a": "rook and pawn endgames"}
    found = kept.vectors(new, encoder)
    near(found[0], encoder.encode([new["a"]])[0], "vector of the changed text")
    assert (kept.misses, kept.hits) == (4, 2), f"{kept.misses} misses, {kept.hits} hits"


def revisions_do_not_mix() -> None:
    """A new encoder revision is a miss for every item; each revision keeps its own vectors."""
    kept, one, two = semantics.ItemCache(), _encoder("1"), _encoder("2", -1.0)
    for encoder in (one, two, one):
        found = kept.vectors(TEXTS, encoder)
        near(found, encoder.encode(list(TEXTS.values())), f"vectors of revision {encoder.label}")


def each_vector_has_its_text() -> None:
    """The trace names the very text, and encoding it again gives the vector that was served."""
    kept, encoder = semantics.ItemCache(), _encoder("1")
    found = kept.vectors(TEXTS, encoder)
    told = {item: kept.trace(item, encoder).text for item in TEXTS}
    assert told == TEXTS, f"traced to {told}"
    wrong = kept.audit(found, list(TEXTS), encoder)
    assert not wrong, f"not the vector of its text: {wrong}"
    swapped = kept.audit(found[[1, 0, 2]], list(TEXTS), encoder)
    assert swapped == ["a", "b"], f"an audit of two swapped rows found {swapped}"


def bad_items_are_refused() -> None:
    """No text, a vector of another dimension, an unknown item: an error that names it."""
    kept, encoder = semantics.ItemCache(), _encoder("1")
    refused(lambda: kept.vectors({"x": " "}, encoder), "'x' has no text")
    wide = semantics.Encoder("toy", "1", 9, encoder.encode)
    refused(lambda: kept.vectors(TEXTS, wide), "accepted: (3, 9)")
    refused(lambda: kept.trace("z", encoder), "'z' is unknown")


def an_index_is_full_before_the_switch() -> None:
    """An index that lacks an item is never switched to; readers stay on the one before."""
    encoder, ids = _encoder("1"), list(TEXTS)
    vectors = encoder.encode(list(TEXTS.values()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = switch.write(folder, "items", ids, vectors, encoder)
        switch.publish(folder, first, ids)
        partial = switch.write(folder, "items", ids[:2], vectors[:2], encoder)
        assert switch.current(folder, encoder).name == first, "seen before it was published"
        refused(lambda: switch.publish(folder, partial, ids), "lacks 1 of 3", ReproError)
        assert switch.current(folder, encoder).items == tuple(ids), "readers got a part"


def readers_get_their_own_revision() -> None:
    """An index of another encoder revision is refused, and its name is another one."""
    one, two, ids = _encoder("1"), _encoder("2", -1.0), list(TEXTS)
    vectors = one.encode(list(TEXTS.values()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        called = [switch.write(folder, "items", ids, vectors, e) for e in (one, two)]
        assert called[0] != called[1], "two revisions share a name"
        switch.publish(folder, called[1], ids)
        refused(lambda: switch.current(folder, one), "never compared", ReproError)


CHECKS = {
    check.__name__: check
    for check in (
        changed_text_is_encoded_again, revisions_do_not_mix, each_vector_has_its_text,
        bad_items_are_refused, an_index_is_full_before_the_switch, readers_get_their_own_revision,
    )
}  # fmt: skip
