"""Deliberate faults in the training of MaD-RL: mistakes that a reader could make."""

import functools

import numpy as np

from repro.faults import Fault

_POLICY, _TRAIN = "repro.mad_rl.policy:", "repro.mad_rl.train:"


def _causal(original):
    import torch

    return lambda owner: torch.ones(len(owner), len(owner)).tril().bool()


def _positions_run_on(original):
    def packed(prompt, answers):
        ids, owner, _ = original(prompt, answers)
        return ids, owner, list(range(len(ids)))

    return packed


def _among_valid(original):
    def measured(p, target):
        return original(p / p.sum(-1, keepdims=True), target)

    return measured


def _beginnings(original):
    def category(question, ids):
        starts = [a[: len(ids)] == tuple(ids)[: len(a)] for a in question.answers]
        return starts.index(True) if any(starts) else -1

    return category


def _seeded_by_arm(original):
    @functools.wraps(original)
    def sample(model, prompt, group, cap, end, generator):
        generator.seed()
        return original(model, prompt, group, cap, end, generator)

    return sample


FAULTS = {
    "answers_see_each_other": Fault(
        "answers scored together read the answers before them",
        _POLICY + "visible",
        _causal,
    ),
    "positions_run_on": Fault(
        "positions of an answer go on from the answer before it",
        _POLICY + "packed",
        _positions_run_on,
    ),
    "beginnings_count": Fault(
        "an answer that only begins right is taken for a right one",
        "repro.mad_rl.tasks:category",
        _beginnings,
    ),
    "invalid_dropped": Fault(
        "the measure is taken among valid answers and called unconditional",
        "repro.mad_rl.study_training:measured",
        _among_valid,
    ),
    "gain_sign": Fault(
        "the surrogate is descended",
        _TRAIN + "_gain",
        lambda original: lambda *arguments: -original(*arguments),
    ),
    "target_ignored": Fault(
        "rewards are for the uniform mix, whatever the target",
        "repro.mad_rl.rewards:group",
        lambda original: (
            lambda name, categories, target, **options: original(
                name, categories, np.full(len(target), 1 / len(target)), **options
            )
        ),
    ),
    "fresh_dice": Fault(
        "every arm draws with random numbers of its own",
        _POLICY + "sample",
        _seeded_by_arm,
    ),
    "end_not_asked": Fault(
        "answers are drawn without minding the end token",
        _POLICY + "sample",
        lambda original: (
            lambda model, prompt, group, cap, end, generator: original(
                model, prompt, group, cap, -1, generator
            )
        ),
    ),
}
