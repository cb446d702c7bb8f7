"""What the notebooks call around the mechanism, and what they rest on."""

import numpy as np
import pytest

from repro import digest, notebooks
from repro.deltas import (
    drift_faults,
    eviction_faults,
    streaming_faults,
    streams,
    study_drift,
    study_eviction,
    study_streaming,
)
from repro.deltas.arms import ARMS
from repro.deltas.retention import Meta, RetentionPolicy

TABLES = {
    "drift": drift_faults.FAULTS,
    "eviction": eviction_faults.FAULTS,
    "streaming": streaming_faults.FAULTS,
}


@pytest.mark.parametrize("name", TABLES)
def test_notebooks_keep_the_contract(name):
    notebook = notebooks.read(f"deltas/{name}")
    assert notebook.assets == () and len(TABLES[name]) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert f"repro.deltas.study_{name}" in modules
    assert not any("actkv" in module for module in modules)
    if name != "streaming":
        assert not any("arms" in module or "train" in module for module in modules)


def test_film_by_what_must_hold():
    contents, label = study_drift.with_repeats(32, 8)
    assert label.tolist()[:10] == [1, 2, 0, 0, 0, 0, 0, 0, 1, 2] and contents[8] == 1
    found = study_drift.film(contents, "middle", 0, 8)
    assert found.drift[0] > 1e9 and found.decay[0] == 0
    assert found.drift[1:][label[1:] == 0].max() < found.drift[1:][label[1:] == 1].min()
    contents, label = study_drift.a_b_a(32, 8)
    assert contents == [0] * 8 + [1] * 8 + [0] * 8 + [1] * 8
    assert np.flatnonzero(label).tolist() == [0, 8, 16, 24] and label[16] == 2
    assert study_drift.head_shares(1.0) == pytest.approx((2**0.5, 1.0))
    with pytest.raises(ValueError, match="speed='still'.*accepted: slow"):
        study_drift.film([0, 1], "still", 0)
    with pytest.raises(ValueError, match="1 chunks of 16; accepted: at least 2"):
        study_drift.film([0], "slow", 0)


def test_replay_keeps_the_budget_and_the_peaks():
    policy = RetentionPolicy(12, 0, 4, 1)
    score = np.array([0, 5, 0, 4, 0, 0, 3, 0.0])
    frames = study_eviction.replay(policy, score, 4)
    assert [len(f) for f in frames] == [4, 8, 12, 12, 12, 12, 12, 12]
    assert frames[-1].tolist() == [4, 5, 6, 7, 12, 13, 14, 15, 28, 29, 30, 31]


@pytest.mark.parametrize("buckets", [1, 4])
def test_deciding_after_every_chunk_differs_from_deciding_once_only_with_buckets(buckets):
    score, _ = study_eviction.scores(100, 42)
    policy = RetentionPolicy(96, 4, 16, buckets)
    meta = Meta(np.arange(800), np.repeat(np.arange(100), 8), np.repeat(score, 8))
    often, once = study_eviction.replay(policy, score, 8)[-1], policy.select(meta)
    assert (often.tolist() == once.tolist()) == (buckets == 1)


def test_survival_of_the_two_samplers():
    again, once = (study_eviction.survival(60, 40, x) for x in (True, False))
    assert again.sum() == pytest.approx(1) == once.sum()
    assert np.ptp(once) < 0.06 < 0.3 < again[-1]


def outcome(right, kept=None, scores=None):
    right = np.array(right, float)
    return study_streaming.Outcome(right, right if kept is None else kept, scores, {})


def test_verdicts_are_computed():
    assert study_streaming.verdict(np.zeros(9)) == "identical, so uninformative"
    assert study_streaming.verdict(np.ones(3)) == "too few streams for an interval"
    assert study_streaming.verdict(np.linspace(0.1, 0.2, 9)) == "better"
    assert study_streaming.verdict(-np.linspace(0.1, 0.2, 9)) == "worse"
    assert study_streaming.verdict(np.linspace(-1, 1, 9)) == "not distinguished"


def test_a_void_setting_is_called_void():
    say = study_streaming.informative
    assert say({"full": outcome([0.9]), "window": outcome([0.2])}, 0.06)[0]
    for full, window in ((0.3, 0.1), (0.9, 0.9)):
        held, told = say({"full": outcome([full]), "window": outcome([window])}, 0.06)
        assert not held and told.startswith("void")


def test_falsifiers_join_settings_and_skip_what_did_not_run():
    one = {"drift": outcome([0.5] * 4), "random": outcome([0.25] * 4)}
    rows = study_streaming.falsifiers({("a", 1): one, ("b", 1): one})
    assert [row[0] for row in rows] == ["the same: drift above a lot"]
    assert rows[0][1:] == ["+0.250", "+0.250 to +0.250", "better"]


def test_ranks_by_kind_of_frame():
    world = streams.World.draw(0, keys=8, values=4, features=8)
    seen = streams.draw(world, 1, 2, 10, 2)
    found = outcome([0, 0], scores=np.where(seen.kind == 2, 9.0, np.arange(10)[None] / 10).T)
    assert study_streaming.rank_of(found, seen, 2) == pytest.approx(7.5 / 8)
    assert np.isnan(study_streaming.rank_of(found, seen, 3))


def test_parameters_are_refused_by_name():
    assert study_streaming.chosen("arms", "all", ARMS) == list(ARMS)
    core = study_streaming.chosen("arms", "core", ARMS, study_streaming.CORE)
    assert set(core) <= set(ARMS) and set(study_streaming.SCORED) <= set(ARMS)
    assert study_streaming.numbers("budgets", "40, 60") == [40, 60]
    for text in ("best", "", "drift, drift"):
        with pytest.raises(ValueError, match="arms=.*accepted: all"):
            study_streaming.chosen("arms", text, ARMS)
    for text in ("", "60, 40", "0", "x"):
        with pytest.raises(ValueError, match="budgets=.*accepted: rising"):
            study_streaming.numbers("budgets", text)
