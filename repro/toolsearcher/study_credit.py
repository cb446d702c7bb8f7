"""What the credit notebook draws and counts: one group as a picture, many groups by lot."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro import plots
from repro.toolsearcher import credit
from repro.toolsearcher.answer import Answer


def names_of(names: Sequence[str]) -> str:
    """A set in print."""
    return "{" + ", ".join(sorted(names, key=str.lower)) + "}"


def picture(
    group: Sequence[credit.Trajectory], credits: Sequence[credit.Credit], targets: Sequence[str]
) -> Any:
    """A figure: one row a trajectory, one box an assistant turn, coloured by what it earned.

    A box says what came back or was chosen, what was new, and the advantage. The selection turn is
    the last box; it is hatched where the gate is closed.
    """
    from matplotlib import pyplot as plt

    most = max(len(one.retrieved) for one in group) + 1
    fig, ax = plt.subplots(figsize=(1.9 * most + 0.6, 0.95 * len(group) + 0.5))
    for i, (one, earned) in enumerate(zip(group, credits, strict=True)):
        for j, names in enumerate(one.retrieved):
            new = [t for t, f in zip(targets, earned.first[j], strict=True) if f]
            said = f"returned {names_of(names)}\nnew: {', '.join(new) or 'nothing'}"
            _box(ax, j, i, said, earned.search[j])
        if earned.selection is not None:
            said = f"chose {names_of(one.answer.names)}\nreward {earned.reward:.4g}"
            _box(ax, most - 1, i, said, earned.selection, closed=not earned.complete)
    ax.set(xlim=(-0.5, most - 0.5), ylim=(len(group) - 0.5, -0.5))
    heads = [f"search {j + 1}" for j in range(most - 1)] + ["answer"]
    ax.set_xticks(range(most), heads)
    ax.set_yticks(range(len(group)), [f"trajectory {i + 1}" for i in range(len(group))])
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return fig


def _box(ax: Any, x: int, y: int, text: str, value: float, closed: bool = False) -> None:
    from matplotlib.patches import Rectangle

    colour = plots.COLORS["sky" if value > 0 else "orange"]
    strength = min(abs(value), 1.0) * 0.8 if np.isfinite(value) else 0.0  # NaN under a fault
    if strength:
        ax.add_patch(
            Rectangle((x - 0.47, y - 0.42), 0.94, 0.84, color=colour, alpha=strength, lw=0)
        )
    edge = {"hatch": "////", "edgecolor": "0.75"} if closed else {"edgecolor": "0.4"}
    ax.add_patch(Rectangle((x - 0.47, y - 0.42), 0.94, 0.84, facecolor="none", lw=0.8, **edge))
    ax.text(x, y - 0.1, text, ha="center", va="center", fontsize=8)
    last = "gate closed: 0" if closed else f"{value:+.4f}" if value else "0"
    ax.text(x, y + 0.27, last, ha="center", va="center", fontsize=9, weight="bold")


def drawn_group(
    rng: np.random.Generator, size: int, targets: int, searches: int, chance: float
) -> list[credit.Trajectory]:
    """A group by lot: every search returns each target with `chance`, and always one other tool.

    The answer lists what was found and, half of the time, the other tool. Synthetic: no retriever
    and no policy is behind it.
    """
    wanted, group = [f"t{k}" for k in range(targets)], []
    for _ in range(size):
        hit = rng.random((rng.integers(1, searches + 1), targets)) < chance
        events = tuple({"x"} | {t for t, h in zip(wanted, row, strict=True) if h} for row in hit)
        found = set().union(*events) - {"x"}
        chosen = found | ({"x"} if rng.random() < 0.5 else set())
        group.append(credit.Trajectory("q", events, Answer(frozenset(chosen), 1)))
    return group


COUNTS = ("searches that find a target", "searches that are paid", "open gates", "blamed in vain")


def counted(
    rng: np.random.Generator, chance: float, groups: int, size: int, targets: int, searches: int
) -> dict[str, float]:
    """Shares over many drawn groups, by the names of `COUNTS`.

    The last is the share of all trajectories whose answer would have been pushed down without the
    gate although their searches had missed a target.
    """
    found, paid, is_open, blamed = [], [], [], []
    wanted = [f"t{k}" for k in range(targets)]
    for _ in range(groups):
        group = drawn_group(rng, size, targets, searches, chance)
        free = credit.group_credit(group, wanted, gate="none")
        for one, earned in zip(group, free, strict=True):
            found += credit.hits(one.retrieved, wanted).any(1).tolist()
            paid += (earned.search > 0).tolist()
            is_open.append(earned.complete)
            blamed.append(not earned.complete and earned.selection < 0)
    return dict(zip(COUNTS, map(float, map(np.mean, (found, paid, is_open, blamed))), strict=True))
