"""Deliberate faults in the trajectory graph: mistakes that a reader could make."""

import dataclasses

import numpy as np

from repro.faults import Fault


def _each_edge_once(original):
    def build(group, *options, **named):
        built = original(group, *options, **named)
        count = np.bincount(built.distinct())[built.distinct()]
        kept = np.unique(built.distinct(), return_index=True)[1]
        if len(kept) == len(count):
            return built
        first = np.zeros(len(count), bool)
        first[kept] = True
        tail = np.where(first, built.tail, built.head)  # a repeated edge no longer leaves its tail
        return dataclasses.replace(built, tail=tail)

    return build


def _any_task(original):
    def build(group, *options, **named):
        return original([dataclasses.replace(t, task="") for t in group], *options, **named)

    return build


FAULTS = {
    "duplicates_dropped": Fault(
        "an edge that was executed twice counts once", "repro.graft.graph:build", _each_edge_once
    ),
    "cut_states_merged": Fault(
        "the last state of a trajectory is the node of the same name",
        "repro.graft.graph:build",
        lambda original: (
            lambda group, sinks="typed", *rest, **named: original(
                group, "merged", *rest, **{"conflict": "mean"} | named
            )
        ),
    ),
    "tasks_mixed": Fault("one graph over several tasks", "repro.graft.graph:build", _any_task),
    "noise_to_one": Fault(
        "rounding of the solver is divided by its own size",
        "repro.graft.credit:normalise",
        lambda original: (
            lambda built, advantage, *rest, **named: original(
                built, advantage + 1e-12, *rest, **named | {"noise": 0.0, "epsilon": 1e-20}
            )
        ),
    ),
    "undiscounted": Fault(
        "the successor's value is not discounted in the credit",
        "repro.graft.credit:one_step",
        lambda original: lambda built, value, gamma=0.99: value[built.head] - value[built.tail],
    ),
    "wrong_discount": Fault(
        "values are solved with another discount than the credit uses",
        "repro.graft.values:solve",
        lambda original: (
            lambda built, gamma=0.99, *rest, **named: original(built, gamma**2, *rest, **named)
        ),
    ),
    "actions_uniform": Fault(
        "values are means over distinct actions, not over executions",
        "repro.graft.values:transition",
        lambda original: lambda built, weight="count": original(built, "uniform"),
    ),
    "sample_deviation": Fault(
        "the spread at a node divides by n - 1",
        "repro.graft.credit:normalise",
        lambda original: (
            lambda built, advantage, *rest, **named: original(
                built, advantage, *rest, **named | {"deviation": "sample"}
            )
        ),
    ),
    "leader_is_nearest_chain": Fault(
        "leaders are joined by single linkage",
        "repro.graft.canonical:leader",
        lambda original: lambda vectors, tau=0.9: _linked(vectors, tau),
    ),
}


def _linked(vectors, tau):
    from repro.graft import canonical

    return canonical.linked(vectors, tau)
