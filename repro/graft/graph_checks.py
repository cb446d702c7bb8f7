"""What must hold of the trajectory graph, its values and credits: worked vectors, identities.

Sources: arXiv 2609.28963, Eq. 3 to 11; the vectors are worked by hand in the project's notes,
section 9. Everything is reached through its module, so that a planted fault is seen.
"""

import numpy as np

from repro.errors import BadParameter
from repro.graft import canonical, controls, credit, graph, tabular, values

GOLDEN = (
    graph.Trajectory(tuple("SLDG"), ("left", "down", "go"), 1.0),
    graph.Trajectory(tuple("SDF"), ("down", "slip"), 0.0),
    graph.Trajectory(tuple("SDG"), ("down", "go"), 1.0),
)


def _solved(group=GOLDEN, **options):
    built = graph.build(group, **options)
    return built, values.solve(built, method="sparse")


def _near(found, expected, what: str, within: float = 1e-6) -> None:
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    same = found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=within)
    assert same, f"{what}: {found} != {expected}"


def values_by_hand() -> None:
    """Three trajectories worked by hand: V(D) = 0.66, V(L) = 0.6534, V(S) = 0.651222."""
    built, value = _solved()
    at = dict(zip(built.names, value, strict=True))
    _near([at[s] for s in "DLS"], [0.66, 0.6534, 0.651222], "values")


def credits_by_hand() -> None:
    """The detour loses 0.004356, the direct way gains 0.002178, a lone edge gets 0."""
    built, value = _solved()
    expected = [-0.004356, 0, 0.33, 0.002178, -0.66, 0.002178, 0.33]
    _near(credit.one_step(built, value), expected, "one-step credits")


def normalised_by_hand() -> None:
    """At S the credits become -1.4142, 0.7071, 0.7071; at D 0.7071, -1.4142, 0.7071."""
    built, value = _solved()
    found = credit.normalise(built, credit.one_step(built, value))
    expected = [-(2**0.5), 0, 0.5**0.5, 0.5**0.5, -(2**0.5), 0.5**0.5, 0.5**0.5]
    _near(found.advantage, expected, "normalised credits", 1e-4)
    assert found.zeroed == 1, f"steps below the noise: {found.zeroed} != 1"


def controls_by_hand() -> None:
    """GRPO gives 1/3, -2/3, 1/3 to whole trajectories; GiGPO at S 0.3202, -0.6501, 0.3300."""
    built = graph.build(GOLDEN)
    _near(controls.grpo(built)[[0, 3, 5]], [1 / 3, -2 / 3, 1 / 3], "GRPO")
    _near(controls.gigpo(built)[[0, 3, 5]], [0.3202, -0.6501, 0.3300], "GiGPO at S", 5e-5)


def sweeps_equal_the_system() -> None:
    """The paper's sweeps and the linear system agree to a millionth, cycles included."""
    for group in _some():
        built = graph.build(group)
        _near(values.solve(built), values.solve(built, method="sparse"), "sweeps")


def residuals_cancel_at_every_node() -> None:
    """The mean residual over all raw edges that leave a node is 0."""
    for group in _some():
        built, value = _solved(group)
        step = credit.one_step(built, value)
        sums = np.bincount(built.tail, step, minlength=built.n)
        _near(sums, np.zeros(built.n), "sum of residuals at each node", 1e-9)


def gae_adds_nothing_when_exact() -> None:
    """With counted values, raw edges and sinks apart, Graph GAE is the one-step credit."""
    for group in _some():
        built, value = _solved(group)
        found = credit.graph_gae(built, value, lam=0.95)
        _near(found, credit.one_step(built, value), "Graph GAE", 1e-9)


def gae_differs_otherwise() -> None:
    """Edges once each, plain means over actions, or merged sinks: Graph GAE moves."""
    for sinks, weight, edges in (
        ("own", "count", "distinct"), ("own", "uniform", "raw"), ("merged", "count", "raw")
    ):  # fmt: skip
        moved = 0.0
        for group in _some():
            built = graph.build(group, sinks=sinks)
            value = values.solve(built, weight=weight, method="sparse")
            gap = credit.graph_gae(built, value, edges=edges) - credit.one_step(built, value)
            moved = max(moved, np.abs(gap).max())
        assert moved > 0.01, f"{sinks}, {weight}, {edges}: moved by {moved}"


def lone_edges_get_nothing() -> None:
    """A step from a state visited once has credit 0, and stays 0 when normalised."""
    for group in _some():
        built = graph.build(group)
        step = credit.one_step(built, values.solve(built))
        alone = built.out_degree()[built.tail] == 1
        found = credit.normalise(built, step).advantage[alone]
        _near(found, np.zeros(alone.sum()), "normalised credit of lone edges", 0)


def doubling_changes_no_value() -> None:
    """Every trajectory twice: the same values."""
    for group in _some():
        _near(_solved([*group, *group])[1], _solved(group)[1], "values of the doubled group")


def names_do_not_matter() -> None:
    """Other names for states and actions: the same credits."""
    for group in _some():
        renamed = [
            graph.Trajectory(
                tuple(f"s{97 * s % 101}" for s in t.states),
                tuple(f"a{a}" for a in t.actions),
                t.outcome,
            )
            for t in group
        ]
        built, value = _solved(group)
        other, again = _solved(renamed)
        _near(credit.one_step(other, again), credit.one_step(built, value), "credits", 1e-9)


def cut_and_finished_are_apart() -> None:
    """A walk cut in a state does not fix the value of that state for those that walk on."""
    group = [
        graph.Trajectory(("A", "B"), ("x",), 0.0),
        graph.Trajectory(("A", "B", "G"), ("x", "y"), 1.0),
    ]
    built, value = _solved(group)
    at = dict(zip(built.names, value, strict=True))
    _near([at["B"], at["A"]], [0.99, 0.99 * (0.99 + 0) / 2], "values of B and A")


def discount_counts_steps() -> None:
    """A lone success n steps long is worth gamma^n at its start."""
    group = [graph.Trajectory(tuple(range(6)), tuple("abcde"), 1.0)]
    built = graph.build(group)
    _near(values.solve(built, 0.9)[built.tail[0]], 0.9**5, "value at the start")


def tasks_do_not_mix() -> None:
    """A graph over two tasks is refused."""
    group = [graph.Trajectory(("A", "B"), ("x",), 1.0, task) for task in ("one", "two")]
    try:
        graph.build(group)
    except BadParameter as error:
        assert "one task a graph" in str(error)
    else:
        raise AssertionError("a group of two tasks became one graph")


def similar_states_join() -> None:
    """Above tau states join their most similar leader; a chain is one node by linkage only."""
    angles = np.deg2rad([0, 20, 40, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1)
    _near(canonical.leader(vectors, 0.9), [0, 0, 1, 2], "leader clustering")
    _near(canonical.linked(vectors, 0.9), [0, 0, 0, 1], "single linkage")


CHECKS = {
    check.__name__: check
    for check in (
        values_by_hand, credits_by_hand, normalised_by_hand, controls_by_hand,
        sweeps_equal_the_system, residuals_cancel_at_every_node, gae_adds_nothing_when_exact,
        gae_differs_otherwise, lone_edges_get_nothing, doubling_changes_no_value,
        names_do_not_matter, cut_and_finished_are_apart, discount_counts_steps,
        tasks_do_not_mix, similar_states_join,
    )
}  # fmt: skip


def _some(n: int = 4) -> list[list[graph.Trajectory]]:
    """Groups of random processes with mixed outcomes."""
    found, seed = [], 0
    while len(found) < n:
        rng = np.random.default_rng(seed)
        group, _ = tabular.rollouts(tabular.draw(rng), 6, rng)
        found += [group] if tabular.mixed(group) else []
        seed += 1
    return found
