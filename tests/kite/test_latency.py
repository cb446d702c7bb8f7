"""Predictions against the table of the notes, arms, verdicts, and what is refused."""

import json
from dataclasses import replace
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter
from repro.kite import flops, latency, latency_device, rehearsal, study_latency
from repro.kite.config import Config
from repro.kite.latency_checks import TINY

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/kite_latency.json").read_text())
SIZES = ("width", "layers", "heads", "kv_heads", "hidden", "vocab")
COSTS = {"eager": latency.EAGER, "graph": latency.GRAPH}
CPU = torch.device("cpu")


def config(row: dict) -> Config:
    return Config(**{name: row[name] for name in SIZES})


@pytest.mark.parametrize("row", GOLDEN["ratios"], ids=lambda r: f"{r['width']}-{r['prompt']}")
def test_all_predicted_prefill_ratios(row):
    for name, wanted in row["ratio"].items():
        card = latency.cards()[name]
        costs = (0, latency.EAGER, latency.GRAPH)
        found = [latency.ratio(config(row), row["prompt"], card, cost) for cost in costs]
        assert np.abs(np.subtract(found, wanted)).max() < 0.0051, (name, found)
        assert 1 < found[0] < 2 and found[1] <= found[2] + 1e-9 <= found[0] + 2e-9


def test_the_notebook_shows_the_sizes_of_the_table():
    shown = [(c, s) for c, s in latency.predicted_sizes()]
    assert {(c.width, c.layers, s) for c, s in shown} == {
        (r["width"], r["layers"], r["prompt"]) for r in GOLDEN["ratios"]
    }
    assert all(config(r) in [c for c, _ in shown] for r in GOLDEN["ratios"])


def test_the_public_measurement_at_width_32_is_the_predicted_control():
    seen = GOLDEN["diagnostic_a100"]
    measured = np.divide(seen["dense"], seen["sst_last_only"])
    assert np.all(abs(measured - 1) < 0.04)
    tau = [seen["dense"][0] / seen["launches"]["dense"], 0]
    tau[1] = seen["sst_last_only"][0] / seen["launches"]["sst"]
    assert abs(tau[0] / tau[1] - 1) < 0.04  # one cost a launch explains both
    small = config(GOLDEN["ratios"][0])
    assert latency.ratio(small, 256, latency.cards()["A100-80"], latency.EAGER) == 1.0


@pytest.mark.parametrize("name", ["A30", "A100-80", "H200"])
def test_least_sizes(name):
    card = latency.cards()[name]
    for kind, cost in COSTS.items():
        wanted = GOLDEN["least_prompt"][name][kind]
        widths = GOLDEN["least_prompt"]["widths"]
        assert [ceil(latency.least_prompt(d, card, cost)) for d in widths] == wanted
        assert floor(latency.least_width(card, cost)) == GOLDEN["least_width"][name][kind]
    assert abs(latency.even_prompt(card) - GOLDEN["even_prompt"][name]) < 1


def test_milliseconds_and_cache_of_the_notes():
    by_width = {r["width"]: config(r) for r in GOLDEN["ratios"]}
    for row in GOLDEN["milliseconds"]:
        small = by_width[row["width"]]
        for name, wanted in row["dense_sst"].items():
            card, n = latency.cards()[name], small.layers
            dense = latency.prefill(latency.deep(small, n), row["prompt"], card)
            found = 1e3 * np.array([dense, latency.prefill(small, row["prompt"], card, n)])
            assert np.all(abs(found / wanted - 1) < 0.02), (name, found)
    for width, wanted in GOLDEN["kv_kib_dense_sst"].items():
        small = by_width[int(width)]
        deep = latency.deep(small, small.layers)
        assert [flops.kv_bytes(c, 2) / 1024 for c in (deep, small)] == wanted


def test_decode_is_even_everywhere():
    """1.00 to 1.03, as the notes have it, for few KV heads; 1.04 where there are as many."""
    for row in GOLDEN["ratios"]:
        for card in latency.cards().values():
            for cost in (0, *COSTS.values()):
                found = latency.ratio(config(row), row["prompt"], card, cost, "decode")
                most = 1.03 if row["kv_heads"] < row["heads"] else 1.04
                assert 1 - 1e-9 <= found < most, (row["width"], found)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from((64, 128, 256, 1024)),
    st.integers(1, 12),
    st.integers(1, 20_000),
    st.floats(0, 1e-3),
)
def test_no_prediction_exceeds_the_depth_ratio(width, layers, prompt, cost):
    small = study_latency.sizes(width, layers)
    assert 1 <= latency.ideal(small, prompt) < 2
    for card in latency.cards().values():
        assert 1 - 1e-9 <= latency.ratio(small, prompt, card, cost) <= 2 + 1e-9
        slower = replace(card, bandwidth=card.bandwidth / 2, tensor=card.tensor / 2)
        assert latency.prefill(small, prompt, slower) > latency.prefill(small, prompt, card)


def test_arms_share_what_they_should():
    arms = study_latency.arms(TINY, 3)
    assert arms[study_latency.TOWERS].model is arms[study_latency.EVERYWHERE].model
    assert len(arms[study_latency.DENSE].model.prefiller) == 4
    for arm in arms.values():
        assert {p.dtype for p in arm.model.parameters()} == {torch.float32}
    first, again, other = (study_latency.prompt_ids(TINY, 8, s) for s in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_served_lap_starts_from_the_same_context():
    arms, ids = study_latency.arms(TINY, 3), study_latency.prompt_ids(TINY, 70, 3)
    maker = study_latency.decode_makers({"SST": arms[study_latency.TOWERS]}, ids)["SST"]
    first = [maker()() for _ in range(2)]
    assert torch.equal(*first)  # a lap does not continue the one before
    assert maker.past.rows == [70]


def test_timed_laps_and_their_ratio():
    arms, ids = study_latency.arms(TINY, 3), study_latency.prompt_ids(TINY, 8, 3)
    makers = study_latency.prefill_makers(arms, ids)
    laps = study_latency.timed(makers, 2, 0.001, latency_device.clock_for(CPU), 3)
    assert list(laps) == list(study_latency.PREFILLED)
    assert all(len(each) == 2 and min(lap.cpu for lap in each) > 0 for each in laps.values())


def test_operations_are_about_the_published_launches():
    """Notes 8: dense-4 about 86, SST about 91 launches in the origin's style; ours differs."""
    small = Config(width=32)
    arms, ids = study_latency.arms(small, 1), study_latency.prompt_ids(small, 32, 1)
    makers = study_latency.prefill_makers(arms, ids, "eager")
    found = {n: latency_device.dispatched(make()) for n, make in makers.items()}
    dense, towers = found[study_latency.DENSE], found[study_latency.TOWERS]
    assert abs(dense / towers - 1) < 0.2  # as many, whatever the rows
    assert dense > 1.8 * found[study_latency.SOURCE]
    assert latency_device.launched(makers["SST"](), "served") == towers


def test_what_the_device_allows():
    assert latency_device.variants_for(CPU, "auto") == ["served"]
    assert latency_device.variants_for(CPU, "eager, compiled") == ["eager", "compiled"]
    gpu = torch.device("cuda")
    assert latency_device.variants_for(gpu, "auto") == ["eager", "compiled", "graph"]
    for where, asked in ((CPU, "graph"), (gpu, "served"), (CPU, "")):
        with pytest.raises(BadParameter, match="variants=.*accepted"):
            latency_device.variants_for(where, asked)
    said = latency_device.told_variants(CPU, ["served"])
    assert "Not run here**: eager, compiled, graph" in said and "simulated" in said
    assert "Not run" not in latency_device.told_variants(gpu, ["served", *COSTS, "compiled"])


def test_the_verdict_s_words():
    ideals = {64: 1.9, 1024: 1.98}
    fine = latency.judge({64: [1.2, 1.3], 1024: [1.8, 1.9]}, ideals, 2)
    assert not fine.error and "grows" in str(fine) and "median" not in str(fine)
    noisy = latency.judge({64: [1.2, 1.3], 1024: [1.9, 2.0, 2.1]}, ideals, 2)
    assert not noisy.error and noisy.over == (1024,) and "1,024 tokens" in str(noisy)
    for ratios, word in (
        ({64: [1.2], 1024: [2.0, 2.1]}, "above its ideal in every repeat at 1,024"),
        ({64: [1.5, 1.6], 1024: [1.2, 1.4]}, "lower at 1,024"),
        ({64: [1.0, 1.0], 1024: [1.0, 1.0]}, "no nearer to the limit"),
    ):
        told = latency.judge(ratios, ideals, 2)
        assert told.error and "**an error**" in str(told) and word in str(told)
    assert "An error" in latency_device.told_speed([0.3, 1.3])
    assert "No time" in latency_device.told_speed([0.3, 0.9])


@pytest.mark.parametrize(
    "call",
    [
        lambda: latency.judge({64: [1.0]}, {64: 1.9}, 2),
        lambda: latency.judge({64: [1.0], 128: []}, {64: 1.9, 128: 2}, 2),
        lambda: latency.ratio(TINY, 8, latency.cards()["A30"], what="both"),
        lambda: latency.ideal(TINY, 8, "train"),
        lambda: latency.ideal(TINY, 0),
        lambda: latency.least_prompt(0, latency.cards()["A30"], 1e-6),
        lambda: latency.impossible(0.0, 1.0, 1.0),
        lambda: study_latency.sizes(0, 2),
    ],
)
def test_bad_arguments_say_what_is_accepted(call):
    with pytest.raises(BadParameter, match="refused; accepted"):
        call()


def test_the_rehearsal_is_what_the_reports_say():
    for _, true, ours, mistake in rehearsal.rows():
        t, o, m = (float(x.split()[0]) for x in (true, ours, mistake))
        assert abs(o / t - 1) < 0.02 and abs(m / t - 1) > 0.5
