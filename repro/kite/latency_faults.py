"""Deliberate faults in timing: most of them have been made in published benchmarks (notes 11)."""

import dataclasses

from repro.faults import Fault
from repro.kite.config import Config

_STUDY, _LATENCY, _WATCH = (
    f"repro.kite.{name}:" for name in ("study_latency", "latency", "stopwatch")
)


def _wider(original):
    def dense_of(config):
        found = original(config)
        return Config(**{**found.__dict__, "hidden": found.hidden + 8})

    return dense_of


def _writes(original):
    """The Decoder appends keys and values of its own: as many layers again."""

    def decode(self, e, h, past, length, positions, seen):
        z = original(self, e, h, past, length, positions, seen)
        if self.decoder and len(past.keys) == len(self.prefiller):
            past.keys, past.values = 2 * past.keys, 2 * past.values
        return z

    return decode


def _unwaited(original):
    """The host's clock, read when the last call is enqueued."""

    def stop(self):
        found = original(self)
        return dataclasses.replace(found, wall=found.host)

    return stop


def _each(original):
    """A wait after every call."""

    def loop(call, count, clock):
        cuda = getattr(clock, "cuda", None)

        def waited():
            call()
            if cuda is not None:
                cuda.synchronize()

        return original(waited, count, clock)

    return loop


FAULTS = {
    "decoder_writes_kv": Fault(
        "the Decoder writes keys and values of its own at prefill",
        "repro.kite.model:SST.decode",
        _writes,
    ),
    "logits_everywhere_in_one_arm": Fault(
        "the dense arm computes logits at all positions, the towers at the last",
        _STUDY + "keep",
        lambda original: lambda name: None if name == "dense" else original(name),
    ),
    "dense_is_wider": Fault(
        "the dense arm has a wider FFN than the towers",
        _STUDY + "dense_of",
        _wider,
    ),
    "ideal_without_attention": Fault(
        "the ideal leaves out scores and values of attention",
        "repro.kite.flops:attention",
        lambda original: lambda config, reads: 0,
    ),
    "launches_forgotten": Fault(
        "the prediction has no launches",
        _LATENCY + "group",
        lambda original: (
            lambda work, moved, layers, card, per_layer: original(work, moved, layers, card, 0)
        ),
    ),
    "weights_unread": Fault(
        "the prediction lets the Decoder's weights be read for nothing",
        _LATENCY + "_moved",
        lambda original: (
            lambda config, writes, tokens, size: writes * original(config, writes, tokens, size)
        ),
    ),
    "excess_passes": Fault(
        "a ratio above its ideal is not called an error",
        _LATENCY + "judge",
        lambda original: (
            lambda ratios, ideals, limit: original(ratios, dict.fromkeys(ideals, 9e9), limit)
        ),
    ),
    "decode_gain_passes": Fault(
        "a token that the towers make far quicker is not called an error",
        _LATENCY + "read_decode",
        lambda original: (
            lambda ratios, ideal, operations: original(ratios, ideal, max(operations, 9.0))
        ),
    ),
    "no_wait": Fault(
        "the clock is read when the calls are enqueued, not when they are done",
        _WATCH + "Cuda.stop",
        _unwaited,
    ),
    "wait_each_call": Fault("the device is waited for after every call", _WATCH + "loop", _each),
    "one_arm_after_the_other": Fault(
        "all laps of one arm, then all of the next",
        _WATCH + "turns",
        lambda original: (
            lambda names, repeats: ((i, name) for name in names for i in range(repeats))
        ),
    ),
    "first_calls_timed": Fault(
        "nothing is warmed up",
        _WATCH + "warm",
        lambda original: lambda call, count: None,
    ),
    "ratios_across_repeats": Fault(
        "a lap is divided by another repeat's",
        _WATCH + "ratios",
        lambda original: (
            lambda above, below, clock="cpu": original(above, [*below[1:], below[0]], clock)
        ),
    ),
    "graph_without_warm_up": Fault(
        "a graph is captured at the first call", "repro.kite.variants:WARM", lambda original: 0
    ),
}
