"""Deliberate faults in learning on the grid."""

import numpy as np

from repro.faults import Fault

FAULTS = {
    "traps_open": Fault(
        "a trap does not end the walk",
        "repro.graft.grid:Grid.over",
        lambda original: lambda self: np.arange(self.side**2) == self.goal,
    ),
    "descends": Fault(
        "the update goes against the credit",
        "repro.graft.grid:_gradient",
        lambda original: lambda *given: -original(*given),
    ),
    "frozen": Fault(
        "no update arrives at the logits",
        "repro.graft.grid:_gradient",
        lambda original: lambda *given: 0 * original(*given),
    ),
    "cut_is_success": Fault(
        "the exact success counts every walk that is not trapped",
        "repro.graft.grid:success",
        lambda original: lambda grid, logits: max(original(grid, logits), 0.5),
    ),
    "shuffle_forgotten": Fault(
        "the placebo learns from the true credit",
        "repro.graft.grid:learn",
        lambda original: (
            lambda arm, *rest, **named: original(
                "GRAFT" if arm == "shuffled" else arm, *rest, **named
            )
        ),
    ),
}
