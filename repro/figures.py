"""Figures for the pages that are drawn from committed records alone."""

import io
import re
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from repro import files, plots


def tradeoff(
    records: Sequence[dict[str, Any]], x: str, y: str, labels: tuple[str, str], subject: str
) -> tuple[Any, str]:
    """A line an arm through the points (metric `x`, metric `y`), means over the records.

    x, y: prefixes of metric names that go on as arm and a number, such as "peak_" of
    "peak_actkv_26"; along a line the number rises. Returns the figure and its alternative text.
    """
    spots = _points(records, x, y)
    plots.style()
    fig, ax = plt.subplots(figsize=(7.2, 4.4))
    *filled, _ = [kind for kind, _ in zip(plots.series(), plots.COLORS, strict=False)]  # not black
    hollow = [kind | {"markerfacecolor": "none", "markersize": 9} for kind in filled]
    kinds = dict(zip((a for a in spots if a != subject), cycle(filled + hollow), strict=False))
    for arm, points in spots.items():
        thick = {"color": "black", "marker": "o", "linewidth": 3} if arm == subject else {}
        path = np.array([point for _, point in sorted(points.items())])
        ax.plot(*path.T, label=arm.replace("_", " "), **(kinds.get(arm, {}) | thick))
    ax.set(xlabel=labels[0], ylabel=labels[1])
    fig.legend(loc="outside right upper")
    said = "; ".join(
        f"{arm.replace('_', ' ')} from {min(points.items())[1][1]:.1%} at "
        f"{min(points.items())[1][0]:.0%} to {max(points.items())[1][1]:.1%} at "
        f"{max(points.items())[1][0]:.0%}"
        for arm, points in spots.items()
    )
    return fig, f"{labels[1]} against {labels[0]}, a line an arm: {said}."


def growth(curves: Sequence[dict[str, Any]]) -> tuple[Any, str]:
    """A panel a paper: cost of one unit over that at the smallest size, against the size.

    curves: paper, way, unit, cost, sizes, values, as in evidence/schema/performance.json. Returns
    the figure and its alternative text.
    """
    papers = list(dict.fromkeys(c["paper"] for c in curves))
    columns = min(3, len(papers))
    plots.style()
    fig, axes = plt.subplots(
        -(-len(papers) // columns), columns, figsize=(9, 2.6 * -(-len(papers) // columns)),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for ax in axes.flat[len(papers) :]:
        ax.remove()
    for paper, ax in zip(papers, axes.flat, strict=False):
        mine = [c for c in curves if c["paper"] == paper]
        for c, kind in zip(mine, plots.series(), strict=False):
            ax.plot(c["sizes"], c["values"], label=f"{c['way']}, a {c['unit']}", **kind)
        ax.axhline(1, color="0.6", linewidth=1)
        ax.set(xscale="log", yscale="log", title=paper.replace("_", " "))
        ax.legend(fontsize=7, loc="best")
    fig.supxlabel("size")
    fig.supylabel("cost of one unit, over the smallest size")
    said = "; ".join(
        f"{c['paper'].replace('_', ' ')}, {c['way']}: {c['values'][-1]:.3g} at {c['sizes'][-1]:,}"
        for c in curves
    )
    return fig, f"Cost of one unit over that at the smallest size, a panel a chapter: {said}."


def save(fig: Any, path: Path) -> None:
    """Write `fig` as SVG, the same bytes for the same figure, and close it."""
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(fig)
    files.write_atomic(path, buffer.getvalue())


def _points(
    records: Sequence[dict[str, Any]], x: str, y: str
) -> dict[str, dict[int, tuple[float, float]]]:
    """arm -> number -> (x, y), for the arms and numbers that have both."""
    values: dict[str, list[float]] = {}
    for record in records:
        for metric in record["metrics"]:
            values.setdefault(metric["name"], []).append(metric["value"])
    spots: dict[str, dict[int, tuple[float, float]]] = {}
    for name in values:
        found = re.fullmatch(re.escape(x) + r"(.+)_(\d+)", name)
        if found and (other := f"{y}{found[1]}_{found[2]}") in values:
            point = (float(np.mean(values[name])), float(np.mean(values[other])))
            spots.setdefault(found[1], {})[int(found[2])] = point
    return spots
