import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from repro.actkv import confidence, rows
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/actkv.json").read_text())
T = "topk_mean_neglogp"
LOGITS = arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(2, 30)),
    elements=st.floats(-20, 20, allow_subnormal=False),
)


def worked_logits():
    p = np.array(GOLDEN["worked_example"]["p"])[:, None]
    return np.log(np.hstack([p, np.repeat((1 - p) / 5, 5, axis=1)]))


# The notes' reference code (section 6.1), written again as an oracle, with one repair: there
# tied minima give polyfit's rounding noise as slope (-1e-16), which raises the budget.
def oracle_t(row, k):
    p = np.exp(row - row.max())
    return -np.sort(np.log(p / p.sum()))[-k:].mean()


def oracle_budget(values, budget, w=64, s=8, b=0.10):
    if len(values) < w:
        return budget
    pooled = np.array([min(values[i : i + w]) for i in range(0, len(values) - w + 1, s)])
    kept = np.flatnonzero(pooled <= np.quantile(pooled, b))
    if len(kept) < 2:
        return budget
    slope = np.polyfit(kept, pooled[kept], 1)[0]
    return min(int(1.75 * budget), 30_000) if slope < -1e-9 else budget


def test_worked_example_against_the_notes():
    golden = GOLDEN["worked_example"]
    for k in (3, 1):
        found = confidence.token_signal(worked_logits(), T, k)
        assert found == pytest.approx(golden[f"T{k}"], abs=5e-4)
        for sign, name in ((1, f"T{k}"), (-1, f"-T{k}")):
            slope = confidence.trend(sign * found, 1, 1, 1.0).slope
            assert slope == pytest.approx(golden["slopes"][name], abs=5e-4)
    found = confidence.token_signal(worked_logits(), "entropy")
    assert found == pytest.approx(golden["entropy"], abs=5e-4)
    assert confidence.token_signal(np.zeros(6), T, 3) == pytest.approx(1.792, abs=5e-4)


@pytest.mark.parametrize(("name", "sign"), [("as_written", 1), ("negated", -1)])
def test_worked_trace(name, sign):
    golden = GOLDEN["trace"]
    options = {k: golden[k] for k in ("window", "stride", "bottom")}
    found = confidence.next_budget(sign * np.array(golden["T"]), 512, **options)
    assert found.budget == golden[name]["budget"]
    assert found.pooled == pytest.approx(golden[name]["pooled"])
    assert found.kept.tolist() == golden[name]["kept"]
    assert found.slope == pytest.approx(golden[name]["slope"])


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_ladder(rounding):
    golden = GOLDEN["ladder"][rounding]
    falling = np.arange(200, 0, -1.0)
    for low, high in zip(golden[:-1], golden[1:], strict=True):
        assert confidence.next_budget(falling, low, rounding=rounding).budget == high


def test_reason_says_what_happened():
    falling = np.arange(200, 0, -1.0)
    assert confidence.next_budget(falling, 512).reason.startswith("raised 512 to 896")
    assert confidence.next_budget(falling, 30_000).reason.startswith("held at 30000")
    assert "not below 0" in confidence.next_budget(-falling, 512).reason
    assert "0 kept windows of 0" in confidence.next_budget(falling[:9], 512).reason


def test_fit_since_the_last_raise_drops_the_older_tokens():
    values = np.r_[np.arange(300, 100, -1.0), np.arange(0, 200.0)]  # falls, then rises
    values[200:] += 50
    whole = confidence.next_budget(values, 512)
    since = confidence.next_budget(values, 512, fit="since_raise", since=200)
    assert since.pooled.size == 18 and whole.pooled.size == 43
    assert since.budget == 512 and since.slope > 0


def test_lowest_by_count_and_by_quantile_differ_on_ties():
    values = np.r_[np.zeros(5), np.ones(15)]
    kept = {
        rule: confidence.trend(values, 1, 1, 0.1, lowest=rule).kept.tolist()
        for rule in ("quantile", "count")
    }
    assert kept == {"quantile": [0, 1, 2, 3, 4], "count": [0, 1]}
    assert confidence.trend(np.arange(30.0), 1, 1, 0.1, lowest="count").kept.size == 3


@given(LOGITS, st.data())
def test_t_is_the_oracle_and_splits_into_its_three_parts(logits, data):
    k = data.draw(st.integers(1, logits.shape[-1]))
    found = confidence.token_signal(logits, T, k)
    assert found == pytest.approx([oracle_t(row, k) for row in logits], abs=1e-9)
    parts = confidence.decomposition(logits, k)
    assert parts.total == pytest.approx(found, abs=1e-9)
    assert (parts.kl >= -1e-12).all() and (parts.minus_ln_m >= -1e-12).all()
    assert (found >= np.log(k) - 1e-12).all()


@given(LOGITS)
def test_top1_is_a_surprisal_and_the_whole_vocabulary_a_confidence(logits):
    size = logits.shape[-1]
    assert (confidence.sharpening_slope(logits, 1) <= 1e-9).all()
    assert (confidence.sharpening_slope(logits, size) >= -1e-9).all()
    most = confidence.token_signal(logits, "max_logp")
    best = confidence.token_signal(logits, "sampled_surprisal", tokens=logits.argmax(-1))
    assert confidence.token_signal(logits, T, 1) == pytest.approx(-most, abs=1e-12)
    assert best == pytest.approx(-most, abs=1e-12)


@given(st.integers(0, 400), st.integers(0, 2**32 - 1))
def test_next_budget_is_the_oracle(length, seed):
    values = np.random.default_rng(seed).normal(size=length).cumsum()
    assert confidence.next_budget(values, 512).budget == oracle_budget(values, 512)


@given(st.floats(-1e3, 1e3), st.integers(144, 300))
def test_a_constant_trace_holds(level, length):
    assert confidence.next_budget(np.full(length, level), 512).slope == 0


def test_a_block_at_a_time_changes_nothing(monkeypatch):
    logits = np.random.default_rng(0).normal(size=(5, 7, 40))
    tokens = logits.argmin(-1)
    calls = [(kind, 20, tokens) for kind in confidence.KINDS]
    whole = [confidence.token_signal(logits, *call) for call in calls]
    monkeypatch.setattr(rows, "_BLOCK", 120)
    for call, expected in zip(calls, whole, strict=True):
        found = confidence.token_signal(logits, *call)
        assert found.shape == (5, 7)
        assert np.array_equal(found, expected)


def test_torch_tensors_of_every_float_type():
    torch = pytest.importorskip("torch")
    values = torch.randn(4, 50, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        tensor = values.to(dtype)
        expected = confidence.token_signal(tensor.detach().double().numpy())
        assert confidence.token_signal(tensor) == pytest.approx(expected, abs=1e-5)
    tokens = torch.zeros(4, dtype=torch.long)
    assert confidence.token_signal(values, "sampled_surprisal", tokens=tokens).shape == (4,)


def test_a_masked_vocabulary_entry_is_fine_until_it_is_needed():
    logits = np.r_[np.zeros(4), -np.inf]
    assert confidence.token_signal(logits, "entropy") == pytest.approx(np.log(4))
    assert confidence.token_signal(logits, T, 4) == pytest.approx(np.log(4))
    with pytest.raises(ValueError, match="raw logits, before top-p"):
        confidence.token_signal(logits, T, 5)


BAD = [
    (lambda: confidence.token_signal(np.zeros(5), T, 0), "top_k=0", "integer >= 1"),
    (lambda: confidence.token_signal(np.zeros(5), T, 6), "top_k=6", "1..5"),
    (lambda: confidence.token_signal(np.zeros(5), T, 2.0), "top_k=2.0", "integer"),
    (lambda: confidence.token_signal(np.zeros(5), "surprise"), "kind='surprise'", "max_logp"),
    (lambda: confidence.token_signal([0.0, np.nan], T, 1), "logits", "NaN"),
    (lambda: confidence.token_signal([0.0, np.inf], T, 1), "logits", "+inf"),
    (lambda: confidence.token_signal(np.zeros((3, 0)), T, 1), "(3, 0)", "V >= 1"),
    (lambda: confidence.token_signal(np.zeros(5), "sampled_surprisal"), "tokens=None", "ids"),
    (
        lambda: confidence.token_signal(np.zeros((2, 5)), "sampled_surprisal", tokens=[0, 5]),
        "0..5",
        "0..V-1 = 0..4",
    ),
    (
        lambda: confidence.token_signal(np.zeros((2, 5)), "sampled_surprisal", tokens=[0]),
        "(1,)",
        "(2,)",
    ),
    (lambda: confidence.to_confidence([1.0], "x"), "kind='x'", "entropy"),
    (lambda: confidence.to_confidence([1.0], T, 0), "top_k=0", ">= 1"),
    (lambda: confidence.decomposition(np.zeros(5), 9), "top_k=9", "1..5"),
    (lambda: confidence.trend([1.0, np.nan]), "confidence", "finite"),
    (lambda: confidence.trend([[1.0]]), "(1, 1)", "[L]"),
    (lambda: confidence.trend([1.0], window=0), "window=0", ">= 1"),
    (lambda: confidence.trend([1.0], stride=-1), "stride=-1", ">= 1"),
    (lambda: confidence.trend([1.0], bottom=0), "bottom=0", "(0, 1]"),
    (lambda: confidence.trend([1.0], bottom=1.5), "bottom=1.5", "(0, 1]"),
    (lambda: confidence.trend([1.0], x="time"), "x='time'", "rank"),
    (lambda: confidence.trend([1.0], lowest="few"), "lowest='few'", "count"),
    (lambda: confidence.next_budget([1.0], 0), "budget=0", ">= 1"),
    (lambda: confidence.next_budget([1.0], 40_000), "budget=40000", "1..upper"),
    (lambda: confidence.next_budget([1.0], 5, scale_up=0.5), "scale_up=0.5", ">= 1"),
    (lambda: confidence.next_budget([1.0], 5, rounding="up"), "rounding='up'", "ceil"),
    (lambda: confidence.next_budget([1.0], 5, fit="last"), "fit='last'", "since_raise"),
    (lambda: confidence.next_budget([1.0], 5, fit="since_raise", since=2), "since=2", "0..1"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
