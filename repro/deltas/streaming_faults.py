"""Deliberate faults in the streams and arms of the comparison: ways to fool oneself."""

import dataclasses

import numpy as np

from repro.deltas import drift
from repro.deltas.arms import ARMS
from repro.faults import Fault

_STREAMS, _ARMS = "repro.deltas.streams:", "repro.deltas.arms:"


def _shifted(original):
    def draw(*args, **options):
        found = original(*args, **options)
        return dataclasses.replace(found, place=found.place + 1)

    return draw


def _arm(name: str, maker):
    """The table of arms with another maker for `name`."""
    return lambda original: original | {name: (maker, *original[name][1:])}


def _unlabelled(original):
    def draw(*args, **options):
        found = original(*args, **options)
        found.kind[found.kind == 3] = 0
        return found

    return draw


def _always_new(original):
    def scenes(world, rng, g, batch, frames, kind, others):
        return original(
            world, rng, g, batch, frames, "static" if kind == "returns" else kind, others
        )

    return scenes


FAULTS = {
    "truth_off_by_one": Fault(
        "the truth points at the token after the object", _STREAMS + "draw", _shifted
    ),
    "noise_unlabelled": Fault("noise frames count as repeats", _STREAMS + "draw", _unlabelled),
    "scenes_never_return": Fault(
        "A-B-A streams show a new scene at every cut", _STREAMS + "_scenes", _always_new
    ),
    "placebo_is_the_signal": Fault(
        "shuffled drift keeps each stream's own numbers",
        _ARMS + "_other",
        lambda original: lambda score: score,
    ),
    "uniform_over_survivors": Fault(
        "the uniform arm samples the survivors again and again",
        "repro.deltas.study_streaming:ARMS",
        _arm("uniform", ARMS["survivors"][0]),
    ),
    "oracle_guesses": Fault(
        "the oracle ranks by drift",
        "repro.deltas.study_streaming:ARMS",
        _arm("oracle", lambda at: lambda seen: drift.drift(seen.before, seen.after)),
    ),
    "budget_ignored": Fault(
        "an arm runs with the full cache",
        "repro.deltas.retention:RetentionPolicy.select",
        lambda original: lambda self, meta: np.arange(len(meta)),
    ),
}
