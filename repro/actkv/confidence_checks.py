"""What must hold of `repro.actkv.confidence`: worked vectors and identities, each in milliseconds.

Sources: arXiv 2609.31395, Algorithm 2; the vectors are worked by hand in the project's notes,
section 3. Everything is reached through the module, so that a planted fault is seen.
"""

import numpy as np

from repro.actkv import confidence

FALLING = (0.99, 0.90, 0.60, 0.30)  # top probability: confidence falls from left to right
TRACE = (4.1, 4.0, 3.9, 3.8, 2.6, 2.7, 2.5, 2.6, 1.9, 1.8, 1.7, 1.9)
SMALL = {"window": 4, "stride": 2, "bottom": 0.5}
T = "topk_mean_neglogp"


def spread_logits(top: float, size: int = 6) -> np.ndarray:
    """Logits [V] of a distribution with one token at `top` and the rest spread evenly."""
    return np.log([top, *[(1 - top) / (size - 1)] * (size - 1)])


def _random_logits() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=2.0, size=(8, 200))


def _sharpened(values: np.ndarray, beta: float) -> np.ndarray:
    return confidence.token_signal(beta * values, T, 20)


def _reading(kind: str, top_k: int) -> np.ndarray:
    """Confidence over the worked example, left to right."""
    logits = np.stack([spread_logits(p) for p in FALLING])
    tokens = np.zeros(len(FALLING), dtype=int) if kind == "sampled_surprisal" else None
    return confidence.to_confidence(
        confidence.token_signal(logits, kind, top_k, tokens), kind, top_k
    )


def _slope_of(values: np.ndarray) -> float:
    return confidence.trend(values, window=1, stride=1, bottom=1.0).slope


def _near(found, expected, what: str, tolerance: float = 5e-4) -> None:
    assert np.allclose(found, expected, rtol=0, atol=tolerance), f"{what}: {found} != {expected}"


def worked_example_values() -> None:
    """Entropy and T of the four-column example have the values worked by hand."""
    logits = np.stack([spread_logits(p) for p in FALLING])
    _near(confidence.token_signal(logits, T, 3), [4.146, 2.643, 1.854, 1.712], "T, k = 3")
    _near(confidence.token_signal(logits, T, 1), [0.010, 0.105, 0.511, 1.204], "T, k = 1")
    _near(confidence.token_signal(logits, "entropy"), [0.072, 0.486, 1.317, 1.737], "entropy")


def topk_mean_is_a_confidence() -> None:
    """At k = 3, T falls as the example becomes less sure."""
    _near(_slope_of(_reading(T, 3)), -0.809, "slope of T, k = 3")


def negated_topk_mean_points_the_wrong_way() -> None:
    """At k = 3, minus T rises as the example becomes less sure."""
    logits = np.stack([spread_logits(p) for p in FALLING])
    _near(_slope_of(-confidence.token_signal(logits, T, 3)), 0.809, "slope of -T, k = 3")


def top1_is_a_surprisal() -> None:
    """At k = 1, T rises as the example becomes less sure, and is negated."""
    logits = np.stack([spread_logits(p) for p in FALLING])
    _near(_slope_of(confidence.token_signal(logits, T, 1)), 0.399, "slope of T, k = 1")
    _near(_slope_of(_reading(T, 1)), -0.399, "slope of the confidence from T, k = 1")


def every_confidence_falls_with_the_top_probability() -> None:
    """Every signal, once converted, falls as the example becomes less sure."""
    for kind in confidence.KINDS:
        for top_k in (1, 3):
            values = _reading(kind, top_k)
            assert (np.diff(values) < 0).all(), f"{kind}, k = {top_k}: {values} does not fall"


def peaked_is_above_uniform_over_the_top_20() -> None:
    """T is larger for a peaked distribution than for one uniform over 20 tokens."""
    peaked, flat = np.full(1000, -8.0), np.full(1000, -8.0)
    peaked[0], flat[:20] = 8.0, 8.0
    signal = confidence.token_signal(np.stack([peaked, flat]), T, 20)
    found = confidence.to_confidence(signal, T, 20)
    assert found[0] > found[1], f"peaked {found[0]:.3f} is not above uniform {found[1]:.3f}"


def past_the_turning_point_t_rises() -> None:
    """Past T = H, flattening further makes T rise."""
    even = spread_logits(1 / 6)
    found = confidence.token_signal(np.stack([spread_logits(0.3), even]), T, 3)
    _near(found, [1.712, 1.792], "T at p = 0.3 and 1/6")
    assert confidence.sharpening_slope(spread_logits(0.3), 3) < 0, "T - H is not below 0 there"


def never_below_ln_k() -> None:
    """T is never below ln k."""
    logits = _random_logits()
    for k in (1, 5, 20, 200):
        low = confidence.token_signal(logits, T, k).min()
        assert low >= np.log(k) - 1e-12, f"T = {low} is below ln {k}"


def parts_sum_to_t() -> None:
    """ln k, the divergence and minus ln M sum to T."""
    logits = _random_logits()
    parts = confidence.decomposition(logits, 20)
    assert (parts.kl >= 0).all() and (parts.minus_ln_m >= 0).all(), "a part is negative"
    _near(parts.total, confidence.token_signal(logits, T, 20), "ln k + KL - ln M", 1e-9)


def derivative_is_t_minus_h() -> None:
    """The derivative of T by sharpening is T minus H."""
    logits, step = _random_logits(), 1e-5
    slope = (_sharpened(logits, 1 + step) - _sharpened(logits, 1 - step)) / (2 * step)
    _near(confidence.sharpening_slope(logits, 20), slope, "dT/d beta against T - H", 1e-6)


def falling_trace_raises_the_budget() -> None:
    """The falling trace of twelve values raises 512 to 896."""
    found = confidence.next_budget(confidence.to_confidence(TRACE, T, 20), 512, **SMALL)
    assert found.budget == 896 and found.raised, f"budget {found.budget}, not 896"
    _near(found.pooled, [3.8, 2.6, 2.5, 1.8, 1.7], "window minima", 1e-12)
    assert found.kept.tolist() == [2, 3, 4], f"kept windows {found.kept}"
    _near(found.slope, -0.4, "slope", 1e-9)


def negated_trace_looks_at_other_windows() -> None:
    """Negated, the same trace keeps other windows and the budget stays."""
    found = confidence.next_budget(np.negative(TRACE), 512, **SMALL)
    assert found.budget == 512 and not found.raised, f"budget {found.budget}, not 512"
    _near(found.pooled, [-4.1, -3.9, -2.7, -2.6, -1.9], "window minima", 1e-12)
    assert found.kept.tolist() == [0, 1, 2], f"kept windows {found.kept}"
    _near(found.slope, 0.7, "slope", 1e-9)


def ladder_of_budgets() -> None:
    """Eight raises lead from 512 to the cap of 30,000."""
    ladder, falling = [512], np.arange(200, 0, -1.0)
    while ladder[-1] < 30_000 and len(ladder) < 20:
        ladder.append(confidence.next_budget(falling, ladder[-1]).budget)
    expected = [512, 896, 1568, 2744, 4802, 8403, 14705, 25733, 30000]
    assert ladder == expected, f"ladder {ladder}"
    top = confidence.next_budget(falling, 30_000)
    assert top.budget == 30_000 and not top.raised, f"above the upper limit: {top}"


def window_index_is_the_axis() -> None:
    """The line is fitted over window indices, where ranks would turn its sign."""
    values = np.full(11, 9.0)
    values[[0, 1, 10]] = 0.0, 3.0, 1.0
    options = {"window": 1, "stride": 1, "bottom": 3 / 11, "lowest": "count"}
    found = confidence.trend(values, **options)
    _near(found.slope, -2.5 / 91, "slope on the window index", 1e-12)
    _near(confidence.trend(values, x="rank", **options).slope, 0.5, "slope on ranks", 1e-12)


def short_traces_never_raise() -> None:
    """Fewer than 144 generated tokens never raise the budget."""
    for length in (0, 1, 63, 64, 143):
        found = confidence.next_budget(np.arange(length, 0, -1.0), 512)
        assert not found.raised, f"{length} tokens raised the budget"
    assert confidence.next_budget(np.arange(144, 0, -1.0), 512).raised, "144 tokens do not raise"


def rising_or_constant_confidence_holds() -> None:
    """Rising or constant confidence leaves the budget as it is."""
    dip = np.full(200, 9.1)
    dip[100] = 0.1  # lies in eight windows: their minima are equal, and so is the fitted line
    for values in (np.arange(200.0), np.full(200, 0.1), dip):
        found = confidence.next_budget(values, 512)
        assert found.budget == 512, f"slope {found.slope}: budget {found.budget}, not 512"


CHECKS = {
    check.__name__: check
    for check in (
        worked_example_values,
        topk_mean_is_a_confidence,
        negated_topk_mean_points_the_wrong_way,
        top1_is_a_surprisal,
        every_confidence_falls_with_the_top_probability,
        peaked_is_above_uniform_over_the_top_20,
        past_the_turning_point_t_rises,
        never_below_ln_k,
        parts_sum_to_t,
        derivative_is_t_minus_h,
        falling_trace_raises_the_budget,
        negated_trace_looks_at_other_windows,
        ladder_of_budgets,
        window_index_is_the_axis,
        short_traces_never_raise,
        rising_or_constant_confidence_holds,
    )
}
