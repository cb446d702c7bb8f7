"""Deliberate faults in the study: the ways in which such comparisons go wrong."""

import dataclasses

from repro.faults import Fault

_STUDY, _TRAIN = "repro.kite.study_matched:", "repro.kite.training:"


def _stage_one_free(original):
    """Growing arms get their first stage on top of the budget."""

    def plan(arm, width, budget, share, recipe):
        steps = original(arm, width, budget, share, recipe)
        return steps if len(steps) == 1 else (steps[0], round(steps[1] / (1 - share)))

    return plan


FAULTS = {
    "flops_without_attention": Fault(
        "attention is not in the training FLOPs",
        "repro.kite.flops:attention",
        lambda original: lambda config, reads: 0,
    ),
    "stage_one_free": Fault(
        "the FLOPs of stage 1 are not counted for the arms that grow",
        _STUDY + "plan",
        _stage_one_free,
    ),
    "batch_repeated": Fault(
        "every step sees the first batch",
        _TRAIN + "batch",
        lambda original: lambda text, step, seed, recipe: original(text, 0, seed, recipe),
    ),
    "batches_by_arm": Fault(
        "each call draws batches of its own",
        _TRAIN + "batch",
        lambda original: _drifting(original),
    ),
    "schedule_of_the_longest": Fault(
        "all arms follow the schedule of a longer run, and stop in its middle",
        _TRAIN + "rate_at",
        lambda original: lambda step, steps, recipe: original(step, 2 * steps, recipe),
    ),
    "not_frozen": Fault(
        "the frozen arm trains its Prefiller",
        "repro.kite.model:SST.freeze_prefiller",
        lambda original: lambda self: None,
    ),
    "control_not_copied": Fault(
        "the grown dense control starts its upper layers at random",
        "repro.kite.growth:copy_block",
        lambda original: _lower_only(original),
    ),
    "cut_anywhere": Fault(
        "text is cut at a byte, in the middle of an article",
        "repro.kite.corpus:split",
        lambda original: lambda text, share: int(share * len(text)),
    ),
    "floor_sees_the_answer": Fault(
        "the unigram table is fitted on the windows it is tested on",
        "repro.kite.floors:unigram",
        lambda original: (
            lambda train, windows, smooth=1.0: original(windows[..., 1:].ravel(), windows, smooth)
        ),
    ),
    "interval_ignored": Fault(
        "a difference counts whatever its interval",
        "repro.kite.falsifiers:no_better",
        lambda original: (
            lambda first: original(dataclasses.replace(first, interval=(first.mean, first.mean)))
        ),
    ),
}


def _drifting(original):
    calls = []

    def batch(text, step, seed, recipe):
        calls.append(step)
        return original(text, step, seed + len(calls), recipe)

    return batch


def _lower_only(original):
    copied = []

    def copy_block(source, target):
        copied.append(source)
        if copied.count(source) == 1:
            original(source, target)

    return copy_block
