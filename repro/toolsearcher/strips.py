"""Pictures over the tokens of a trajectory: where each came from, and what gradient it gets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro import plots
from repro.toolsearcher.tokens import KINDS, Row

SHADES = dict(
    zip(KINDS, ("0.82", "0.45", plots.COLORS["blue"], plots.COLORS["orange"]), strict=True)
)


def strip(rows: Sequence[Row], advantage: Sequence[np.ndarray]) -> Any:
    """A figure: each row of tokens as a strip coloured by origin, its advantage as a line above."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(len(rows), 1, figsize=(7.2, 1.05 * len(rows) + 0.6), sharex=True)
    for i, (ax, row, values) in enumerate(
        zip(np.atleast_1d(axes), rows, advantage, strict=True), 1
    ):
        _origins(ax, row, values)
        ax.set_ylabel(f"trajectory {i}", rotation=0, ha="right", va="center")
    np.atleast_1d(axes)[-1].set_xlabel("token")
    _legend(fig, rows)
    return fig


def gradient_strip(row: Row, advantage: np.ndarray, gradients: Any) -> Any:
    """A figure of four panels over one row: origin, and the three gradients of `Gradients`."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(
        4, 1, figsize=(7.2, 6.2), sharex=True, height_ratios=(1, 1.3, 1.3, 1.3)
    )
    _origins(axes[0], row, advantage)
    axes[0].set_ylabel("advantage")
    panels = (
        ("by log-\nprobability", gradients.logp),
        ("norm at\nthe logits", gradients.logits),
        ("norm at\nthe input", gradients.inputs),
    )
    for ax, (name, values) in zip(axes[1:], panels, strict=True):
        for kind in KINDS:
            mine = np.flatnonzero(row.kind == KINDS.index(kind))
            ax.vlines(mine, 0, values[mine], color=SHADES[kind], lw=1.2)
        ax.axhline(0, color="black", lw=0.6)
        ax.set_ylabel(name)
    axes[-1].set_xlabel("token")
    _legend(fig, [row])
    return fig


def _origins(ax: Any, row: Row, advantage: np.ndarray) -> None:
    low = min(-0.3, float(advantage.min()) - 0.2)
    high = max(1.1, float(advantage.max()) + 0.2)
    cuts = np.flatnonzero(np.diff(row.kind)) + 1
    for a, b in zip([0, *cuts], [*cuts, len(row.kind)], strict=True):
        kind = KINDS[row.kind[a]]
        ax.axvspan(a - 0.5, b - 0.5, color=SHADES[kind], alpha=0.35, lw=0)
    ax.step(np.arange(len(advantage)), advantage, where="mid", color="black", lw=1.4)
    ax.set(ylim=(low, high), xlim=(-1, len(row.kind)))
    ax.grid(False)


def _legend(fig: Any, rows: Sequence[Row]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    held = [kind for k, kind in enumerate(KINDS) if any((row.kind == k).any() for row in rows)]
    marks = [Patch(color=SHADES[kind], alpha=0.6, label=kind) for kind in held]
    marks.append(Line2D([], [], color="black", label="advantage"))
    fig.legend(handles=marks, loc="outside upper center", ncols=len(marks))
