"""Deliberate faults in `repro.deltas.retention` and `runner`: mistakes that a reader could make."""

import dataclasses

import numpy as np
import torch

from repro.deltas.memory import Attended
from repro.faults import Fault

_POLICY, _RUNNER = "repro.deltas.retention:", "repro.deltas.runner:StreamRunner."


def _by_survivors(original):
    """The index in the surviving cache stands in for the time of arrival."""
    return lambda chunk, buckets: original(np.unique(chunk, return_inverse=True)[1], buckets)


def _from_the_cache(original):
    def continued(self, count, new=None):
        place = self.real.sum(1)[:, None] + np.arange(count)
        return np.repeat(place[None], len(self.position), 0)

    return continued


def _cropped(original):
    def undo(self, saved):
        for held, copy in zip(self.memory.layers, saved, strict=True):
            if isinstance(held, Attended):
                held.restore(copy)

    return undo


def _first_layer_only(original):
    def keep(self, index):
        done = False
        for held in self.layers:
            if isinstance(held, Attended):
                held.keep(index if not done else torch.arange(index.shape[1]).expand_as(index))
                done = True

    return keep


def _ranked_again(original):
    def scored(self, scores, count):
        original(self, scores, count)
        self.score[:] = self.score[:, -1:]

    return scored


FAULTS = {
    "no_spill": Fault(
        "what an empty bucket leaves over is not handed on",
        _POLICY + "_spill",
        lambda original: lambda rest, unused: rest[:0],
    ),
    "buckets_by_survivors": Fault(
        "buckets are cut by place in the surviving cache, not by time of arrival",
        _POLICY + "bucket_of",
        _by_survivors,
    ),
    "sinks_evicted": Fault(
        "sinks compete like any other token",
        _POLICY + "RetentionPolicy.select",
        lambda original: lambda self, meta: original(dataclasses.replace(self, sinks=0), meta),
    ),
    "spread_reversed": Fault(
        "a chunk that is cut is spread from its end",
        _POLICY + "_even",
        lambda original: lambda size: original(size)[::-1],
    ),
    "positions_renumbered": Fault(
        "the next position is the number of cached tokens",
        _RUNNER + "_continued",
        _from_the_cache,
    ),
    "question_only_cropped": Fault(
        "after a question the KV is cut back, the recurrent states stay as they are",
        _RUNNER + "_undo",
        _cropped,
    ),
    "layers_apart": Fault(
        "only the first attention layer gathers the kept entries, others drop the newest",
        "repro.deltas.memory:Memory.keep",
        _first_layer_only,
    ),
    "scores_rewritten": Fault(
        "the newest chunk's score is given to all cached tokens",
        _RUNNER + "_scored",
        _ranked_again,
    ),
}
