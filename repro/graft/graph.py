"""The trajectory graph: every executed step of a group is one edge instance between two nodes.

Source: arXiv 2609.28963, section on graph construction. A graph belongs to one task and one
update. The paper marks the last state of each trajectory, finished or cut, as a sink. What
happens when another trajectory passes through that state is not said; `sinks` names the readings.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter
from repro.graft import canonical

SINKS = ("typed", "own", "merged")


@dataclass(frozen=True)
class Trajectory:
    """One rollout of T steps: T + 1 states, T actions, and its outcome R in [0, 1].

    The paper's sinks carry the success indicator, 0 or 1, whatever the environment pays.
    """

    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    outcome: float
    task: str = ""

    def __post_init__(self):
        if not self.actions or len(self.states) != len(self.actions) + 1:
            raise BadParameter(
                f"a trajectory has {len(self.states)} states and {len(self.actions)} actions; "
                "accepted: one action or more, and one state more than actions."
            )
        if not 0 <= self.outcome <= 1:
            raise BadParameter(f"outcome={self.outcome!r} is refused; accepted: 0 to 1.")

    @classmethod
    def of_steps(
        cls,
        steps: Sequence[tuple[Hashable, Hashable, Hashable]],
        outcome: float,
        task: str = "",
    ) -> "Trajectory":
        """From (state, action, next state) triples; a step that starts elsewhere is refused."""
        for t, ((_, _, reached), (left, _, _)) in enumerate(zip(steps, steps[1:], strict=False)):
            if reached != left:
                raise BadParameter(
                    f"steps are disconnected: step {t} reaches {reached!r} and step {t + 1} "
                    f"starts at {left!r}; accepted: each step starts where the last one ended."
                )
        states = [s for s, _, _ in steps] + [s for _, _, s in steps[-1:]]
        return cls(tuple(states), tuple(a for _, a, _ in steps), outcome, task)

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False)
class TrajectoryGraph:
    """n nodes and E raw edge instances, one a step, in the order (trajectory, step).

    tail, head, action: [E] int. trajectory, step: [E] int. left: [E] int, steps that follow in
    the same trajectory. sink: [n] float, the outcome of a sink and NaN elsewhere. names: what
    each node stands for. conflicts: merged sinks in which trajectories ended differently.
    """

    tail: np.ndarray
    head: np.ndarray
    action: np.ndarray
    trajectory: np.ndarray
    step: np.ndarray
    left: np.ndarray
    sink: np.ndarray
    names: tuple[Hashable, ...]
    conflicts: int = 0

    @property
    def n(self) -> int:
        return len(self.names)

    def out_degree(self) -> np.ndarray:
        """Raw instances that leave each node, [n]."""
        return np.bincount(self.tail, minlength=self.n)

    def distinct(self) -> np.ndarray:
        """For every instance the number of its distinct edge (tail, action, head), [E]."""
        edges = np.stack([self.tail, self.action, self.head], axis=1)
        return np.unique(edges, axis=0, return_inverse=True)[1].reshape(-1)


def build(
    group: Sequence[Trajectory],
    sinks: str = "typed",
    phi: Callable[[Sequence[Hashable]], np.ndarray] = canonical.exact,
    conflict: str = "refuse",
) -> TrajectoryGraph:
    """The graph of one task's rollouts.

    phi: states -> node ids; called once on all states, trajectory after trajectory.
    sinks: where a last edge leads. ``typed``: to one node per outcome, apart from all states;
        ``own``: to a node of that trajectory alone; ``merged``: to the node of its last state,
        which then has a fixed value even where other trajectories walk on from it.
    conflict: a merged sink with two outcomes is refused, or takes their ``mean``.

    Raises BadParameter for an empty group, several tasks in it, unknown options, or a conflict.
    """
    for name, value, accepted in (
        ("sinks", sinks, SINKS),
        ("conflict", conflict, ("refuse", "mean")),
    ):
        if value not in accepted:
            raise BadParameter(f"{name}={value!r} is not known; accepted: {accepted}.")
    if not group:
        raise BadParameter("group is empty; accepted: one trajectory or more.")
    if len(tasks := {t.task for t in group}) > 1:
        raise BadParameter(f"group mixes the tasks {sorted(tasks)}; accepted: one task a graph.")
    every = [state for t in group for state in t.states]
    ids = np.asarray(phi(every), dtype=np.int64)
    if ids.shape != (len(every),):
        raise BadParameter(f"phi gave shape {ids.shape}; accepted: ({len(every)},).")
    first = {int(node): i for i, node in reversed([*enumerate(ids)])}
    names = [every[first[node]] if node in first else None for node in range(int(ids.max()) + 1)]

    lengths = np.array([len(t) for t in group])
    trajectory = np.repeat(np.arange(len(group)), lengths)
    starts = np.cumsum(lengths) - lengths
    step = np.arange(lengths.sum()) - starts[trajectory]
    place = np.arange(lengths.sum()) + trajectory  # of the tail among all states
    tail, head = ids[place], ids[place + 1]
    ends = starts + lengths - 1
    outcomes = np.array([float(t.outcome) for t in group])
    ended: dict[int, list[float]] = {}
    for i, (end, outcome) in enumerate(zip(ends, outcomes, strict=True)):
        key = {"typed": ("sink", outcome), "own": ("sink", outcome, i), "merged": None}[sinks]
        if key is not None:
            node = names.index(key, len(first)) if key in names[len(first) :] else len(names)
            if node == len(names):
                names.append(key)
            head[end] = node
        ended.setdefault(int(head[end]), []).append(outcome)
    odd = {node: held for node, held in ended.items() if len(set(held)) > 1}
    if odd and conflict == "refuse":
        node = min(odd)
        raise BadParameter(
            f"outcomes contradict each other: trajectories that end in {names[node]!r} have "
            f"{sorted(set(odd[node]))}; accepted: one outcome a sink, or conflict='mean'."
        )
    sink = np.full(len(names), np.nan)
    for node, held in ended.items():
        sink[node] = np.mean(held)
    numbers = canonical.exact([action for t in group for action in t.actions])
    left = lengths[trajectory] - 1 - step
    return TrajectoryGraph(
        tail, head, numbers, trajectory, step, left, sink, tuple(names), len(odd)
    )
