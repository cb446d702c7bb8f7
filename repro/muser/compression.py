"""Hierarchical temporal compression: recent actions stay, middle and early ones are pooled.

Source: arXiv 2609.23677, Fig. 2 and Eq. 6, as the project's notes give them (section 3.2): widths
16 and 64, attentive pooling inside a block. Segment bounds, the form of the attention and how
blocks are aligned are open there; here they are arguments. All histories run from old to new.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from repro.errors import BadParameter

EARLY, MIDDLE, RECENT = range(3)
ALIGNMENTS = ("newest", "absolute")
WIDTHS = (16, 64)  # of a middle and of an early block


@dataclass(frozen=True, eq=False)
class Plan:
    """How L actions become Lc tokens, from old to new: token i stands for start[i] to stop[i].

    start, stop: [Lc] int, places in the history. segment: [Lc] int, EARLY, MIDDLE or RECENT.
    """

    start: np.ndarray
    stop: np.ndarray
    segment: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> int:
        """L, the actions that the plan covers."""
        return int(self.stop[-1]) if len(self) else 0

    def tokens(self) -> tuple[int, int, int]:
        """Early, middle and recent tokens; they sum to Lc."""
        return tuple(int(n) for n in np.bincount(self.segment, minlength=3))

    def block(self) -> np.ndarray:
        """The token of every action, [L]."""
        return np.repeat(np.arange(len(self)), self.stop - self.start)

    def pooled(self) -> set[tuple[int, int]]:
        """(start, stop) of the middle and early blocks: what a cache could keep."""
        kept = self.segment != RECENT
        return set(zip(self.start[kept].tolist(), self.stop[kept].tolist(), strict=True))


def plan(
    length: int,
    recent: int = 512,
    middle: int = 4096,
    widths: Sequence[int] = WIDTHS,
    align: str = "newest",
) -> Plan:
    """Blocks for a history of `length` actions, of which the newest `recent` stay raw.

    The `middle` actions before them form blocks of widths[0], all earlier ones of widths[1].
    align: ``newest`` counts blocks back from the newer end of each segment, so that a block that
        is not full is its segment's oldest, and Lc = Lr + ceil(Lm / w0) + ceil(Le / w1);
        ``absolute`` cuts at multiples of the widths from the oldest action on, and never changes
        a block again. Then up to w0 - 1 more actions stay raw and no block is short.

    Raises BadParameter for negative counts, widths below 1, and for ``absolute`` where widths[1]
    is no multiple of widths[0].
    """
    for name, value in (("length", length), ("recent", recent), ("middle", middle)):
        if value < 0:
            raise BadParameter(f"{name}={value} is refused; accepted: 0 or more actions.")
    if len(widths) != 2 or min(widths) < 1:
        raise BadParameter(f"widths={tuple(widths)} is refused; accepted: two widths of 1 or more.")
    if align not in ALIGNMENTS:
        raise BadParameter(f"align={align!r} is not known; accepted: {ALIGNMENTS}.")
    if align == "absolute" and widths[1] % widths[0]:
        raise BadParameter(
            f"widths={tuple(widths)} do not nest; accepted with align='absolute': an early width "
            "that is a multiple of the middle one."
        )
    raw = max(length - recent, 0)  # first action of the recent segment
    old = max(raw - middle, 0)  # first action of the middle segment
    if align == "absolute":
        old -= old % widths[1]
        raw -= (raw - old) % widths[0]
        early = np.arange(0, old, widths[1])
        middles = np.arange(old, raw, widths[0])
    else:
        early = _back(0, old, widths[1])
        middles = _back(old, raw, widths[0])
    start = np.concatenate([early, middles, np.arange(raw, length)]).astype(np.int64)
    stop = np.append(start[1:], length)[: len(start)]
    sizes = len(early), len(middles), length - raw
    return Plan(start, stop, np.repeat([EARLY, MIDDLE, RECENT], sizes))


def _back(first: int, end: int, width: int) -> np.ndarray:
    """Starts of blocks that are counted back from `end`; the oldest may be short."""
    return np.maximum(np.arange(end - width, first - width, -width), first)[::-1]


def by_age(times: np.ndarray, now: float, recent: float, middle: float) -> tuple[int, int]:
    """Counts (recent, middle) for `plan` where segments are cut by age.

    times: [L], seconds, from old to new. An action is recent up to an age of `recent` seconds,
    and middle up to one of `middle`. Raises BadParameter when the clock runs backwards.
    """
    times = np.asarray(times, dtype=float)
    if times.ndim != 1 or not np.isfinite(times).all():
        raise BadParameter(f"times has shape {times.shape}; accepted: [L], all finite.")
    if not 0 <= recent <= middle:
        raise BadParameter(f"recent={recent}, middle={middle}; accepted: 0 <= recent <= middle.")
    if len(times) and ((back := np.diff(times) < 0).any() or now < times[-1]):
        at = int(back.argmax()) + 1 if back.any() else len(times)
        raise BadParameter(
            f"times run backwards at place {at} of {len(times)} (the last place is now={now}); "
            "accepted: times that never fall, and a now that is not before the last of them."
        )
    ages = now - times
    return int((ages <= recent).sum()), int(((ages > recent) & (ages <= middle)).sum())


def gather(items: torch.Tensor, history: Sequence[int]) -> torch.Tensor:
    """Vectors [L, d] of a history of item numbers, out of items [n, d].

    Raises BadParameter for an item that the table does not hold.
    """
    ids = torch.as_tensor(history, dtype=torch.long)
    outside = (ids < 0) | (ids >= len(items))
    if outside.any():
        at = int(outside.nonzero()[0])
        raise BadParameter(
            f"history[{at}]={int(ids[at])} is an unknown item; accepted: 0 to {len(items) - 1}."
        )
    return items[ids]


def gaps(times: np.ndarray, plan: Plan) -> torch.Tensor:
    """log(1 + seconds to the newest action of the same block), [L].

    Nothing here depends on the present time. A feature that did, such as age, would change with
    every request, and with it each pooled vector.
    """
    times = np.asarray(times, dtype=float)
    newest = times[plan.stop - 1] if len(plan) else times[:0]
    return torch.from_numpy(np.log1p(newest[plan.block()] - times))


@dataclass(frozen=True)
class Attention:
    """Weights of the pooling: v [h], W_a [h, d], W_t [h]."""

    v: torch.Tensor
    W_a: torch.Tensor
    W_t: torch.Tensor

    def logits(self, x: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """v . tanh(W_a e_j + W_t delta_j) for x [L, d] and gap [L]: [L]."""
        return torch.tanh(x @ self.W_a.T + gap.to(x)[:, None] * self.W_t) @ self.v


def pool(x: torch.Tensor, plan: Plan, logits: torch.Tensor | None = None) -> torch.Tensor:
    """One token a block: the mean of x [L, d] under a softmax of logits [L] in it; [Lc, d].

    Without logits, the plain mean. A block of one action is that action. Time is linear in L.
    Raises BadParameter where x or logits do not have the plan's length.
    """
    if x.ndim != 2 or len(x) != plan.length:
        raise BadParameter(f"x has shape {tuple(x.shape)}; accepted: ({plan.length}, d).")
    if logits is None:
        logits = torch.zeros(len(x), dtype=x.dtype)
    if logits.shape != (len(x),):
        raise BadParameter(f"logits has shape {tuple(logits.shape)}; accepted: ({len(x)},).")
    block = torch.from_numpy(plan.block())
    top = torch.full((len(plan),), -torch.inf, dtype=x.dtype)
    top = top.scatter_reduce(0, block, logits.detach(), "amax")  # as in any softmax
    weight = torch.exp(logits - top[block])
    total = torch.zeros(len(plan), dtype=x.dtype).index_add(0, block, weight)
    share = weight / total[block]
    return torch.zeros(len(plan), x.shape[1], dtype=x.dtype).index_add(0, block, share[:, None] * x)


def extend(x: torch.Tensor, new: Plan, kept: Plan, tokens: torch.Tensor, **given) -> torch.Tensor:
    """`pool(x, new)`, taking every block that `kept` has already from its tokens [Lc, d].

    given: logits [L], as for `pool`. Equal to the full computation; only new blocks cost work.
    """
    old = {span: i for i, span in enumerate(_spans(kept))}
    place = [old.get(span, -1) for span in _spans(new)]
    fresh = [i for i, at in enumerate(place) if at < 0]
    out = tokens.new_empty(len(new), x.shape[1])
    same = [i for i, at in enumerate(place) if at >= 0]
    out[same] = tokens[[place[i] for i in same]]
    if fresh:
        spans = [np.arange(new.start[i], new.stop[i]) for i in fresh]
        ends = np.cumsum([len(span) for span in spans])
        part = Plan(np.append(0, ends[:-1]), ends, new.segment[fresh])
        chosen = torch.from_numpy(np.concatenate(spans))
        logits = given.get("logits")
        out[fresh] = pool(x[chosen], part, None if logits is None else logits[chosen])
    return out


def _spans(plan: Plan) -> list[tuple[int, int]]:
    return list(zip(plan.start.tolist(), plan.stop.tolist(), strict=True))
