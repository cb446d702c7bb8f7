"""Sentence vectors: against the model run plainly, and a cache that is never trusted blindly."""

import numpy as np
import pytest
import torch

from repro import assets, encoder
from repro.errors import BadParameter

TEXTS = [
    "Will it rain in Rome tomorrow?",
    "weather forecast for a city",
    "Transfer money between two bank accounts.",
    "",
    "word " * 600,
]


@pytest.fixture(scope="module")
def vectors():
    return encoder.encode(TEXTS)


def test_against_the_model_run_plainly(vectors):
    """One text at a time, no padding, transformers' own loading and tokenizer, mean by hand."""
    from transformers import AutoModel, AutoTokenizer

    folder = assets.path("minilm-l6-v2") / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    for text, found in zip(TEXTS, vectors, strict=True):
        asked = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            mean = model(**asked).last_hidden_state[0].mean(0).numpy()
        np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=2e-6)


def test_shape_length_and_meaning(vectors):
    assert vectors.shape == (5, encoder.WIDTH) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    rain, weather, money = vectors[:3]
    assert rain @ weather > rain @ money + 0.2
    assert encoder.encode([]).shape == (0, encoder.WIDTH)


def test_same_every_time_and_nearly_so_in_other_company(vectors):
    assert np.array_equal(encoder.encode(TEXTS), vectors)
    order = [3, 0, 4, 2, 1]
    mixed = encoder.encode([TEXTS[i] for i in order], batch=2)
    np.testing.assert_allclose(mixed, vectors[order], atol=2e-6)


def test_padding_takes_no_part():
    hidden = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0]])
    assert encoder.pooled(hidden, mask).tolist() == [pytest.approx([0.6, 0.8])]


def test_long_texts_lose_their_tail(vectors):
    same = encoder.encode(["word " * 254, "word " * 300])
    np.testing.assert_allclose(same[0], same[1], atol=2e-6)
    np.testing.assert_allclose(same[0], vectors[4], atol=2e-6)


def test_kept_vectors_are_used_and_damaged_ones_are_not(tmp_path, monkeypatch, vectors):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    assert np.array_equal(encoder.encode_cached(TEXTS), vectors)
    (file,) = (tmp_path / "embeddings").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "encode", lambda *_, **__: pytest.fail("encoded again"))
        assert np.array_equal(encoder.encode_cached(TEXTS), vectors)
    good = file.read_bytes()
    for bad in (b"", good[:-1], good[:-1] + b"\x00" * (good[-1:] == b"\x01") + b"\x01", good[32:]):
        file.write_bytes(bad)
        assert np.array_equal(encoder.encode_cached(TEXTS), vectors)
        assert file.read_bytes() == good
    encoder.encode_cached(TEXTS[:2])
    assert len(list((tmp_path / "embeddings").iterdir())) == 2  # by content, in order


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "file/below"))
    assert encoder.encode_cached(TEXTS[:1]).shape == (1, encoder.WIDTH)


def test_bad_input_is_refused():
    for call in (
        lambda: encoder.encode("one text"),
        lambda: encoder.encode([None]),
        lambda: encoder.encode(["a"], batch=0),
        lambda: encoder.encode(["a"], max_tokens=513),
    ):
        with pytest.raises(BadParameter, match="accepted"):
            call()
