"""Deliberate faults in the tabular study: mistakes that would make a method look good or bad."""

import numpy as np

from repro.faults import Fault
from repro.graft.graph import Trajectory


def _all_won(group, passed):
    return [Trajectory(t.states, t.actions, 1.0) for t in group], passed


FAULTS = {
    "truth_forgets_the_horizon": Fault(
        "being cut counts as a half success in the true values",
        "repro.graft.tabular:value",
        lambda original: (
            lambda process, gamma=0.99: (
                original(process, gamma)
                + 0.5 * gamma ** (process.horizon - np.arange(process.horizon + 1))[:, None]
            )
        ),
    ),
    "truth_undiscounted": Fault(
        "true values are not discounted",
        "repro.graft.tabular:value",
        lambda original: lambda process, gamma=0.99: original(process, 1.0),
    ),
    "cut_walk_succeeds": Fault(
        "a walk that is cut counts as a success",
        "repro.graft.tabular:rollouts",
        lambda original: lambda *given: _all_won(*original(*given)),
    ),
    "credit_of_the_outcome": Fault(
        "GRAFT's credit is replaced by the outcome's",
        "repro.graft.credit:one_step",
        lambda original: (
            lambda built, value, gamma=0.99: np.where(value[built.head] > 0.5, 0.5, -0.5)
        ),
    ),
    "alias_ignored": Fault(
        "aliased states keep their own names",
        "repro.graft.tabular:rollouts",
        lambda original: lambda process, n, rng, alias=None: original(process, n, rng, None),
    ),
}
