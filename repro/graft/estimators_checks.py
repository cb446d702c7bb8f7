"""What must hold of the tabular study: true advantages, the table of the notes, Proposition 2."""

import numpy as np

from repro.graft import graph, study_estimators, tabular

TABLE = {  # the notes' section 9: 199 groups of the seeds 0 to 299
    "GRPO": 0.1986, "GiGPO step part": 0.1112, "RTMC": 0.0253, study_estimators.GRAFT: 0.0175,
}  # fmt: skip


def _two() -> tabular.Process:
    """State 0: action 0 leads to the goal, action 1 back to 0; even odds; two steps."""
    return tabular.Process(np.array([[1, 0], [1, 1]]), np.full((2, 2), 0.5), horizon=2)


def true_values_by_hand() -> None:
    """Two states, two steps: V(0, 0) = 0.99 (0.5 + 0.5 x 0.495) = 0.740025."""
    found = tabular.value(_two())
    expected = [0.99 * 0.5 * (1 + 0.495), 0.495, 0.0]
    assert np.allclose(found[:, 0], expected, atol=1e-12), f"{found[:, 0]} != {expected}"


def true_advantages_average_to_zero() -> None:
    """At every state and time the policy's mean advantage is 0."""
    rng = np.random.default_rng(3)
    process = tabular.draw(rng)
    v = tabular.value(process)
    for t in range(process.horizon):
        ahead = 0.99 * (process.policy * v[t + 1][process.follow]).sum(1)
        gap = np.abs(ahead - v[t])[: process.goal].max()
        assert gap < 1e-12, f"mean advantage at time {t}: {gap}"


def walks_follow_the_process() -> None:
    """Every step of a walk is one of the successor table, and stops at goal or horizon."""
    rng = np.random.default_rng(5)
    process = tabular.draw(rng)
    group, passed = tabular.rollouts(process, 20, rng)
    for walk, states in zip(group, passed, strict=True):
        reached = process.follow[states[:-1], list(walk.actions)]
        assert np.array_equal(reached, states[1:]), "a step leaves the successor table"
        done = states[-1] == process.goal
        assert walk.outcome == done and (done or len(walk) == process.horizon), "a walk's end"


def table_of_the_notes() -> None:
    """On a quarter of the notes' groups the errors are within 40 % of the table's."""
    held = study_estimators.groups(75, 8, 0)
    assert len(held) > 40, f"{len(held)} groups of 75 have successes and failures"
    found = [study_estimators.errors(study_estimators.signals(g), t) for g, t in held]
    for name, expected in TABLE.items():
        mean = float(np.mean([one[name] for one in found]))
        assert abs(mean / expected - 1) < 0.4, f"{name}: {mean:.4f}, the notes have {expected}"


def proposition_holds_where_it_applies() -> None:
    """Where Proposition 2's condition is met, its conclusion is."""
    met = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        process = tabular.draw(rng)
        group, passed = tabular.rollouts(process, 16, rng)
        if tabular.mixed(group):
            found = study_estimators.proposition(group, process, passed)
            applies = found["left"] <= found["right"]
            met += applies
            assert found["better"] or not applies, f"seed {seed}: {found}"
    assert met > 2, f"the condition was met {met} times only"


def aliases_hide_states() -> None:
    """With all states under one name but the goal, the graph has one node and the sinks."""
    process = tabular.draw(np.random.default_rng(0))
    names = np.zeros(len(process.follow), int)
    group, _ = tabular.rollouts(process, 8, np.random.default_rng(0), names)
    built = graph.build(group)
    assert np.unique(built.tail).size == 1, "an aliased state kept its own node"


CHECKS = {
    check.__name__: check
    for check in (
        true_values_by_hand, true_advantages_average_to_zero, walks_follow_the_process,
        table_of_the_notes, proposition_holds_where_it_applies, aliases_hide_states,
    )
}  # fmt: skip
