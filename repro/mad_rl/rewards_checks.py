"""What must hold of the rewards, divergences and advantages of MaD-RL (arXiv 2609.31644).

Worked values from the project's notes, section 3.2 and 7; the rest are identities. Everything is
reached through the modules, so that a planted fault is seen.
"""

import numpy as np
from scipy.special import softmax

from repro.mad_rl import advantages, combine, divergences, rewards

TRUNCATED = (0, 0, 1 / 3, 1 / 3, 1 / 3)
P, T = np.array([0.2, 0.45, 0.35]), np.array([0.5, 0.3, 0.2])


def _same(found, expected, what: str, atol: float = 1e-12) -> None:
    same = np.allclose(found, expected, rtol=0, atol=atol)
    assert same, f"{what}: {np.asarray(found)} != {np.asarray(expected)}"


def worked_l2() -> None:
    """L2 in the group {1, 3, 3, invalid}: -1/4 for category 1 and -1/6 for category 3."""
    found = rewards.group("l2", [0, 2, 2, -1], TRUNCATED)
    _same(found[:3], [-1 / 4, -1 / 6, -1 / 6], "L2 rewards")


def worked_forward_kl() -> None:
    """Forward KL in the group {3, 3, 4, 5}: -1/3 for category 3."""
    _same(rewards.group("forward_kl", [2, 2, 3, 4], TRUNCATED)[0], -1 / 3, "forward KL")


def worked_reverse_kl() -> None:
    """Reverse KL in the group {1, 3, 3, 5}, floor 1e-6: -12.43 for the forbidden category 1."""
    found = rewards.group("reverse_kl", [0, 2, 2, 4], TRUNCATED, epsilon=1e-6, clip=99)
    _same(found[0], -12.43, "reverse KL", 5e-3)


def worked_js() -> None:
    """Jensen-Shannon in the group {3, 3, 4, 5}: -0.0912 for category 3."""
    _same(rewards.group("js", [2, 2, 3, 4], TRUNCATED)[0], -0.0912, "Jensen-Shannon", 5e-5)


def derivatives_are_the_divergences_slopes() -> None:
    """Finite differences of each divergence along the simplex give its functional derivative."""
    step = 1e-6
    for name in divergences.NAMES:
        for way in ([1, -1, 0], [0, 1, -1]):
            way = np.array(way)
            ends = [divergences.divergence(name, P + s * step * way, T) for s in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * step)
            _same(divergences.derivative(name, P, T) @ way, slope, f"slope of {name}", 1e-6)


def rewards_are_minus_the_derivative() -> None:
    """At p = f the reward differs from minus the derivative by the same constant everywhere."""
    for name in divergences.NAMES:
        gap = rewards.by_category(name, P, T) + divergences.derivative(name, P, T)
        _same(gap, gap[0], f"{name}: reward + derivative")


def rewards_vanish_at_the_target() -> None:
    """All rewards are 0 where the frequencies are the target's."""
    for name in divergences.NAMES:
        _same(rewards.by_category(name, T, T), 0, f"{name} at the target")


def a_rarer_category_is_paid_more() -> None:
    """At a uniform target, the reward falls as a category becomes more frequent."""
    for name in divergences.NAMES:
        found = rewards.group(name, [0, 0, 0, 1], (0.5, 0.5))
        assert found[3] > 0 > found[0], f"{name}: {found}"


def mean_rewards_are_known() -> None:
    """Means under p: forward KL 0, reverse KL -D(p||t), Jensen-Shannon -D(p||m)/2."""
    mean = {n: P @ rewards.by_category(n, P, T) for n in divergences.NAMES}
    _same(mean["forward_kl"], 0, "mean forward KL reward")
    _same(mean["reverse_kl"], -divergences.divergence("reverse_kl", P, T), "mean reverse KL reward")
    half = divergences.divergence("reverse_kl", P, (P + T) / 2) / 2
    _same(mean["js"], -half, "mean Jensen-Shannon reward")


def the_two_kl_differ_where_they_should() -> None:
    """Forward KL is infinite at a missed category, reverse KL at a forbidden one; not the other."""
    missed, forbidden = ((1, 0), (0.5, 0.5)), ((0.5, 0.5), (1, 0))
    for name, infinite, finite in (
        ("forward_kl", missed, forbidden),
        ("reverse_kl", forbidden, missed),
    ):
        assert np.isinf(divergences.divergence(name, *infinite)), f"{name} is finite at {infinite}"
        _same(divergences.divergence(name, *finite), np.log(2), f"{name} at {finite}")


def js_is_symmetric_and_bounded() -> None:
    """Jensen-Shannon: 0 at equality, symmetric, ln 2 for disjoint mixes."""
    js = divergences.divergence
    _same([js("js", P, P), js("js", (1, 0), (0, 1))], [0, np.log(2)], "ends")
    _same(js("js", P, T), js("js", T, P), "symmetry")


def pooled_hides_what_prompts_show() -> None:
    """Two prompts, all A and all C: 0.4127 pooled, 0.506 a prompt."""
    mixes = np.eye(5)[[0, 2]]
    pooled = divergences.divergence("js", mixes.mean(0), TRUNCATED)
    each = divergences.divergence("js", mixes, np.tile(TRUNCATED, (2, 1)))
    _same(pooled, 0.4127, "pooled", 5e-5)
    _same(each, [0.693, 0.318], "each prompt", 5e-4)


def invalid_outputs_stay_in_the_denominator() -> None:
    """An invalid output lowers every frequency, and costs what a forbidden category costs."""
    _same(rewards.frequencies(rewards.counts([0, 2, 2, -1], 3))[2], 0.5, "frequency of 2 in 4")
    categories = [0, 1, -1, -1]
    asked = {"l2": -0.5, "forward_kl": -1, "js": -np.log(2) / 2}
    for name, value in asked.items():
        found = rewards.group(name, categories, (0.5, 0.5))
        _same(found[2:], value, f"{name}, invalid")
        _same(found[:2], rewards.by_category(name, 0.25, (0.5, 0.5)), f"{name}, valid")
    floor = (1 / 40) / (1 + 1 / 40)  # of a group of 4, after scaling
    found = rewards.group("reverse_kl", categories, (0.5, 0.5))
    _same(found[2], np.log(floor) - np.log(0.5), "reverse KL, invalid")


def an_invalid_group_is_silent() -> None:
    """A group without a valid output has finite, equal rewards: advantages exactly 0."""
    for name in divergences.NAMES:
        found = rewards.group(name, [-1] * 4, TRUNCATED)
        assert np.isfinite(found).all(), f"{name}: {found}"
        assert not advantages.advantages([found]).any(), f"{name} has a signal"


def forbidden_categories_stay_finite() -> None:
    """Where the target is 0, reverse KL is floored; the others need no floor."""
    for name in divergences.NAMES:
        found = rewards.group(name, [0, 1, 2, 3], TRUNCATED, clip=99)
        assert np.isfinite(found).all() and found[0] < found[2], f"{name}: {found}"


def smoothing_fills_and_keeps_the_sum() -> None:
    """Pseudo-counts leave no frequency at 0, and frequencies sum to 1."""
    found = rewards.frequencies([4, 0, 0, 0], alpha=0.5)
    _same(found, [4.5 / 6, 0.5 / 6, 0.5 / 6, 0.5 / 6], "smoothed frequencies")
    _same(divergences.smoothed(TRUNCATED, 0.01).sum(), 1, "sum of the smoothed target")


def others_are_counted_without_oneself() -> None:
    """Leave-one-out: a sample of a category with n of G sees (n - 1)/(G - 1)."""
    _same(rewards.without_itself([3, 1, 0], 0.0), [2 / 3, 0, 0], "frequencies of the others")
    found = rewards.group("l2", [0, 0, 0, 1], (0.5, 0.5), leave_one_out=True)
    _same(found, [-1 / 6, -1 / 6, -1 / 6, 0.5], "L2 rewards against the others")


def prompts_do_not_mix() -> None:
    """Rewards of one prompt do not depend on another's outputs, unless pooled."""
    a, b, c = [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]
    each = [rewards.batch("js", [a, other], (0.5, 0.5))[0] for other in (b, c)]
    _same(each[0], each[1], "rewards of the first prompt")
    both = [rewards.batch("js", [a, other], (0.5, 0.5), pooled=True)[0] for other in (b, c)]
    assert not np.allclose(both[0], both[1]), "pooled rewards ignore the other prompt"


def advantages_are_relative_to_the_group() -> None:
    """Group means are 0; "group" gives deviation 1; "none" keeps the rewards' own size."""
    r = np.array([[0.0, 1, 2, 3], [10, 10, 10, 14]])
    for scale in advantages.SCALES:
        _same(advantages.advantages(r, scale).mean(-1), 0, f"group means, {scale}")
    _same(advantages.advantages(r)[1], [-1, -1, -1, 3], "undivided")
    _same(advantages.advantages(r, "group").std(-1), 1, "deviation by group")
    _same(advantages.advantages(r, "batch").std(), 1, "deviation of the batch")


def equal_rewards_give_exactly_zero() -> None:
    """No NaN and no rounding noise where all rewards of a group are equal."""
    for value in (0.1, -1 / 3, 0.7):
        for scale in advantages.SCALES:
            found = advantages.advantages(np.full((2, 7), value), scale)
            assert not found.any(), f"{scale}: {found}"  # NaN counts as true
    assert advantages.no_signal([[0.1] * 3, [0.1, 0.1, 0.2]]).tolist() == [True, False]


def clipping_is_one_sided() -> None:
    """The surrogate stops a move that went far enough, and never the way back."""
    ratio, a = np.array([1.5, 0.5, 1.5, 0.5, 1.1]), np.array([1, 1, -1, -1, 1.0])
    _same(advantages.surrogate(ratio, a), [1.2, 0.5, -1.5, -0.8, 1.1], "surrogate")


def correctness_ignores_categories() -> None:
    """The control pays every right output alike."""
    _same(rewards.correctness(np.array([True, True, False])), [1, 1, 0], "correctness")


def gate_counts_right_outputs_only() -> None:
    """Under the gate, wrong outputs are invalid: unwanted, and in the denominator."""
    right = np.array([True, True, False, False])
    found = combine.combined("gate", "l2", [0, 1, 0, 1], right, (0.5, 0.5))
    _same(found, [0.25, 0.25, -0.5, -0.5], "gated L2")
    found = combine.combined("sum", "l2", [0, 1, 0, 1], right, (0.5, 0.5), 2.0)
    _same(found, right, "sum at the target's mix")


def every_update_is_a_zero_sum() -> None:
    """Softmax logits move along the simplex: the exact descent sums to 0 and lowers D."""
    z = np.log(P)
    for name in divergences.NAMES:
        r = rewards.by_category(name, P, T)
        way = P * (r - P @ r)
        _same(way.sum(), 0, f"sum of the {name} update")
        moved = divergences.divergence(name, softmax(z + 1e-3 * way), T)
        assert moved < divergences.divergence(name, P, T), f"{name} rises"


CHECKS = {
    check.__name__: check
    for check in (
        worked_l2,
        worked_forward_kl,
        worked_reverse_kl,
        worked_js,
        derivatives_are_the_divergences_slopes,
        rewards_are_minus_the_derivative,
        rewards_vanish_at_the_target,
        a_rarer_category_is_paid_more,
        mean_rewards_are_known,
        the_two_kl_differ_where_they_should,
        js_is_symmetric_and_bounded,
        pooled_hides_what_prompts_show,
        invalid_outputs_stay_in_the_denominator,
        an_invalid_group_is_silent,
        forbidden_categories_stay_finite,
        smoothing_fills_and_keeps_the_sum,
        others_are_counted_without_oneself,
        prompts_do_not_mix,
        advantages_are_relative_to_the_group,
        equal_rewards_give_exactly_zero,
        clipping_is_one_sided,
        correctness_ignores_categories,
        gate_counts_right_outputs_only,
        every_update_is_a_zero_sum,
    )
}
