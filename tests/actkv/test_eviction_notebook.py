"""What the eviction notebook calls around the mechanism."""

import numpy as np
import pytest
import torch
from tiny_llama import tiny_llama

from repro import digest, notebooks
from repro.actkv import attention, eviction, study_access, study_eviction, study_policies
from repro.actkv.eviction_faults import FAULTS
from repro.traces import Trace

KEY = "actkv/eviction"
LAYERS = 2


def make_trace():
    """Three rounds and a closing observation; labels are the codes of `repro.traces`."""
    runs = [
        *((0, -1, 5), (1, 0, 4), (2, 0, 2), (3, 0, 3), (2, 0, 1)),
        *((1, 1, 6), (2, 1, 1), (3, 1, 4), (2, 1, 1)),
        *((1, 2, 3), (2, 2, 1), (3, 2, 2), (2, 2, 1), (1, 3, 4)),
    ]
    labels = np.array([label for label, _, n in runs for _ in range(n)], np.int8)
    rounds = np.array([at for _, at, n in runs for _ in range(n)], np.int32)
    ids = np.random.default_rng(1).integers(0, 50, len(labels))
    ends = np.arange(1, len(labels) + 1, dtype=np.int32)
    text = ("<a\n1 " * len(labels))[: len(labels)]
    return Trace(ids, labels, rounds, np.stack([ends - 1, ends], 1), text, ("one", "two"))


@pytest.fixture(scope="module")
def model():
    return tiny_llama(50, layers=LAYERS)


@pytest.fixture(scope="module")
def recorded(model):
    return study_eviction.record(model, make_trace())


def test_notebook_rests_on_this_mechanism_alone():
    notebook = notebooks.read(KEY)
    assert notebook.assets == ("smollm2-135m", "bfcl-v4") and len(FAULTS) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert "repro.actkv.eviction" in modules
    assert not any("confidence" in name for name in modules)


def test_one_pass_gives_the_rows_of_actions_and_of_all_tokens(model, recorded):
    trace = recorded.trace
    alone = attention.action_rounds(model, trace, eviction.action_attention)
    alone = [found for found in alone if found.span]
    assert recorded.spans.tolist() == [list(found.span) for found in alone]
    assert recorded.lengths.tolist() == [found.length for found in alone] == [15, 27, 34]
    assert recorded.protected == 5 and recorded.name == "one+two"
    for row, found in zip(recorded.action, alone, strict=True):
        np.testing.assert_allclose(row, found.attention, atol=1e-6)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor(trace.ids)[None], output_attentions=True)
    model.set_attn_implementation("sdpa")
    maps = torch.cat(out.attentions).numpy()  # [layers, H_q, S, S]
    for row, (start, stop) in zip(recorded.every, ((5, 15), (15, 27), (27, 34)), strict=True):
        expected = maps[:, :, start:stop, :stop].reshape(LAYERS, 2, 2, stop - start, stop)
        expected = np.stack([eviction.action_attention(layer) for layer in expected])
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_film_shows_the_prefix_and_the_budget(recorded):
    scores = study_eviction.film(recorded, recorded.action, 4)
    assert scores.shape == (LAYERS, 3, 34)
    assert (np.isfinite(scores).sum(-1) == recorded.protected + 4).all()
    assert np.isfinite(scores[..., : recorded.protected]).all()
    assert study_policies.zero_share(recorded, scores, 4) <= 1
    whole = study_eviction.film(recorded, recorded.action, 100)
    assert (np.isfinite(whole).sum(-1) == recorded.lengths).all()


def by_hand():
    """One layer, one token of prefix, two rounds: three entries, then two more."""
    trace = make_trace()
    rows = [np.array([[0.4, 0.3, 0.2, 0.1]]), np.array([[0.5, 0.0, 0.1, 0.3, 0.05, 0.05]])]
    spans, lengths = np.array([[2, 4], [4, 6]]), np.array([4, 6])
    return study_eviction.Recorded(trace, 1, spans, lengths, rows, rows)


def test_coverage_by_hand():
    recorded = by_hand()
    arms = study_policies.arms(recorded, 2, [0.5], 0.5, 0.9, np.random.default_rng(0))
    kept = {name: np.flatnonzero(sets[0, 0]).tolist() for name, sets in arms.items()}
    assert kept["decay 0.5"] == [0, 1, 2] and kept["newest"] == [0, 2, 3]
    assert kept["next action"] == [2, 3]
    assert len(kept["random"]) == 3 and arms["random"][0, 1].sum() == 3
    cover = {name: study_policies.coverage(recorded, sets, 2) for name, sets in arms.items()}
    assert cover["decay 0.5"] == pytest.approx(0.1 / 0.4)
    assert cover["newest"] == cover["next action"] == pytest.approx(1)
    assert study_policies.coverage(recorded, arms["newest"], 3) == 1  # no round has to evict
    one, other = arms["decay 0.5"][:, :1], arms["newest"][:, :1]
    only = study_eviction.Recorded(
        recorded.trace, 1, recorded.spans[:1], recorded.lengths[:1], recorded.action[:1], []
    )
    assert study_policies.overlap(only, one, other, 2) == pytest.approx(1 / 3)
    assert study_policies.overlap(only, one, other, 3) == 1


def test_where_and_how_much_by_hand():
    first, second = study_access.where(by_hand())[:, 0]
    np.testing.assert_allclose(first, [0.4, 0, 0, 0.6])
    np.testing.assert_allclose(second, [0.5, 0, 0.4, 0.1])
    shares = study_access.hit_shares(by_hand(), 0.9)[:, 0]
    np.testing.assert_allclose(shares, [3 / 3, 3 / 5])  # of the two 0.05, only the newer is hit


def test_access_classes_and_their_sums_by_hand():
    table = study_access.accesses(by_hand(), 0.9, np.random.default_rng(0))
    assert table["class"].tolist() == [*["continuous"] * 3, "never", "continuous"]
    assert table["chances"].tolist() == [2, 2, 2, 1, 1]
    assert table["hits"].tolist() == [1, 2, 2, 0, 1] and table["later"].tolist() == [0, 1, 1, 0, 0]
    total = study_access.by_class(table, chances=2)
    assert total["entries"].tolist() == [0, 3, 0] and total["share"][1] == 1
    assert total["strength"][1] == pytest.approx((0.3 + 0.2 + 0.1 + 0.1 + 0.3) / 5)
    assert total["later"][1] == pytest.approx(0.2) and np.isnan(total["strength"][2])


def test_shuffling_keeps_the_number_of_bits_and_the_birth():
    rng = np.random.default_rng(0)
    born = rng.integers(0, 4, 200)
    vectors = (rng.random((200, 6)) < 0.5) & (np.arange(6) >= born[:, None])
    mixed = study_access._shuffled(vectors, born, rng)
    assert (mixed.sum(1) == vectors.sum(1)).all() and (mixed != vectors).any()
    assert not mixed[np.arange(6) < born[:, None]].any()


def test_marked_text_is_escaped_and_complete():
    trace, kept = make_trace(), np.zeros(38, dtype=bool)
    kept[[1, 2]] = True
    shown = study_eviction.marked_text(trace, kept, 0, 5)
    assert shown == (
        '<p><s class="eb-evicted">&lt;</s><b class="eb-kept">a<br></b>'
        '<s class="eb-evicted">1 </s></p>'
    )
    assert study_eviction.stretches(kept, 0, 5) == [(0, 1), (1, 3), (3, 5)]
    groups = study_eviction.Recorded(trace, 5, None, None, [], []).groups()
    assert [groups[n][:5].sum() for n in ("words", "digits", "marks and spaces")] == [1, 1, 3]
