"""ToolSearcher's worked group (arXiv 2609.30906): who found what first, and what it earned.

The four trajectories are those that repro.toolsearcher.credit_checks works by hand. Made up.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from repro import player
from repro.player import Drawing, Frame, Shape
from repro.toolsearcher import credit
from repro.toolsearcher.credit_checks import TARGETS, worked_group

READINGS = {
    "sample deviation, exact score, gate": {},
    "population deviation": {"std": "population"},
    "F1 score of the answer": {"score": "f1"},
    "no gate": {"gate": "none", "score": "f1"},
}
WIDE, HIGH, LEFT, TOP = 150, 78, 96, 30


def make() -> player.Player:
    tracks = {name: _frames(**options) for name, options in READINGS.items()}
    each = credit.group_credit(worked_group(), TARGETS)
    said = "; ".join(
        f"rollout {i}: searches {', '.join(map(_signed, one.search))}, answer "
        f"{_signed(one.selection)}{'' if one.complete else ' behind a closed gate'}"
        for i, one in enumerate(each, 1)
    )
    return player.Player(
        title="Which search earned what",
        alt=f"Table of four rollouts, a box for each search and each answer. {said}.",
        about="Made from the chapter's hand-worked example when this page was built; made-up "
        "rollouts, nothing is measured.",
        tracks=tracks,
        choice="Rule",
        legend={"plus": "earns", "minus": "pushed down (dashed)", "closed": "gate closed"},
    )


def _frames(**options: Any) -> list[Frame]:
    group, wanted = worked_group(), ", ".join(TARGETS)
    earned = credit.group_credit(group, TARGETS, **options)
    found = np.array([one.first.any(axis=0) for one in earned])
    scores = credit.standardised(found, options.get("std", "sample"))
    rarity = "; ".join(
        f"{t} is found by {int(f.sum())} of {len(group)}, so a finder scores {_signed(z.max())}"
        for t, f, z in zip(TARGETS, found.T, scores.T, strict=True)
    )
    told = (
        f"Four rollouts answer one request that needs the tools {wanted}. Each box is a search "
        "and names what came back.",
        "A target counts for the search that finds it first in its own rollout. Finding it again "
        "is not new.",
        f"Across the group: {rarity}.",
        "A search earns the best score among the targets that it found first, and is never "
        "punished.",
        "The answer names a set of tools and gets a reward for it.",
        f"The reward is compared with the group's. {_gate(earned, options.get('gate', 'hard'))}",
    )
    return [
        Frame(text, _draw(group, earned, at, options.get("gate") != "none"))
        for at, text in enumerate(told)
    ]


def _gate(earned: Sequence[credit.Credit], gate: str) -> str:
    shut = [(i, one) for i, one in enumerate(earned, 1) if not one.complete]
    if not shut:
        return "Every rollout found all targets."
    names = ", ".join(str(i) for i, _ in shut)
    if gate == "hard":
        return f"Gate closed for rollout {names}: not all targets found, so no credit or blame."
    given = ", ".join(_signed(one.selection) for _, one in shut)
    return f"Without a gate rollout {names}, whose searches missed a target, still gets {given}."


def _draw(
    group: Sequence[credit.Trajectory], earned: Sequence[credit.Credit], stage: int, gated: bool
) -> Drawing:
    """The group with what is known at `stage`, 0 to 5: one row a trajectory, one box a turn."""
    most = max(len(one.retrieved) for one in group)
    shapes: list[Shape] = []
    for j in range(most + 1):
        head = f"search {j + 1}" if j < most else "answer"
        shapes.append(player.words(LEFT + (j + 0.5) * WIDE, 20, head))
    said = []
    for i, (one, got) in enumerate(zip(group, earned, strict=True)):
        y = TOP + i * HIGH
        shapes.append(player.words(4, y + HIGH / 2, f"rollout {i + 1}", anchor="start"))
        for j, names in enumerate(one.retrieved):
            new = [t for t, f in zip(TARGETS, got.first[j], strict=True) if f]
            lines, kind = [f"found {_set(names)}"], "plain"
            if stage >= 1:
                lines.append(f"new: {', '.join(new) or 'nothing'}")
                kind = "new" if new and stage < 3 else "plain"
            if stage >= 3:
                lines.append(f"credit {_signed(got.search[j])}")
                kind = "plus" if got.search[j] > 0 else "plain"
            shapes += _box(LEFT + j * WIDE, y, lines, kind)
            said.append(f"rollout {i + 1}, search {j + 1}: {', '.join(lines)}")
        if got.selection is not None and one.answer is not None and stage >= 4:
            lines, kind = [f"names {_set(one.answer.names)}", f"reward {got.reward:.3g}"], "plain"
            if stage >= 5:
                closed = gated and not got.complete
                lines.append("gate closed: 0" if closed else f"credit {_signed(got.selection)}")
                sign = (got.selection > 0) - (got.selection < 0)
                kind = "closed" if closed else ("minus", "plain", "plus")[sign + 1]
            shapes += _box(LEFT + most * WIDE, y, lines, kind)
            said.append(f"rollout {i + 1}, answer: {', '.join(lines)}")
    size = (LEFT + (most + 1) * WIDE + 8, TOP + len(group) * HIGH + 8)
    return Drawing(*size, tuple(shapes), "; ".join(said) + ".")


def _box(x: float, y: float, lines: Sequence[str], kind: str) -> list[Shape]:
    parts = [player.box(x + 5, y + 4, WIDE - 10, HIGH - 8, kind, "; ".join(lines))]
    for at, line in enumerate(lines):
        parts.append(player.words(x + WIDE / 2, y + 24 + 19 * at, line))
    return parts


def _set(names: Collection[str]) -> str:
    return "{" + ", ".join(sorted(names)) + "}" if names else "nothing"


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value + 0.0:+.3f}" if abs(value) > 1e-9 else "0"
