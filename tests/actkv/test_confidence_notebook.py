"""The confidence notebook: what it measures, and its verdict when k or the code changes."""

import json

import numpy as np
import pytest

from repro import runs, store
from repro.actkv import confidence
from repro.actkv import study_confidence as study

KEY = "actkv/confidence"


@pytest.mark.parametrize(
    "top_k, share, correlation, says",
    [
        (1, 0.0, -1.0, "a surprisal: negate it"),
        (20, 0.9, 0.9, "a confidence: do not negate it"),
        (2, 0.4, 0.3, "not a confidence on these tokens"),
        (2, 0.6, -0.3, "not a confidence on these tokens"),
    ],
)
def test_verdict_follows_k_and_the_tokens(top_k, share, correlation, says):
    text = study.verdict(top_k, share, 0.5, correlation, 1000)
    assert says in text and f"k = {top_k}$:" in text and f"{share:.1%}" in text


def test_lowest_tokens_are_those_under_the_window_minima():
    values = np.array([5.0, 1.0, 4.0, 3.0, 2.0, 6.0, 7.0])
    # windows of 3, 2 apart, cover tokens 0-2, 2-4, 4-6
    assert np.flatnonzero(study.lowest(values, 3, 2)).tolist() == [1, 4]
    assert not study.lowest(values, 8, 1).any()


def test_decisions_look_at_the_tokens_so_far():
    values, ends = np.arange(300, 0, -1.0), np.array([100, 200, 300])
    made = study.decisions(values, ends)
    assert [d.budget for d in made] == [512, 896, 1568]
    assert study.raises(made) == 2 and study.falls(made) == [False, True, True]
    assert study.differ(made, study.decisions(-values, ends))
    assert not study.differ(made, study.decisions(values, ends))


def test_shuffled_control_is_fixed_by_its_seed():
    values, ends = np.random.default_rng(0).normal(size=900), np.arange(150, 901, 150)
    one = study.shuffled_raises(values, ends, 1)
    assert one == study.shuffled_raises(values, ends, 1) != study.shuffled_raises(values, ends, 2)


def test_running_sums_give_a_flat_line_a_slope():
    x = np.arange(5.0, 13.0)
    noise = [study.one_pass_slope(x, np.full(8, c)) for c in np.linspace(3, 4, 101)]
    assert min(noise) < 0 < max(noise) and max(map(abs, noise)) < 1e-12
    assert study.one_pass_slope(x, 2 * x) == pytest.approx(2)
    assert {confidence.trend(np.full(200, c)).slope for c in np.linspace(3, 4, 101)} == {0.0}


def _execute(**given):
    """Outcome, its record and all that it shows, at the smoke profile's size."""
    outcome = runs.execute(runs.plan(KEY, "smoke", given=given))
    if not outcome.good:
        return outcome, None, ""
    executed = json.loads(outcome.notebook)
    shown = [o.get("data", {}) for c in executed["cells"] for o in c.get("outputs", [])]
    return (
        outcome,
        store.find_record(executed),
        "\n".join(d.get("text/markdown", "") for d in shown),
    )


def test_top_k_1_turns_the_verdict():
    _, record, shown = _execute(top_k=1)
    assert all(c["passed"] for c in record["checks"])
    verdict, rest = shown[shown.index("**$k = 1$") :].split("For comparison", 1)
    assert "a surprisal: negate it" in verdict
    assert "k = 20$: a confidence: do not negate it" in rest
    metrics = {m["name"]: m["value"] for m in record["metrics"]}
    assert metrics["share_confidence_k1"] == 0 and metrics["rank_correlation_t1"] < -0.99
    assert metrics["share_confidence_k20"] > 0.5 and metrics["rank_correlation_t20"] > 0.5


def test_planted_negation_is_red_in_the_record_and_nothing_crashes():
    _, record, shown = _execute(fault="negated_confidence")
    red = {c["name"] for c in record["checks"] if not c["passed"]}
    assert {"topk_mean_is_a_confidence", "real_conversion_follows_p_max"} <= red
    assert "top1_is_a_surprisal" not in red and all(record["faults"].values())
    assert "$k = 20$: a confidence: do not negate it" in shown  # the theory does not move
    (arms,) = (c["arms"] for c in record["comparisons"] if "k = 20" in c["metric"])
    assert arms["converted"] == arms["negated"]


def test_top_k_0_is_refused_before_the_model_is_loaded():
    outcome, _, _ = _execute(top_k=0)
    assert not outcome.good
    assert "top_k=0 is refused; accepted: an integer >= 1." in outcome.message
