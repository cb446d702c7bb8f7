"""What must hold of the grid and of learning on it: exact success, gradients, arms that differ."""

import numpy as np

from repro.graft import grid


def success_by_hand() -> None:
    """Two by two cells, two steps, even odds: 2 of 16 walks reach the far corner."""
    small = grid.Grid(side=2, traps=(), horizon=2)
    found = grid.success(small, np.zeros((4, 4)))
    assert abs(found - 2 / 16) < 1e-12, f"success {found} != 0.125"


def success_equals_rollouts() -> None:
    """The exact success lies within four standard errors of 4,000 walks."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(25, 4)) + np.array([1, 1, 0, 0])
    exact = grid.success(grid.Grid(), logits)
    walks = grid.rollouts(grid.Grid(), logits, 4000, rng)
    mean = np.mean([w.outcome for w in walks])
    error = 4 * np.sqrt(exact * (1 - exact) / 4000)
    assert abs(mean - exact) < error, f"{mean} is not {exact} within {error}"


def traps_end_walks() -> None:
    """No walk goes on after a trap, and a trap is no success."""
    for walk in grid.rollouts(grid.Grid(), np.zeros((25, 4)), 200, np.random.default_rng(2)):
        inside = set(walk.states[:-1]) & {7, 16, 24}
        assert not inside, f"a walk went on after {inside}"
        assert walk.outcome == (walk.states[-1] == 24), "outcome of a walk"


def gradient_is_that_of_the_score() -> None:
    """The update equals the numerical gradient of mean credit times log probability."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(25, 4)) * 0.1
    group = grid.rollouts(grid.Grid(traps=()), logits, 6, rng)
    while len({w.outcome for w in group}) < 2:
        group = grid.rollouts(grid.Grid(traps=()), logits, 6, rng)
    found = grid._gradient(group, "GRAFT", logits, rng)
    signal = grid.ARMS["GRAFT"](grid.graph.build(group))
    cells = np.concatenate([t.states[:-1] for t in group])
    moves = np.concatenate([t.actions for t in group])

    def objective(at):
        return np.mean(signal * np.log(grid.policy(at)[cells, moves]))

    for cell, move in ((0, 0), (0, 3), (1, 1)):
        step = np.zeros_like(logits)
        step[cell, move] = 1e-5
        slope = (objective(logits + step) - objective(logits - step)) / 2e-5
        assert abs(slope - found[cell, move]) < 1e-6, f"{slope} != {found[cell, move]}"


def outcome_arm_learns() -> None:
    """The outcome arm learns: from under 5 % to over half, else nothing can be compared."""
    curve = grid.learn("outcome (GRPO)", 0, updates=60, rate=30.0)
    assert curve[0] < 0.05 and curve[-1] > 0.5, f"from {curve[0]} to {curve[-1]}"


def placebo_does_not() -> None:
    """Shuffled credit does not learn."""
    curve = grid.learn("shuffled", 0, updates=60, rate=30.0)
    assert curve[-1] < 0.1, f"to {curve[-1]}"


def rate_zero_changes_nothing() -> None:
    """With rate 0 the success stays where it was."""
    curve = grid.learn("GRAFT", 0, updates=5, rate=0.0)
    assert np.ptp(curve) == 0, f"moved by {np.ptp(curve)}"


CHECKS = {
    check.__name__: check
    for check in (
        success_by_hand, success_equals_rollouts, traps_end_walks, gradient_is_that_of_the_score,
        outcome_arm_learns, placebo_does_not, rate_zero_changes_nothing,
    )
}  # fmt: skip
