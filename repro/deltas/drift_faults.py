"""Deliberate faults in `repro.deltas.delta` and `drift`: mistakes that a reader could make."""

import torch

from repro.faults import Fault

_DRIFT, _DELTA = "repro.deltas.drift:", "repro.deltas.delta:"


def _without_ratio(original):
    def ratio(moved, before, reduce, eps):
        ones = [torch.full_like(b, b[0, 0].numel() ** -0.5) for b in before]
        return original(moved, ones, "head" if reduce == "head" else "layer", eps)

    return ratio


FAULTS = {
    "unnormalised": Fault(
        "the drift is not divided by the size of the state before",
        _DRIFT + "_ratio",
        _without_ratio,
    ),
    "heads_apart": Fault(
        "ratios are taken head by head although heads are to be pooled",
        _DRIFT + "_size",
        lambda original: (
            lambda x, reduce: (
                original(x, "head") if reduce == "head" else original(x, "head").sum(-1)
            )
        ),
    ),
    "state_by_reference": Fault(
        "the state before the chunk is a reference to a cache that is updated in place",
        _DRIFT + "copied",
        lambda original: lambda states: list(states),
    ),
    "low_precision": Fault(
        "states are compared in bfloat16",
        _DRIFT + "_full",
        lambda original: lambda x: x.bfloat16().float(),
    ),
    "forgetting_as_writing": Fault(
        "write-only drift compares with the state that has not decayed",
        _DRIFT + "_kept",
        lambda original: (
            lambda before, log_decay: [torch.ones_like(g) for g in original(before, log_decay)]
        ),
    ),
    "prediction_ignored": Fault(
        "the value is written as it is, not its difference to what the state predicts",
        _DELTA + "_error",
        lambda original: lambda decayed, k, v: v,
    ),
    "plain_causal_mask": Fault(
        "inside a block earlier tokens count in full, without the decay between them",
        _DELTA + "_between",
        lambda original: lambda c: (original(c) > 0).float(),
    ),
    "no_unit_keys": Fault(
        "keys and queries keep their length",
        _DELTA + "unit",
        lambda original: lambda x: x,
    ),
}
