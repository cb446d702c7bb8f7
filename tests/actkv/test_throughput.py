"""Byte counts, attention on pages and the cost of policies, on a tiny random model."""

import weakref

import numpy as np
import pytest
import torch

from repro import digest, notebooks
from repro.actkv import decode, roofline, study_cost, study_throughput
from repro.actkv.cache_checks import tiny
from repro.actkv.study_throughput import Arm
from repro.actkv.throughput_faults import FAULTS


def test_arms_are_timed_with_the_memory_that_is_counted():
    arms = [Arm("stock", 2, 40, 40), Arm("paged", 2, 40, 40), Arm("paged", 4, 10, 40)]
    study_throughput.measure(tiny(), arms, steps=2, repeats=2, seed=0)
    assert all(len(arm.seconds) == 2 and arm.rate > 0 for arm in arms)
    load = roofline.of(tiny())
    assert arms[2].peak_bytes == roofline.cache_bytes(load, 10 + 3, 4)
    assert arms[1].watched == 2 * 3 * 2  # requests, steps with the first, layers
    assert study_throughput.gains(arms[2], arms[1]).shape == (2,)


def test_a_timed_cache_is_gone_before_the_next(monkeypatch):
    alive, real = [], study_throughput.filled

    def filled(*given):
        assert all(seen() is None for seen in alive)
        cache = real(*given)
        alive.append(weakref.ref(cache))
        return cache

    monkeypatch.setattr(study_throughput, "filled", filled)
    study_throughput.measure(tiny(), [Arm("paged", 1, 20, 20)], steps=1, repeats=3, seed=0)
    assert len(alive) == 3


def test_what_a_policy_costs_is_positive_and_rkv_can_be_left_out():
    found = study_cost.round_costs(tiny(), 64, 3, 0.5, most=32, seed=0)
    assert set(found) == {"actkv, token by token", "actkv, one pass", "snapkv", "compaction"}
    assert all(seconds > 0 for seconds in found.values())
    assert "rkv" in study_cost.round_costs(tiny(), 32, 3, 0.5, most=32, seed=0)


def test_bytes_predict_the_paper_s_cards():
    load = roofline.paper_load()
    assert load.entry == 98_304  # 48 layers, 4 heads, 128, bf16
    assert load.entry * 35_000 / 2**30 == pytest.approx(3.204, abs=1e-3)
    found = roofline.on_card(load, roofline.cards()["H200"], 33_000, 0.26, 0.9)
    assert found["requests kept"] / found["requests"] == pytest.approx(1 / 0.26, rel=0.05)
    assert 1 < found["alone"] < found["same"] < 1 / 0.26
    n, many, few = found["requests"], found["requests kept"], roofline.kept_entries(33_000, 0.26)
    read = [load.read(k) + k * s * load.entry for k, s in ((n, 33_000), (many, few))]
    assert found["largest"] == pytest.approx(many / n * read[0] / read[1])
    assert roofline.on_card(load, roofline.cards()["A100-40"], 33_000, 0.26, 0.9) is None


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Arm("gpu", 1, 2, 2), "kind='gpu'"),
        (lambda: Arm("paged", 0, 2, 2), "requests=0"),
        (lambda: Arm("paged", 1, 3, 2), "entries=3 is refused; accepted: <= 2"),
        (lambda: roofline.kept_entries(10, 0.0), "kept=0.0"),
        (lambda: study_cost.round_costs(tiny(), 0, 1, 0.5, 1, 0), "entries=0"),
    ],
)
def test_bad_input_is_named(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    "change, says",
    [
        ({"queries": torch.zeros(1, 4, 8, dtype=torch.float16)}, "queries is torch.float16"),
        ({"queries": torch.zeros(1, 3, 8)}, "do not fit pages"),
        ({"lengths": np.array([99])}, "lengths span 99..99; accepted: 1..8"),
    ],
)
def test_attention_on_pages_refuses_what_does_not_fit(change, says):
    given = {
        "queries": torch.zeros(1, 4, 8),
        "pages": torch.zeros(2, 3, 4, 2, 8),
        "table": np.array([[0, 1]]),
        "lengths": np.array([5]),
    }
    with pytest.raises(ValueError, match=says):
        decode.attend(**given | change)


def test_notebook_rests_on_cache_and_roofline():
    notebook = notebooks.read("actkv/throughput")
    assert notebook.assets == ("smollm2-135m",) and len(FAULTS) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert {"repro.actkv.roofline", "repro.actkv.decode", "repro.actkv.cache"} <= set(modules)
