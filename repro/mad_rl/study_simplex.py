"""Drawing on the simplex of three categories, for the notebooks of MaD-RL (arXiv 2609.31644)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from repro.errors import BadParameter
from repro.mad_rl import divergences, simulation

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])


def parsed(text: str, name: str = "target") -> np.ndarray:
    """A distribution from text such as "0.5, 0.3, 0.2"; BadParameter where it is none."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise BadParameter(
            f"{name}={text!r} is refused; accepted: such as '0.5, 0.3, 0.2'."
        ) from None
    return divergences.distribution(values, name)


def three(text: str) -> np.ndarray:
    """The same with exactly three categories, none of them 0."""
    found = parsed(text)
    if found.size != 3 or (found == 0).any():
        raise BadParameter(f"target={text!r} is refused; accepted: three categories above 0.")
    return found


def grid(steps: int) -> np.ndarray:
    """Interior points [n, 3] of the simplex, `steps` to a side."""
    pairs = [(i, j) for i in range(1, steps) for j in range(1, steps - i)]
    return np.array([(i, j, steps - i - j) for i, j in pairs]) / steps


def project(p: Any) -> np.ndarray:
    """Points [..., 3] of the simplex as places [..., 2] in the plane."""
    return np.asarray(p) @ CORNERS


def outline(ax: Any, target: np.ndarray) -> None:
    """The triangle with its corners named and the target marked by a star."""
    loop = CORNERS[[0, 1, 2, 0]]
    ax.plot(*loop.T, color="black", linewidth=0.8)
    for name, (x, y), way in zip("123", CORNERS, (-0.06, -0.06, 0.06), strict=True):
        ax.text(x, y + way, name, ha="center", va="center")
    ax.plot(*project(target), marker="*", color="black", markersize=11, linestyle="none")
    ax.set(aspect="equal", ylim=(-0.12, 1.0))  # room for the names below the title
    ax.axis("off")


def arrows(ax: Any, update: Callable[[np.ndarray], np.ndarray], points: np.ndarray, color: str):
    """Arrows of equal length along dp for logit updates `update(p)` [3]; dp = p (z - p.z)."""
    z = np.array([update(p) for p in points])
    way = project(points * (z - (points * z).sum(-1, keepdims=True)))
    way /= np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1e-12)
    ax.quiver(*project(points).T, *way.T, color=color, scale=22, width=0.006, pivot="mid")


def cosines(
    divergence: str, target: np.ndarray, group: int, points: np.ndarray, **options: Any
) -> np.ndarray:
    """Cosine [n] between the expected update and the exact descent at each point.

    Below 0 a group's update raises, on average and for small steps, the divergence it is for.
    """
    found = []
    for p in points:
        u = simulation.expected_update(divergence, p, target, group, **options)
        exact = simulation.descent(divergence, p, target)
        size = np.linalg.norm(u) * np.linalg.norm(exact)
        found.append(u @ exact / size if size > 1e-15 else 1.0)
    return np.array(found)
