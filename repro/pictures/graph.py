"""GRAFT's worked group (arXiv 2609.28963): the graph grows, values fill in, credits follow.

The three rollouts are those that repro.graft.graph_checks works by hand. Made up, not measured.
"""

from collections.abc import Hashable

import numpy as np

from repro import player
from repro.graft import credit, graph, values
from repro.graft.graph_checks import GOLDEN
from repro.player import Drawing, Frame, Shape

GAMMA = 0.99
READINGS: dict[str, dict[str, str]] = {
    "as defined: every executed step counts": {},
    "plain mean over distinct actions": {"weight": "uniform"},
}
Point = tuple[float, float]
PLACES: dict[Hashable, Point] = {
    "S": (70, 160),
    "L": (230, 50),
    "D": (390, 160),
    1.0: (610, 80),
    0.0: (610, 240),
}
WORDS = {1.0: "success", 0.0: "failure"}
HALF = (52, 26)  # half the width and height of a node


def make() -> player.Player:
    tracks = {name: _frames(**options) for name, options in READINGS.items()}
    built = graph.build(GOLDEN)
    value = values.solve(built, GAMMA, method="sparse")
    held = np.union1d(built.tail, built.head)
    said = ", ".join(f"{_name(built.names[i])} {value[i]:.3f}" for i in held)
    return player.Player(
        title="Three rollouts become one graph with values",
        alt=f"Graph of three rollouts with a value in each node: {said}. Each edge carries the "
        "number of steps on it and the credit of a step.",
        about="Made from the chapter's hand-worked example when this page was built; made-up "
        "rollouts, nothing is measured.",
        tracks=tracks,
        choice="Values",
        legend={"plus": "credit of zero or more", "minus": "blamed (dashed)", "new": "just added"},
        still=(next(iter(tracks)), 6),
    )


def _frames(weight: str = "count") -> list[Frame]:
    whole = graph.build(GOLDEN)
    frames = []
    for upto in range(1, len(GOLDEN) + 1):
        one = GOLDEN[upto - 1]
        way = " → ".join([*map(_name, one.states[:-1]), WORDS[one.outcome]])
        told = f"Rollout {upto}: {way}. Equal states are one node; every step is one edge instance."
        frames.append(Frame(told, _draw(whole, upto, fresh=upto - 1)))
    fixed = np.nan_to_num(whole.sink, nan=0.0)
    known = ~np.isnan(whole.sink)
    told = "The ends get the outcome as their value: success 1, failure 0. All else starts at 0."
    frames.append(Frame(told, _draw(whole, value=fixed, known=known)))
    step, value = GAMMA * values.transition(whole, weight), fixed
    for sweep in (1, 2):
        value = step @ value + fixed
        told = (
            f"Sweep {sweep}: each node takes {GAMMA} times the mean value of what its edges "
            "lead to. " + _said(whole, value)
        )
        frames.append(Frame(told, _draw(whole, value=value)))
    value = values.solve(whole, GAMMA, weight, method="sparse")
    earned = credit.one_step(whole, value, GAMMA)
    told = f"When nothing moves any more: {_said(whole, value)} The credit of a step is {GAMMA} "
    told += "times the value where it leads, less the value where it starts."
    frames.append(Frame(told, _draw(whole, value=value, edge=earned)))
    normal = credit.normalise(whole, earned, noise=values.noise(GAMMA))
    told = "In units of the spread among the edges that leave the same node. A lone edge gets 0."
    frames.append(Frame(told, _draw(whole, value=value, edge=normal.advantage)))
    return frames


def _said(built: graph.TrajectoryGraph, value: np.ndarray) -> str:
    held = np.unique(built.tail)
    return ", ".join(f"{_name(built.names[i])} {value[i]:.4f}" for i in held) + "."


def _name(node: Hashable) -> str:
    return node if isinstance(node, str) else WORDS[_outcome(node)]


def _outcome(sink: Hashable) -> float:
    assert isinstance(sink, tuple)
    return sink[1]


def _draw(
    built: graph.TrajectoryGraph,
    upto: int = 99,
    fresh: int = -1,
    value: np.ndarray | None = None,
    known: np.ndarray | None = None,
    edge: np.ndarray | None = None,
) -> Drawing:
    """The first `upto` rollouts, or all; `edge`: a number for each step, shown once an edge."""
    shapes: list[Shape] = []
    shown = built.trajectory < upto
    pairs = np.stack([built.tail, built.action, built.head], axis=1)
    nodes, told = set(), []
    for pair in np.unique(pairs[shown], axis=0):
        mine = shown & (pairs == pair).all(1)
        a, b = int(pair[0]), int(pair[2])
        nodes |= {a, b}
        first = int(np.flatnonzero(mine)[0])
        action = GOLDEN[built.trajectory[first]].actions[built.step[first]]
        kind, label = "plain", f"{action} ×{int(mine.sum())}"
        if fresh >= 0 and (built.trajectory[mine] == fresh).any():
            kind = "new"
        if edge is not None:
            gain = float(edge[first]) + 0.0
            gain = 0.0 if abs(gain) < 1e-9 else gain
            kind, label = ("minus" if gain < 0 else "plus"), f"{label}: {gain:+.3f}"
        at = f"from {_name(built.names[a])} to {_name(built.names[b])}"
        told.append(f"{at}, {label}")
        shapes += _edge(_place(built, a), _place(built, b), kind, label, f"{at}: {label}")
    for i in sorted(nodes):
        x, y = _place(built, i)
        told_value = "?"
        if value is not None and (known is None or known[i]):
            told_value = f"{value[i]:.3f}"
        sink = not np.isnan(built.sink[i])
        shapes.append(player.box(x - HALF[0], y - HALF[1], 104, 52, "fixed" if sink else "plain"))
        shapes.append(player.words(x, y - 3, _name(built.names[i])))
        shapes.append(player.words(x, y + 16, f"V = {told_value}"))
    return Drawing(680, 280, tuple(shapes), "Edges: " + "; ".join(told) + ".")


def _place(built: graph.TrajectoryGraph, node: int) -> Point:
    name = built.names[node]
    return PLACES[name if isinstance(name, str) else _outcome(name)]


def _edge(a: Point, b: Point, kind: str, label: str, note: str) -> list[Shape]:
    """An arrow from the border of one node to that of the other, and its label on a ground."""
    (x, y), (u, v) = _border(a, b), _border(b, a)
    mid, wide = ((x + u) / 2, (y + v) / 2), 7.4 * len(label) + 12
    return [
        *player.arrow((x, y), (u, v), kind, note),
        player.box(mid[0] - wide / 2, mid[1] - 11, wide, 21, kind, note),
        player.words(mid[0], mid[1] + 4, label, "plain"),
    ]


def _border(a: Point, b: Point) -> Point:
    dx, dy = b[0] - a[0], b[1] - a[1]
    scale = min(HALF[0] / max(abs(dx), 1e-9), HALF[1] / max(abs(dy), 1e-9)) * 1.06
    return a[0] + dx * scale, a[1] + dy * scale
