"""Deliberate faults in `repro.actkv.confidence`, each a mistake that a reader could make."""

import dataclasses
import math

from repro.faults import Fault

_HOME = "repro.actkv.confidence:"


def _shrinking(original):
    def next_budget(confidence, budget, *args, **options):
        found = original(confidence, budget, *args, **options)
        if found.slope is None or found.slope < 0:
            return found
        return dataclasses.replace(found, budget=max(1, int(budget / 1.75)))

    return next_budget


FAULTS = {
    "negated_confidence": Fault(
        "the token formula is read as a surprisal and negated, whatever k",
        _HOME + "to_confidence",
        lambda original: lambda signal, kind, top_k=20: original(signal, kind, 1),
    ),
    "top1_not_negated": Fault(
        "at k = 1 the formula, there a surprisal, is taken for a confidence",
        _HOME + "to_confidence",
        lambda original: lambda signal, kind, top_k=20: original(signal, kind, max(2, top_k)),
    ),
    "rank_axis": Fault(
        "the line is fitted over ranks of the kept windows instead of their place in the trace",
        _HOME + "_axis",
        lambda original: lambda kept, x: original(kept, "rank"),
    ),
    "max_pooling": Fault(
        "each window is summed up by its most confident token instead of its least",
        _HOME + "_pool",
        lambda original: lambda values, window, stride: -original(-values, window, stride),
    ),
    "entropy_in_bits": Fault(
        "the entropy is in bits while T is in nats",
        "repro.actkv.rows:entropy",
        lambda original: lambda z, ln_z: original(z, ln_z) / math.log(2),
    ),
    "ceil_ladder": Fault(
        "the raised budget is rounded up instead of down",
        _HOME + "_grown",
        lambda original: lambda budget, scale_up, rounding: original(budget, scale_up, "ceil"),
    ),
    "shrinking_budget": Fault(
        "confidence that does not fall takes a raise back",
        _HOME + "next_budget",
        _shrinking,
    ),
}
