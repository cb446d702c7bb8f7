"""What each policy keeps of a real agent trace, round by round (arXiv 2609.31395, Algorithm 1).

SmolLM2-135M reads one executed BFCL task; the policies are replayed over its attention, as in the
chapter's notebook on eviction and with that notebook's sizes. One trace and one layer: a picture.
"""

from dataclasses import replace

import numpy as np

from repro import models, player
from repro.actkv import study_eviction, study_policies
from repro.actkv.study_eviction import Recorded
from repro.player import Cells, Frame
from repro.traces import LABELS, load_traces

SEED, LAYER, BUDGET = 42, 20, 128
DECAY, MASS, LONGEST, ROUNDS = 0.5, 0.9, 1536, 6
NAMES = {
    "decay 0.5": "action attention, decay 0.5",
    "decay 0": "action attention, decay 0",
    "decay 1": "action attention, decay 1",
    "all queries": "attention of all queries",
    "newest": "the newest entries",
    "random": "entries by lot",
    "next action": "ceiling: what the next action reads most",
}


def make() -> player.Player:
    model, tokenizer = models.load("smollm2-135m", device="cpu")
    del model.model.layers[LAYER + 1 :]  # those above the layer shown cost time and change nothing
    (trace,) = load_traces(tokenizer, 1, SEED, max_tokens=LONGEST, min_rounds=ROUNDS).traces
    read = _one_layer(study_eviction.record(model, trace))
    rng = np.random.default_rng(SEED)
    kept = study_policies.arms(read, BUDGET, [0.5, 0.0, 1.0], DECAY, MASS, rng)
    scores = {f"decay {d:g}": _scores(read, read.action, d) for d in (0.5, 0.0, 1.0)}
    scores["all queries"] = _scores(read, read.every, DECAY)
    texts = (f"[prefix: {read.protected} tokens, never evicted]\n", *_texts(read))
    tracks = {
        NAMES[arm]: [_frame(read, texts, held, scores.get(arm), at) for at in _rounds(read)]
        for arm, held in kept.items()
    }
    first = tracks[NAMES["decay 0.5"]][-1]
    return player.Player(
        title="Which tokens stay, round by round",
        alt=f"The text of a trace, kept tokens on a coloured ground and bold, evicted ones struck "
        f"through, for action attention with decay 0.5. {first.caption}",
        about=f"SmolLM2-135M read one executed BFCL task; layer {LAYER}, a "
        f"budget of {BUDGET} unprotected entries. The attention is that of the full cache. One "
        "trace is an example, not a comparison.",
        tracks=tracks,
        step="round",
        choice="Policy",
        value="score",
        notes=("prefix", *_notes(read)),
        legend={"kept": "cached", "gone": "evicted", "fixed": "prefix"},
    )


def _one_layer(read: Recorded) -> Recorded:
    kept = {k: [row[LAYER : LAYER + 1] for row in getattr(read, k)] for k in ("action", "every")}
    return replace(read, **kept)


def _scores(read: Recorded, rows: list[np.ndarray], decay: float) -> np.ndarray:
    """Scores [T, S]; NaN: not cached."""
    return study_eviction.film(read, rows, BUDGET, decay=decay, mass=MASS)[0]


def _rounds(read: Recorded) -> range:
    """Those after which an action is still to come, so that the choice can be judged."""
    return range(len(read.spans) - 1)


def _texts(read: Recorded) -> list[str]:
    """The text of each token outside the prefix; of a sign in several tokens the first has it."""
    texts, ends = [], 0
    for at in range(read.protected, int(read.lengths[-1])):
        start, stop = read.trace.offsets[at]
        texts.append(read.trace.text[max(start, ends) : stop] or "\u200b")
        ends = max(ends, stop)
    return texts


def _notes(read: Recorded) -> list[str]:
    labels, rounds = read.trace.labels, read.trace.rounds
    return [
        f"{LABELS[labels[at]]} of round {rounds[at] + 1}"
        for at in range(read.protected, int(read.lengths[-1]))
    ]


def _frame(
    read: Recorded, texts: tuple[str, ...], kept: np.ndarray, scores: np.ndarray | None, at: int
) -> Frame:
    """After round `at`: kept [1, T, S] bool, scores [T, S] or None."""
    first, length = read.protected, int(read.lengths[at])
    mine = kept[0, at, first:length]
    ahead = read.action[at + 1][0, first:length].astype(float)
    share = float((ahead * mine).sum() / ahead.sum())
    told = (
        f"After round {at + 1}: {int(mine.sum())} of {mine.size} unprotected tokens are cached. Of "
        f"the attention that the next action gives to these {mine.size}, {share:.0%} falls on them."
    )
    kinds = "f" + "".join("k" if held else "g" for held in mine)
    values = ()
    if scores is not None:
        row = scores[at, first:length]
        values = (None, *(None if np.isnan(v) else float(v) for v in row))
    return Frame(told, Cells(texts, kinds, values))
