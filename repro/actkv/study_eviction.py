"""What the eviction notebook measures around Algorithm 1 (arXiv 2609.31395), one trace at a time.

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

    @property
    def region(self) -> np.ndarray:
        """Name of each token's region [S]."""
        return np.array(LABELS)[self.trace.labels]


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


def recent(recorded: Recorded, budget: int) -> np.ndarray:
    """Cached [1, T, S], bool, when only the newest `budget` unprotected entries stay."""
    place, stop = np.arange(recorded.lengths[-1]), recorded.lengths[:, None]
    return ((place < stop) & ((place >= stop - budget) | (place < recorded.protected)))[None]


def random(recorded: Recorded, budget: int, layers: int, rng: np.random.Generator) -> np.ndarray:
    """Cached [layers, T, S], bool, when each round evicts down to `budget` by lot."""
    kept = np.zeros((layers, len(recorded.lengths), recorded.lengths[-1]), dtype=bool)
    kept[..., : recorded.protected] = True
    for layer in kept:
        cached, seen = np.zeros(0, dtype=int), recorded.protected
        for at, length in enumerate(recorded.lengths):
            cached, seen = np.concatenate([cached, np.arange(seen, length)]), length
            cached = rng.permutation(cached)[:budget]
            layer[at, cached] = True
    return kept


def oracle(recorded: Recorded, budget: int) -> np.ndarray:
    """Cached [L, T, S], bool: the entries that the *next* action reads most. The ceiling.

    It looks into the future and may take back what was evicted before. Its last round is empty.
    """
    kept = np.zeros((len(recorded.action[0]), len(recorded.action), recorded.lengths[-1]), bool)
    for at, (row, length) in enumerate(zip(recorded.action[1:], recorded.lengths, strict=False)):
        best = np.argsort(-row[:, recorded.protected : length], axis=1, kind="stable")[:, :budget]
        np.put_along_axis(kept[:, at], best + recorded.protected, True, axis=1)
    return kept


def coverage(recorded: Recorded, kept: np.ndarray, budget: int) -> float:
    """Share of the next action's attention on older unprotected entries that is still cached.

    Mean over layers and over the rounds after which more than `budget` such entries would be
    there; 1 if there is no such round. `kept` [L or 1, T, S].
    """
    first, shares = recorded.protected, []
    for at, (row, length) in enumerate(zip(recorded.action[1:], recorded.lengths, strict=False)):
        if length - first > budget:
            older = row[:, first:length].astype(np.float64)
            shares.append((older * kept[:, at, first:length]).sum(1) / older.sum(1))
    return float(np.mean(shares)) if shares else 1.0


def overlap(recorded: Recorded, one: np.ndarray, other: np.ndarray, budget: int) -> float:
    """Jaccard overlap of two kept sets [L, T, S], prefix aside, in rounds that had to evict."""
    full = recorded.lengths - recorded.protected > budget
    one, other = (kept[:, full, recorded.protected :] for kept in (one, other))
    return float(((one & other).sum(-1) / (one | other).sum(-1)).mean()) if full.any() else 1.0


def marked_text(trace: Any, kept: np.ndarray, first: int, stop: int) -> str:
    """HTML of tokens first..stop-1: bold where `kept` [S] holds, struck through elsewhere."""
    cuts = [first, *(np.flatnonzero(np.diff(kept[first:stop])) + first + 1).tolist(), stop]
    parts = []
    for start, end in zip(cuts[:-1], cuts[1:], strict=True):
        text = trace.text[trace.offsets[start, 0] : trace.offsets[end - 1, 1]]
        tag, name = ("b", "eb-kept") if kept[start] else ("s", "eb-evicted")
        shown = html.escape(text, quote=False).replace("\n", "<br>")
        parts.append(f'<{tag} class="{name}">{shown}</{tag}>')
    return "<p>" + "".join(parts) + "</p>"


def _mean(rows: list[tuple[np.ndarray, int]], length: int) -> np.ndarray:
    """Mean of rows [L, ≤ length] with weights; an entry appended later counts as 0 before."""
    total = sum(np.pad(row, ((0, 0), (0, length - row.shape[1]))) * n for row, n in rows)
    return (total / sum(n for _, n in rows)).astype(np.float32)
