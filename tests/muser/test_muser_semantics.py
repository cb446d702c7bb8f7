"""MuSeR's item semantics and the index switch: traces, revisions, kills, bad input."""

from dataclasses import replace

import numpy as np
import pytest

from repro import assets, files
from repro.errors import BadParameter, ReproError
from repro.muser import semantics, switch

TEXTS = {"a": "rook and pawn endgame", "b": "tulips in the greenhouse", "c": "violin concert"}
LIGHT = semantics.hashed(64)


def test_minilm_reads_meaning_and_is_traced():
    """Two paraphrases without a common word are nearer than an unrelated text."""
    if assets.lacking(["minilm-l6-v2"]):
        pytest.skip("MiniLM is not here")
    texts = {"x": "a movie about the sea", "y": "an ocean film", "z": "tax law for companies"}
    kept, encoder = semantics.ItemCache(), semantics.minilm()
    found = kept.vectors(texts, encoder)
    assert found.shape == (3, 384) and np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-4)
    assert found[0] @ found[1] > found[0] @ found[2] + 0.2
    trace = kept.trace("y", encoder)
    assert trace.text == "an ocean film" and trace.revision == encoder.revision
    assert kept.audit(found, list(texts), encoder) == []


def test_a_vector_depends_on_its_text_alone():
    """Other texts beside it, their order and the letters' case change nothing."""
    alone = semantics.bag(["Tulips grow"])[0]
    beside = semantics.bag(["rook", "tulips grow", "pawn"])[1]
    assert np.array_equal(alone, beside) and not np.array_equal(alone, semantics.bag(["tulip"])[0])


def test_two_processes_see_one_cache(tmp_path):
    one = semantics.ItemCache(tmp_path / "items.sqlite")
    first = one.vectors(TEXTS, LIGHT)
    two = semantics.ItemCache(tmp_path / "items.sqlite")
    assert np.array_equal(two.vectors(TEXTS, LIGHT), first) and two.misses == 0


def test_equal_texts_share_a_vector_and_keep_their_ids():
    kept = semantics.ItemCache()
    found = kept.vectors({"one": "same words", "two": "same words"}, LIGHT)
    assert kept.misses == 1 and np.array_equal(found[0], found[1])
    assert kept.trace("two", LIGHT).item == "two"


@pytest.mark.parametrize("part", ["name", "revision", "dimension", "summariser"])
def test_each_part_of_the_encoder_is_in_the_key(part):
    other = replace(LIGHT, **{part: 63 if part == "dimension" else "other"})
    sha = semantics.sha256("text")
    assert semantics.key(sha, LIGHT) != semantics.key(sha, other)
    assert semantics.key(sha, LIGHT) != semantics.key(semantics.sha256("texts"), LIGHT)


def test_a_failed_encoding_leaves_nothing(tmp_path):
    """An encoder that gives NaN for one text stores none, so nothing half-made is ever served."""

    def broken(texts):
        found = semantics.bag(texts, 64)
        found[-1, 0] = np.nan
        return found

    kept = semantics.ItemCache(tmp_path / "items.sqlite")
    with pytest.raises(BadParameter, match="NaN"):
        kept.vectors(TEXTS, replace(LIGHT, encode=broken))
    assert kept.vectors(TEXTS, LIGHT).shape == (3, 64) and kept.hits == 0


def test_a_damaged_vector_is_not_served(tmp_path):
    kept = semantics.ItemCache(tmp_path / "items.sqlite")
    kept.vectors(TEXTS, LIGHT)
    with kept._db:
        kept._db.execute("update vectors set vector = zeroblob(256)")
    with pytest.raises(ReproError, match="damaged"):
        kept.vectors(TEXTS, LIGHT)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda k: k.vectors({"a": ""}, LIGHT), "item 'a' has no text"),
        (lambda k: k.vectors({"a": None}, LIGHT), "item 'a' has no text"),
        (lambda k: k.vectors(TEXTS, replace(LIGHT, dimension=8)), "accepted: (3, 8)"),
        (lambda k: k.vectors({"a": "  x"}, replace(LIGHT, encode=lambda t: np.zeros((1, 64)))),
         "zero vector"),
        (lambda k: k.trace("nobody", LIGHT), "item='nobody' is unknown"),
        (lambda k: semantics.hashed(1), "dimension=1"),
    ],
)  # fmt: skip
def test_bad_items_name_themselves(call, says):
    with pytest.raises(BadParameter) as caught:
        call(semantics.ItemCache())
    assert says in str(caught.value)


def test_no_text_at_all_gives_no_rows():
    assert semantics.ItemCache().vectors({}, LIGHT).shape == (0, 64)


# The index that readers use -----------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path):
    ids, vectors = list(TEXTS), LIGHT.encode(list(TEXTS.values()))
    called = switch.write(tmp_path, "items", ids, vectors, LIGHT)
    switch.publish(tmp_path, called, ids)
    return tmp_path, ids, vectors, called


def test_the_name_carries_revision_and_content(shelf):
    folder, ids, vectors, called = shelf
    other = replace(LIGHT, revision="2")
    assert LIGHT.label in called and switch.write(folder, "items", ids, vectors, other) != called
    assert switch.write(folder, "items", ids, vectors + 1, LIGHT) != called
    assert switch.write(folder, "items", ids, vectors, LIGHT) == called


def test_long_revisions_that_begin_alike_do_not_mix(shelf):
    folder, ids, vectors, _ = shelf
    one, two = (replace(LIGHT, revision="2026-01-01-build" + end) for end in "ab")
    switch.publish(folder, switch.write(folder, "items", ids, vectors, one), ids)
    assert one.label == two.label
    with pytest.raises(ReproError, match="never compared"):
        switch.current(folder, two)


def test_a_kill_before_the_switch_leaves_the_index_before(shelf, monkeypatch):
    folder, ids, vectors, called = shelf
    new = switch.write(folder, "items", ids, vectors + 1, LIGHT)

    def killed(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            switch.publish(folder, new, ids)
    assert switch.current(folder, LIGHT).name == called
    switch.publish(folder, new, ids)
    assert switch.current(folder, LIGHT).name == new


def test_a_torn_index_is_not_published(shelf):
    folder, ids, vectors, called = shelf
    new = switch.write(folder, "items", ids, vectors + 1, LIGHT)
    path = folder / f"{new}.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ReproError, match="cannot be read"):
        switch.publish(folder, new, ids)
    assert switch.current(folder, LIGHT).name == called


def test_a_renamed_index_is_not_served(shelf):
    folder, ids, vectors, called = shelf
    new = switch.write(folder, "items", ids, vectors + 1, LIGHT)
    (folder / f"{new}.npz").replace(folder / f"{called}.npz")
    with pytest.raises(ReproError, match="what its name says"):
        switch.current(folder, LIGHT)


@pytest.mark.parametrize(
    "given, says",
    [
        (dict(base="a/b"), "base='a/b'"),
        (dict(items=["a", "a", "b"]), "one id twice"),
        (dict(vectors=np.ones((3, 5))), "vectors has shape (3, 5)"),
        (dict(items=[], vectors=np.ones((0, 64))), "vectors has shape (0, 64)"),
    ],
)
def test_bad_indexes_name_themselves(tmp_path, given, says):
    usual = dict(base="items", items=list(TEXTS), vectors=np.ones((3, 64)), encoder=LIGHT)
    with pytest.raises(BadParameter) as caught:
        switch.write(tmp_path, **(usual | given))
    assert says in str(caught.value)


def test_nothing_is_published_yet(tmp_path):
    with pytest.raises(ReproError, match="No index is published"):
        switch.current(tmp_path, LIGHT)
