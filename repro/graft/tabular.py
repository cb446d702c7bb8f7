"""Random deterministic decision processes whose true advantages are known (synthetic).

The family of the project's notes, section 9: S states, A actions, a random successor table, a
Dirichlet(1) policy, horizon H; the last state is the goal, and reaching it ends the walk.
"""

from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter
from repro.graft.graph import Trajectory


@dataclass(frozen=True)
class Process:
    """follow: [S, A] int, the successor. policy: [S, A]. horizon: steps until the walk is cut."""

    follow: np.ndarray
    policy: np.ndarray
    horizon: int

    @property
    def goal(self) -> int:
        return len(self.follow) - 1


def draw(
    rng: np.random.Generator, states: int = 12, actions: int = 3, horizon: int = 12
) -> Process:
    """One process. Raises BadParameter for sizes below 2 states, 1 action or 1 step."""
    if states < 2 or actions < 1 or horizon < 1:
        raise BadParameter(
            f"states={states}, actions={actions}, horizon={horizon}: accepted: states >= 2, "
            "actions >= 1, horizon >= 1."
        )
    follow = rng.integers(states, size=(states, actions))
    return Process(follow, rng.dirichlet(np.ones(actions), size=states), horizon)


def value(process: Process, gamma: float = 0.99) -> np.ndarray:
    """True V of each state with t steps taken, [H + 1, S]: the goal is worth 1, being cut 0."""
    found = np.zeros((process.horizon + 1, len(process.follow)))
    found[:, process.goal] = 1.0
    for t in reversed(range(process.horizon)):
        ahead = gamma * (process.policy * found[t + 1][process.follow]).sum(1)
        found[t] = np.where(np.arange(len(ahead)) == process.goal, 1.0, ahead)
    return found


def rollouts(
    process: Process, n: int, rng: np.random.Generator, alias: np.ndarray | None = None
) -> tuple[list[Trajectory], list[np.ndarray]]:
    """`n` walks from state 0, and of each the states that were really passed, [T + 1].

    alias: [S] int, the name under which each state is seen; equal names cannot be told apart.
    """
    group, passed = [], []
    for _ in range(n):
        state, states, actions = 0, [0], []
        while len(actions) < process.horizon and (state != process.goal):
            action = int(rng.choice(process.policy.shape[1], p=process.policy[state]))
            state = int(process.follow[state, action])
            states.append(state)
            actions.append(action)
        seen = states if alias is None else [int(alias[s]) for s in states]
        group.append(Trajectory(tuple(seen), tuple(actions), float(state == process.goal)))
        passed.append(np.array(states))
    return group, passed


def advantages(
    process: Process, group: list[Trajectory], passed: list[np.ndarray], gamma: float = 0.99
) -> np.ndarray:
    """True time-dependent advantage of every executed step, [E]: gamma V(s', t + 1) - V(s, t)."""
    v = value(process, gamma)
    found = []
    for trajectory, states in zip(group, passed, strict=True):
        t = np.arange(len(trajectory))
        found.append(gamma * v[t + 1, states[1:]] - v[t, states[:-1]])
    return np.concatenate(found)


def mixed(group: list[Trajectory]) -> bool:
    """Whether the group holds successes and failures; otherwise no method has a signal."""
    return len({t.outcome for t in group}) == 2
