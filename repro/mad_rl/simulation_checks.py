"""What must hold of `repro.mad_rl.simulation`: sums over all groups, closed forms, fixed points."""

import numpy as np

from repro.mad_rl import divergences, rewards, simulation

P, T, G = np.array([0.2, 0.45, 0.35]), np.array([0.5, 0.3, 0.2]), 6


def _same(found, expected, what: str, atol: float = 1e-10) -> None:
    same = np.allclose(found, expected, rtol=0, atol=atol)
    assert same, f"{what}: {np.asarray(found)} != {np.asarray(expected)}"


def descent_is_the_slope_in_the_logits() -> None:
    """Finite differences over logits give the exact descent of all four divergences."""
    z, step = np.log(P), 1e-6
    for name in divergences.NAMES:
        slopes = []
        for way in np.eye(3):
            shifted = [np.exp(z + s * step * way) for s in (1, -1)]
            ends = [divergences.divergence(name, e / e.sum(), T) for e in shifted]
            slopes.append((ends[0] - ends[1]) / (2 * step))
        _same(simulation.descent(name, P, T), -np.array(slopes), f"descent of {name}", 1e-7)


def groups_are_complete() -> None:
    """All groups are there once, and their probabilities sum to 1 with mean p."""
    n = simulation.all_groups(3, G)
    assert len(n) == 28 == len({tuple(row) for row in n}) and (n.sum(1) == G).all()
    weights = simulation.chances(n, P)
    _same(weights.sum(), 1, "sum of the probabilities")
    _same(weights @ n / G, P, "mean frequencies")


def expectation_over_ordered_samples() -> None:
    """K = 2, G = 4: the expectation agrees with all 16 sequences, rewarded one by one."""
    p, t = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    for name in divergences.NAMES:
        total = np.zeros(2)
        for code in range(16):
            drawn = np.array([code >> i & 1 for i in range(4)])
            r = rewards.group(name, drawn, t, epsilon=0.0)
            a = r - r.mean()
            total += p[drawn].prod() * (a[:, None] * (np.eye(2)[drawn] - p)).mean(0)
        _same(simulation.expected_update(name, p, t, 4), total, f"expected {name} update")


def l2_without_oneself_is_exact() -> None:
    """Leave-one-out and no group mean: the expected L2 update is the exact descent."""
    found = simulation.expected_update("l2", P, T, G, leave_one_out=True, centre=False)
    _same(found, simulation.descent("l2", P, T), "expected update")


def own_count_pulls_to_common_categories() -> None:
    """Plug-in L2, no group mean: the extra term is the gradient of |p|^2 / 2G."""
    found = simulation.expected_update("l2", P, T, G, centre=False)
    extra = P * (P - P @ P) / G
    _same(found - simulation.descent("l2", P, T), extra, "extra pull")


def l2_rests_where_the_closed_form_says() -> None:
    """The four L2 estimators have no expected update at their closed-form resting points."""
    for leave_one_out in (False, True):
        for centre in (False, True):
            rest = simulation.l2_resting_point(T, G, leave_one_out, centre)
            options = {"leave_one_out": leave_one_out, "centre": centre}
            _same(rest.sum(), 1, "sum")
            _same(simulation.expected_update("l2", rest, T, G, **options), 0, f"update, {options}")


def a_uniform_target_has_no_bias() -> None:
    """At the uniform target every estimator rests exactly on it, by symmetry."""
    flat = np.full(3, 1 / 3)
    for name in divergences.NAMES:
        for scale in ("none", "group"):
            found = simulation.expected_update(name, flat, flat, G, scale=scale)
            _same(found, 0, f"{name}, {scale}")


def large_groups_approach_the_descent() -> None:
    """The expected update comes nearer to the exact descent as the group grows."""
    for name in divergences.NAMES:
        exact = simulation.descent(name, P, T)
        off = [
            np.linalg.norm(simulation.expected_update(name, P, T, group) - exact)
            for group in (5, 50)
        ] / np.linalg.norm(exact)
        assert off[1] < min(off[0], 0.15), f"{name}: off by {off}"


def collapsed_groups_stand_still() -> None:
    """Groups of one category only have advantages 0."""
    n = np.array([[G, 0, 0]])
    for name in divergences.NAMES:
        for scale in ("none", "group"):
            _same(simulation.paid(name, n, T, scale=scale), 0, f"{name}, {scale}")


def sampled_runs_come_near_the_target() -> None:
    """Sampled ascent with leave-one-out L2 ends near the target from a far start."""
    path = simulation.simulate(
        lambda n: simulation.paid("l2", n, T, leave_one_out=True),
        [0.1, 0.1, 0.8],
        16,
        120,
        2.0,
        4,
        np.random.default_rng(0),
    )
    js = divergences.divergence("js", path[-1].mean(0), T)
    assert js < 0.01, f"Jensen-Shannon at the end {js:.3f}"


def temperature_keeps_the_order() -> None:
    """A higher temperature flattens the mix; none changes which category is the most likely."""
    _same(simulation.tempered(P, 1.0), P, "T = 1")
    for temperature in (0.3, 3.0):
        order = np.argsort(simulation.tempered(P, temperature))
        assert order.tolist() == np.argsort(P).tolist(), f"order at T = {temperature}"
    spread = [divergences.entropy(simulation.tempered(P, t)) for t in (0.3, 1.0, 3.0)]
    assert spread == sorted(spread), f"entropies {spread}"


def entropy_bonus_is_blind_to_the_target() -> None:
    """With equal rewards the entropy bonus has the uniform mix as its maximum."""
    _same(simulation.with_entropy_bonus([1, 1, 1], 0.3), 1 / 3, "maximiser")
    _same(simulation.with_entropy_bonus([1, 0], 0.5)[0], 1 / (1 + np.exp(-2)), "two rewards")


CHECKS = {
    check.__name__: check
    for check in (
        descent_is_the_slope_in_the_logits,
        groups_are_complete,
        expectation_over_ordered_samples,
        l2_without_oneself_is_exact,
        own_count_pulls_to_common_categories,
        l2_rests_where_the_closed_form_says,
        a_uniform_target_has_no_bias,
        large_groups_approach_the_descent,
        collapsed_groups_stand_still,
        sampled_runs_come_near_the_target,
        temperature_keeps_the_order,
        entropy_bonus_is_blind_to_the_target,
    )
}
