"""A linear policy over words learns TextWorld games from different credits, at equal budgets.

The logit of a command is a weighted sum over pairs (word of the state's text, word of the
command), hashed to d places. All arms see the same text, and differ in the credit of a step.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from repro.accept import count, one_of
from repro.errors import BadParameter
from repro.graft import canonical, credit, graph, grid, values
from repro.graft.textworld import Game

NODES = ("text", "room", "state")


def _gae(built: graph.TrajectoryGraph) -> np.ndarray:
    ahead = credit.graph_gae(built, values.solve(built), edges="distinct")
    return credit.normalise(built, ahead).advantage


ARMS: dict[str, Callable[[graph.TrajectoryGraph], np.ndarray]] = {
    "outcome (GRPO)": grid.ARMS["outcome (GRPO)"],
    "GiGPO": grid.ARMS["GiGPO"],
    "GRAFT": grid.ARMS["GRAFT"],
    "GRAFT, Graph GAE": _gae,
}
ALL = (*ARMS, "shuffled")


@dataclass(frozen=True, eq=False)
class Task:
    """A game as arrays. features: [pairs, d], one row a command of a state, rows of length 1.

    first: [n + 1] int, the rows of state s are first[s] to first[s + 1]. after: [pairs] int.
    """

    game: Game
    features: np.ndarray
    first: np.ndarray
    after: np.ndarray

    def nodes(self, kind: str) -> Callable[[Sequence[int]], np.ndarray]:
        """phi over state numbers: equal text (as the policy sees it), equal room, or the truth."""
        one_of("nodes", kind, NODES)
        names = {"text": self.game.text, "room": self.game.room, "state": range(self.game.n)}[kind]
        return lambda states: canonical.exact([names[s] for s in states])


def task(game: Game, d: int = 512) -> Task:
    """Features of every command in every state."""
    count("d", d, 8)
    sizes = [len(c) for c in game.commands]
    features = np.zeros((sum(sizes), d))
    row = 0
    for text, commands in zip(game.text, game.commands, strict=True):
        seen = ["", *sorted(set(text.replace("/", " ").replace("|", " ").split()))]
        for command in commands:
            for word in command.split():
                for other in seen:
                    code = zlib.crc32(f"{word} {other}".encode())
                    features[row, code % d] += 1 if code >> 31 else -1
            row += 1
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    first = np.concatenate([[0], np.cumsum(sizes)])
    return Task(game, features, first, np.array([x for each in game.after for x in each], int))


def policy(given: Task, weights: np.ndarray) -> np.ndarray:
    """Probability of each command in its state, [pairs]."""
    logits = given.features @ weights
    state = np.repeat(np.arange(given.game.n), np.diff(given.first))
    highest = np.full(given.game.n, -np.inf)
    np.maximum.at(highest, state, logits)
    e = np.exp(logits - highest[state])
    return e / np.bincount(state, e, minlength=given.game.n)[state]


def success(given: Task, weights: np.ndarray, horizon: int) -> float:
    """Exact probability of winning within `horizon` commands, by forward recursion."""
    probability = policy(given, weights)
    state = np.repeat(np.arange(given.game.n), np.diff(given.first))
    mass, won = np.zeros(given.game.n), 0.0
    mass[0] = 1.0
    for _ in range(horizon):
        mass = np.bincount(given.after, mass[state] * probability, minlength=given.game.n)
        won += mass[given.game.won].sum()
        mass[given.game.won] = 0.0
    return float(won)


def rollouts(
    given: Task, weights: np.ndarray, n: int, horizon: int, rng: np.random.Generator
) -> tuple[list[graph.Trajectory], np.ndarray]:
    """`n` walks of the policy over state numbers, and the row of every step taken, [steps]."""
    probability, group, taken = policy(given, weights), [], []
    first, after, commands = given.first, given.after, given.game.commands
    for _ in range(n):
        states, actions = [0], []
        while len(actions) < horizon and commands[states[-1]]:
            at = states[-1]
            bounds = probability[first[at] : first[at + 1]].cumsum()
            chosen = int(np.searchsorted(bounds, rng.random() * bounds[-1], side="right"))
            chosen = min(chosen, len(bounds) - 1)
            actions.append(commands[at][chosen])
            taken.append(first[at] + chosen)
            states.append(int(after[taken[-1]]))
        won = float(given.game.won[states[-1]])
        group.append(graph.Trajectory(tuple(states), tuple(actions), won, given.game.name))
    return group, np.array(taken)


def gradient(
    given: Task,
    weights: np.ndarray,
    group: list[graph.Trajectory],
    taken: np.ndarray,
    arm: str,
    nodes: str,
    rng: np.random.Generator,
) -> np.ndarray:
    """Mean over steps of credit times the gradient of the command's log probability, [d]."""
    built = graph.build(group, phi=given.nodes(nodes))
    signal = ARMS["GRAFT" if arm == "shuffled" else arm](built)
    if arm == "shuffled":
        signal = rng.permutation(signal)
    probability = policy(given, weights)
    state = np.repeat(np.arange(given.game.n), np.diff(given.first))
    at = state[taken]
    row = np.bincount(taken, signal, minlength=len(probability))
    row -= probability * np.bincount(at, signal, minlength=given.game.n)[state]
    return given.features.T @ row / len(taken)


def learn(
    tasks: Sequence[Task],
    arm: str,
    seed: int,
    rate: float,
    updates: int = 40,
    size: int = 8,
    horizon: int = 14,
    nodes: str = "text",
) -> np.ndarray:
    """Mean success over the games before each update and after the last, [updates + 1].

    Each update plays a group of `size` in every game; a group that ends alike teaches no arm.
    Raises BadParameter for unknown arms and nodes, or sizes and rates that are too small.
    """
    one_of("arm", arm, ALL)
    one_of("nodes", nodes, NODES)
    for name, value, least in (("updates", updates, 1), ("size", size, 2), ("horizon", horizon, 1)):
        count(name, value, least)
    if not tasks or not rate >= 0:
        raise BadParameter(f"{len(tasks)} tasks at rate={rate}; accepted: one or more, rate >= 0.")
    rng = np.random.default_rng(seed)
    weights = np.zeros(tasks[0].features.shape[1])
    curve = [np.mean([success(t, weights, horizon) for t in tasks])]
    for _ in range(updates):
        moved = np.zeros_like(weights)
        for each in tasks:
            group, taken = rollouts(each, weights, size, horizon, rng)
            if len({t.outcome for t in group}) == 2:
                moved += gradient(each, weights, group, taken, arm, nodes, rng) / len(tasks)
        weights = weights + rate * moved
        curve.append(np.mean([success(t, weights, horizon) for t in tasks]))
    return np.array(curve)


def shape(
    given: Task, weights: np.ndarray, size: int, horizon: int, nodes: str, groups: int, seed: int
) -> dict[str, float]:
    """Of graphs of `groups` groups: share of steps that leave a shared node, and the gap of GAE.

    shared: steps whose node has two edges or more. gap: largest |Graph GAE - one step| over raw
    instances, 0 but for rounding. mixed: groups with both outcomes.
    """
    rng = np.random.default_rng(seed)
    shared, gap, mixed = [], 0.0, 0
    for _ in range(groups):
        group, _ = rollouts(given, weights, size, horizon, rng)
        built = graph.build(group, phi=given.nodes(nodes))
        value = values.solve(built)
        near, far = credit.one_step(built, value), credit.graph_gae(built, value)
        gap = max(gap, float(np.abs(far - near).max()))
        shared.append(np.mean(built.out_degree()[built.tail] > 1))
        mixed += len({t.outcome for t in group}) == 2
    return {"shared": float(np.mean(shared)), "gap": gap, "mixed": mixed / groups}
