"""A grid with traps and a table of logits: where learning from outcomes can be seen (synthetic).

From the top left corner to the goal at the bottom right, in at most `horizon` steps. Traps end
the walk with outcome 0; so does the horizon. A move against the border stays where it is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter
from repro.graft import controls, credit, graph, values

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))  # right, down, left, up


@dataclass(frozen=True)
class Grid:
    """side: cells a side. traps: cells, numbered row by row. horizon: steps until it is cut."""

    side: int = 5
    traps: tuple[int, ...] = (7, 16)
    horizon: int = 20

    def __post_init__(self):
        if self.side < 2 or self.horizon < 1 or {0, self.goal} & set(self.traps):
            raise BadParameter(
                f"side={self.side}, horizon={self.horizon}, traps={self.traps}: accepted: "
                "side >= 2, horizon >= 1, no trap at the start or the goal."
            )

    @property
    def goal(self) -> int:
        return self.side**2 - 1

    def follow(self) -> np.ndarray:
        """Successor of each cell under each move, [cells, 4]."""
        row, column = np.divmod(np.arange(self.side**2), self.side)
        moved = [
            np.clip(row + down, 0, self.side - 1) * self.side
            + np.clip(column + right, 0, self.side - 1)
            for down, right in MOVES
        ]
        return np.stack(moved, 1)

    def over(self) -> np.ndarray:
        """Whether a walk ends in a cell, [cells]."""
        ends = np.zeros(self.side**2, bool)
        ends[[*self.traps, self.goal]] = True
        return ends


def policy(logits: np.ndarray) -> np.ndarray:
    """Softmax over the moves, [cells, 4]."""
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def success(grid: Grid, logits: np.ndarray) -> float:
    """Exact probability of reaching the goal in time, by forward recursion over cells."""
    step, ends = grid.follow(), grid.over()
    mass, won = np.zeros(grid.side**2), 0.0
    mass[0] = 1.0
    probability = policy(logits)
    for _ in range(grid.horizon):
        flow = np.zeros_like(mass)
        np.add.at(flow, step, mass[:, None] * probability)
        won += flow[grid.goal]
        mass = np.where(ends, 0.0, flow)
    return float(won)


def rollouts(
    grid: Grid, logits: np.ndarray, n: int, rng: np.random.Generator
) -> list[graph.Trajectory]:
    """`n` walks of the policy."""
    step, ends, bounds = grid.follow(), grid.over(), policy(logits).cumsum(1)
    group = []
    for _ in range(n):
        cells, moves = [0], []
        while len(moves) < grid.horizon and not ends[cells[-1]]:
            chance = rng.random() * bounds[cells[-1], -1]
            move = int(np.searchsorted(bounds[cells[-1]], chance, side="right"))
            moves.append(min(move, 3))
            cells.append(int(step[cells[-1], moves[-1]]))
        group.append(graph.Trajectory(tuple(cells), tuple(moves), float(cells[-1] == grid.goal)))
    return group


def _outcome(built: graph.TrajectoryGraph) -> np.ndarray:
    signal = controls.grpo(built)
    return signal / (np.std(controls.outcomes(built)[built.left == 0]) + 1e-8)


def _graft(norm: str) -> Callable[[graph.TrajectoryGraph], np.ndarray]:
    def signal(built: graph.TrajectoryGraph) -> np.ndarray:
        step = credit.one_step(built, values.solve(built))
        return credit.normalise(built, step, norm).advantage

    return signal


def _grouped(control: Callable) -> Callable[[graph.TrajectoryGraph], np.ndarray]:
    return lambda built: credit.normalise(built, control(built), noise=0.0).advantage


ARMS: dict[str, Callable[[graph.TrajectoryGraph], np.ndarray]] = {
    "outcome (GRPO)": _outcome,
    "GiGPO": lambda built: _outcome(built) + _grouped(controls.gigpo)(built),
    "RTMC": _grouped(controls.rtmc),
    "GRAFT": _graft("node"),
    "GRAFT, floor": _graft("node+floor"),
    "GRAFT, not normalised": _graft("none"),
}


def learn(
    arm: str,
    seed: int,
    updates: int = 60,
    size: int = 8,
    rate: float = 1.0,
    grid: Grid | None = None,
) -> np.ndarray:
    """Success before each update and after the last, [updates + 1], on policy from even odds.

    An update adds rate times the mean over step rows of credit times the score of the move. A
    group in which all walks end alike gives no step to any arm.
    Raises BadParameter for an unknown arm, or sizes and rates that are too small.
    """
    if arm not in {*ARMS, "shuffled"} or updates < 1 or size < 2 or rate < 0:
        raise BadParameter(
            f"arm={arm!r}, updates={updates}, size={size}, rate={rate}: accepted: "
            f"{[*ARMS, 'shuffled']}, updates >= 1, size >= 2, rate >= 0."
        )
    grid, rng = grid or Grid(), np.random.default_rng(seed)
    logits = np.zeros((grid.side**2, len(MOVES)))
    curve = [success(grid, logits)]
    for _ in range(updates):
        group = rollouts(grid, logits, size, rng)
        if len({t.outcome for t in group}) == 2:
            logits += rate * _gradient(group, arm, logits, rng)
        curve.append(success(grid, logits))
    return np.array(curve)


def _gradient(group, arm: str, logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    built = graph.build(group)
    signal = ARMS["GRAFT" if arm == "shuffled" else arm](built)
    if arm == "shuffled":
        signal = rng.permutation(signal)
    cells = np.concatenate([t.states[:-1] for t in group])
    moves = np.concatenate([t.actions for t in group])
    score = -policy(logits)[cells]
    score[np.arange(len(moves)), moves] += 1
    found = np.zeros_like(logits)
    np.add.at(found, cells, signal[:, None] * score / len(moves))
    return found
