"""Read a stream under a fixed KV budget, and answer questions without disturbing it.

DeltaS (arXiv 2609.27470), Algorithm 1: states are copied before a chunk, the chunk runs over kept
entries at its original positions, its score is given once, and the policy decides who stays. A
question runs on a snapshot that is put back afterwards: KV, convolution and recurrent states.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.deltas import drift
from repro.deltas.retention import Meta, RetentionPolicy, bucket_of
from repro.deltas.signals import SIGNALS, Seen
from repro.errors import BadParameter


class StreamRunner:
    """B streams side by side, each with its own kept tokens.

    model: has ``open(batch)`` (`repro.deltas.hybrid`, `repro.deltas.adapter`). policy: None keeps
    everything. signal: a name of `SIGNALS`, or a function of `Seen` that returns scores [B] or
    [B, T]; one that returns [B, S + T] gives new scores to the cached tokens too.
    """

    def __init__(
        self,
        model: Any,
        policy: RetentionPolicy | None,
        signal: str | Callable[[Seen], Any] = "drift",
        batch: int = 1,
    ):
        if isinstance(signal, str) and signal not in SIGNALS:
            raise BadParameter(f"signal={signal!r} is refused; accepted: {', '.join(SIGNALS)}.")
        if policy is not None and not isinstance(policy, RetentionPolicy):
            raise BadParameter(
                f"policy={policy!r} is refused; accepted: a RetentionPolicy or None."
            )
        self.signal = SIGNALS[signal] if isinstance(signal, str) else signal
        self.model, self.policy, self.batch = model, policy, batch
        self.memory = model.open(batch)
        self.index = np.zeros((batch, 0), int)
        self.chunk = np.zeros((batch, 0), int)
        self.score = np.zeros((batch, 0))
        self.real = np.zeros((batch, 0), bool)
        self.position = np.zeros((1, batch, 0), int)  # [axes, B, S], as the model was given them
        self.next_position = np.zeros(batch, int)
        self.arrived = self.chunks = self.evictions = 0  # tokens a row, padding too
        self.seconds = {"forward": 0.0, "signal": 0.0, "gather": 0.0}
        self.scores: list[np.ndarray] = []  # each chunk's, as [B, T]

    @torch.no_grad()
    def feed(self, inputs: Tensor, positions: Any = None, real: Any = None) -> Tensor:
        """Read a chunk of T tokens, inputs [B, T, ...]; returns its logits [B, T, classes].

        positions [T], [B, T] or [axes, B, T]; None continues after the largest position so far,
        never after the cache length. real [B, T]: False marks padding, in the first chunk only
        and to the left of the tokens (elsewhere it would enter convolution and state).
        """
        new, place, seen = self._arguments(inputs, positions, real)
        before = drift.copied(self.memory.states())
        if not before:
            before = None  # a model that makes its states in the first chunk
        start = time.perf_counter()
        told = self.memory.forward(inputs, _on(inputs, place), _mask(inputs, seen))
        self.seconds["forward"] += time.perf_counter() - start
        self._append(place, new, seen)
        start = time.perf_counter()
        after = drift.copied(self.memory.states())
        before = before or [torch.zeros_like(s) for s in after]
        view = Seen(self.chunks, inputs, before, after, told, self.memory, self.index)
        self._scored(self.signal(view), new.shape[1])
        self.seconds["signal"] += time.perf_counter() - start
        self.chunks += 1
        start = time.perf_counter()
        self._evict()
        self.seconds["gather"] += time.perf_counter() - start
        return told.logits

    @torch.no_grad()
    def ask(self, question: Tensor, tokens: int = 0) -> Tensor:
        """Logits [B, classes] after the question [B, T, ...]; the stream stays as it was.

        tokens > 0, for models that read token ids: that many greedy answer tokens [B, tokens].
        """
        saved = self.memory.snapshot()
        place = self._continued(question.shape[1])
        seen = np.concatenate([self.real, np.ones((self.batch, question.shape[1]), bool)], 1)
        try:
            logits = self.memory.forward(
                question, _on(question, place), _mask(question, seen)
            ).logits
            answer = [logits[:, -1].argmax(-1)]
            for _ in range(1, tokens):
                place = place[:, :, -1:] + 1
                seen = np.concatenate([seen, np.ones((self.batch, 1), bool)], 1)
                args = answer[-1][:, None], _on(question, place), _mask(question, seen)
                answer.append(self.memory.forward(*args).logits[:, -1].argmax(-1))
        finally:
            self._undo(saved)
        return torch.stack(answer, 1) if tokens else logits[:, -1]

    def state(self) -> dict[str, Any]:
        """Copies of all that the next chunk depends on: for comparison, bit by bit."""
        return {
            "memory": self.memory.snapshot(),
            "meta": [x.copy() for x in (self.index, self.chunk, self.score, self.real)],
            "position": self.position.copy(),
            "next_position": self.next_position.copy(),
            "counts": [self.arrived, self.chunks],
        }

    def stats(self) -> dict[str, Any]:
        """Budget and sizes, counts, seconds by part, age and bucket of the survivors (stream 0)."""
        kv = sum(x.nbytes for pair in self.memory.attended() for x in pair)
        mine = self.chunk[0][self.real[0]]
        buckets = self.policy.buckets if self.policy else 1
        share = np.bincount(bucket_of(mine, buckets), minlength=buckets) / max(1, len(mine))
        return {
            "budget": self.policy.budget if self.policy else None,
            "cached": int(self.real.sum(1).max()),
            "kv_mib": kv / 2**20 / self.batch,
            "state_mib": sum(s.nbytes for s in self.memory.states()) / 2**20 / self.batch,
            "tokens": self.arrived,
            "chunks": self.chunks,
            "evictions": self.evictions,
            "seconds": dict(self.seconds),
            "ages": np.bincount(self.chunks - 1 - mine, minlength=1),
            "bucket_share": share,
        }

    def _arguments(self, inputs, positions, real):
        if inputs.ndim < 2 or inputs.shape[0] != self.batch or not inputs.shape[1]:
            raise BadParameter(
                f"inputs has shape {list(inputs.shape)}; accepted: [{self.batch}, T, ...], T >= 1."
            )
        shape = tuple(inputs.shape[:2])
        new = np.ones(shape, bool) if real is None else np.asarray(real, bool)
        if new.shape != shape:
            raise BadParameter(f"real has shape {new.shape}; accepted: {shape}, as inputs.")
        if not new.all() and (self.chunks or (np.diff(new.astype(int), axis=1) < 0).any()):
            raise BadParameter(
                "real marks padding in a later chunk or right of a token; accepted: padding in the "
                "first chunk, to the left. Elsewhere it would enter convolution and state."
            )
        place = (
            self._continued(shape[1], new) if positions is None else self._given(positions, shape)
        )
        return new, place, np.concatenate([self.real, new], 1)

    def _given(self, positions: Any, shape: tuple[int, int]) -> np.ndarray:
        place = np.asarray(positions, int)
        if place.shape == shape[1:]:
            place = np.broadcast_to(place, shape)
        place = place[None] if place.ndim == 2 else place
        if (
            place.ndim != 3
            or place.shape[1:] != shape
            or (self.chunks and len(place) != len(self.position))
        ):
            raise BadParameter(
                f"positions has shape {np.shape(positions)}; accepted: [T], [B, T] or [axes, B, T] "
                f"with B, T = {shape} and as many axes as before."
            )
        if (place.min((0, 2)) < 0).any():
            raise BadParameter(f"positions begins at {place.min()}; accepted: 0 and above.")
        return place.copy()

    def _continued(self, count: int, new: np.ndarray | None = None) -> np.ndarray:
        """[axes, B, T]: the positions after the largest one, a counter of its own."""
        steps = np.arange(count)[None] + np.zeros((self.batch, 1), int)
        if new is not None:  # padding holds the place of the first token
            steps = np.maximum(new.cumsum(1) - 1, 0)
        place = self.next_position[:, None] + steps
        return np.repeat(place[None], len(self.position), 0)

    def _append(self, place: np.ndarray, new: np.ndarray, seen: np.ndarray) -> None:
        count = new.shape[1]
        # a counter: without a window the newest tokens may be gone, and their numbers with them
        born = np.broadcast_to(self.arrived + np.arange(count), (self.batch, count))
        self.arrived += count
        self.index = np.concatenate([self.index, born], 1)
        self.chunk = np.concatenate([self.chunk, np.full((self.batch, count), self.chunks)], 1)
        self.real = seen
        old = self.position if self.chunks else np.zeros((len(place), self.batch, 0), int)
        self.position = np.concatenate([old, place], 2)
        self.next_position = np.maximum(self.next_position, place.max((0, 2)) + 1)

    def _scored(self, scores: Any, count: int) -> None:
        scores = np.asarray(scores, float)
        if scores.ndim == 1:
            scores = np.repeat(scores[:, None], count, 1)
        if scores.shape == self.index.shape and scores.shape[1] != count:
            self.score = scores[:, :-count]  # this signal looks at old tokens anew
            scores = scores[:, -count:]
        if scores.shape != (self.batch, count) or np.isnan(scores).any():
            raise BadParameter(
                f"signal gave shape {scores.shape} with {np.isnan(scores).sum()} NaN; accepted: "
                f"[{self.batch}] or [{self.batch}, {count}] without NaN."
            )
        self.scores.append(scores)
        self.score = np.concatenate([self.score, scores], 1)

    def _evict(self) -> None:
        if self.policy is None or self.index.shape[1] <= self.policy.budget:
            return
        rows = [self._kept(row) for row in range(self.batch)]
        width = max(map(len, rows))
        index, real = np.zeros((self.batch, width), int), np.ones((self.batch, width), bool)
        for row, kept in enumerate(rows):
            if short := width - len(kept):  # rows must be equally long: fill with unseen entries
                spare = np.setdiff1d(np.arange(self.index.shape[1]), kept)[:short]
                real[row] = np.isin(np.sort(np.append(kept, spare)), kept)
                kept = np.sort(np.append(kept, spare))
            index[row] = kept
        self.memory.keep(_on(self.memory.states()[0], index))
        self.index, self.chunk, self.score = (
            np.take_along_axis(x, index, 1) for x in (self.index, self.chunk, self.score)
        )
        self.real = np.take_along_axis(self.real, index, 1) & real
        self.position = np.take_along_axis(self.position, index[None], 2)
        self.evictions += 1

    def _kept(self, row: int) -> np.ndarray:
        """Entries of one stream that stay; padding is none of them."""
        real = np.flatnonzero(self.real[row])
        meta = Meta(self.index[row, real], self.chunk[row, real], self.score[row, real])
        return real[self.policy.select(meta)]

    def _undo(self, saved: Any) -> None:
        """Put KV, convolution and recurrent states back."""
        self.memory.restore(saved)


def _on(like: Tensor, array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).to(like.device)


def _mask(like: Tensor, real: np.ndarray) -> Tensor | None:
    return None if real.all() else _on(like, real)


def same(one: Any, other: Any) -> bool:
    """Whether two results of `StreamRunner.state` are equal bit by bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return np.array_equal(one, other)
