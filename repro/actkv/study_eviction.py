"""Algorithm 1 (arXiv 2609.31395) over one real trace: its attention rows, and what stays cached.

One teacher-forced pass gives every attention row; everything after it is a replay of policies over
those rows, in NumPy. Shapes: L layers, T rounds (one action each), S tokens of the trace.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from repro.actkv import attention, eviction
from repro.traces import ACTION, LABELS, PREFIX


@dataclass(frozen=True)
class Recorded:
    """The rounds of one trace, as Algorithm 1 sees them."""

    trace: Any
    protected: int  # P: tokens of the prefix
    spans: np.ndarray  # [T, 2] first action token and one past the last
    lengths: np.ndarray  # [T] tokens cached when the round ends
    action: list[np.ndarray]  # T rows [L, spans[t, 1]]: mean over the action tokens
    every: list[np.ndarray]  # T rows [L, lengths[t]]: mean over all tokens of the round

    @property
    def name(self) -> str:
        return "+".join(self.trace.tasks)

    def groups(self) -> dict[str, np.ndarray]:
        """Tokens by region and by what they are made of: bool [S] for each name."""
        texts = [self.trace.token_text(i) for i in range(len(self.trace))]
        digit = np.array([t.strip().isdigit() for t in texts])
        word = np.array([any(c.isalnum() for c in t) for t in texts]) & ~digit
        regions = {name: self.trace.labels == code for code, name in enumerate(LABELS)}
        return regions | {"words": word, "digits": digit, "marks and spaces": ~word & ~digit}


def record(model: Any, trace: Any) -> Recorded:
    """Run `model` over `trace` once, and keep the attention of every token outside the prefix.

    `attention.action_rounds` averages over what is labelled action. Here each unbroken run of one
    region is handed over as an action of its own, so that one pass yields the rows of the action
    tokens and, as a weighted mean, those of all tokens of the round.
    """
    end = np.searchsorted(trace.rounds, trace.n_rounds)  # no action reads what follows the last
    labels, rounds = trace.labels[:end], trace.rounds[:end]
    outside = labels != PREFIX
    runs = np.cumsum((np.diff(labels, prepend=-1) != 0) | (np.diff(rounds, prepend=-1) != 0))
    view = SimpleNamespace(
        ids=trace.ids[:end], labels=np.where(outside, ACTION, PREFIX), rounds=runs
    )
    action, every, spans, lengths = [], [], [], []
    open_rows, open_round = [], None
    for run in attention.action_rounds(model, view, eviction.action_attention):
        first, stop = run.span
        if rounds[first] != open_round:
            open_rows, open_round = [], rounds[first]
            every.append(None), lengths.append(0)
        open_rows.append((run.attention, stop - first))
        every[-1], lengths[-1] = _mean(open_rows, stop), stop
        if labels[first] == ACTION:
            action.append(run.attention), spans.append(run.span)
    protected = int((~outside).sum())
    return Recorded(trace, protected, np.array(spans), np.array(lengths), action, every)


def film(recorded: Recorded, rows: Sequence[np.ndarray], budget: int, **options: Any) -> np.ndarray:
    """Scores [L, T, S] after each round of `ActionLRFU(**options)`; NaN: not cached.

    rows: `recorded.action` or `recorded.every`. Each layer keeps its own set.
    """
    layers, rounds = len(rows[0]), len(rows)
    scores = np.full((layers, rounds, recorded.lengths[-1]), np.nan, dtype=np.float32)
    for layer in range(layers):
        policy = eviction.ActionLRFU(protected=recorded.protected, **options)
        replay = eviction.replay(
            policy, [row[layer] for row in rows], recorded.lengths, [budget] * rounds
        )
        for at, cached in enumerate(replay):
            scores[layer, at, cached] = policy.score
    return scores


def stretches(kept: np.ndarray, first: int, stop: int) -> list[tuple[int, int]]:
    """(start, end) of each unbroken run of equal values in kept[first:stop], in `kept`'s places."""
    cuts = (np.flatnonzero(np.diff(kept[first:stop])) + first + 1).tolist()
    return list(zip([first, *cuts], [*cuts, stop], strict=True))


def marked_text(trace: Any, kept: np.ndarray, first: int, stop: int) -> str:
    """HTML of tokens first..stop-1: bold where `kept` [S] holds, struck through elsewhere."""
    parts = []
    for start, end in stretches(kept, first, stop):
        text = trace.text[trace.offsets[start, 0] : trace.offsets[end - 1, 1]]
        tag, name = ("b", "eb-kept") if kept[start] else ("s", "eb-evicted")
        shown = html.escape(text, quote=False).replace("\n", "<br>")
        parts.append(f'<{tag} class="{name}">{shown}</{tag}>')
    return "<p>" + "".join(parts) + "</p>"


def _mean(rows: list[tuple[np.ndarray, int]], length: int) -> np.ndarray:
    """Mean of rows [L, ≤ length] with weights; an entry appended later counts as 0 before."""
    total = sum(np.pad(row, ((0, 0), (0, length - row.shape[1]))) * n for row, n in rows)
    return (total / sum(n for _, n in rows)).astype(np.float32)
