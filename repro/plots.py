"""House style: colour-blind-safe colours (Okabe and Ito), and no figure without written text."""

import io
from itertools import cycle
from typing import Any

import matplotlib
from IPython.display import display
from matplotlib.figure import Figure

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402  (the backend must be chosen first)

COLORS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
}
MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
_STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": matplotlib.cycler(color=list(COLORS.values())),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "figure.figsize": (7.2, 3.6),
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "executable-boundaries",  # the same figure gives the same bytes
}


def style() -> None:
    """Use the house style for the figures that follow."""
    plt.rcParams.update(_STYLE)


def series() -> Any:
    """Endless keyword arguments for lines that differ by colour, marker and stroke at once."""
    marks = zip(COLORS.values(), cycle(MARKERS), cycle(LINES), strict=False)
    return cycle([dict(color=c, marker=m, linestyle=s) for c, m, s in marks])


def show(fig: Figure, alt: str) -> None:
    """Display `fig` as SVG with the text `alt` for readers who do not see it, and close it.

    Raises ValueError when `alt` says too little to stand for the picture.
    """
    if len(alt.split()) < 5:
        raise ValueError(f"alt={alt!r} is too short; accepted: a sentence on what the plot shows.")
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(fig)
    shown = {"image/svg+xml": buffer.getvalue(), "text/plain": alt}
    display(shown, metadata={"image/svg+xml": {"alt": alt}}, raw=True)
