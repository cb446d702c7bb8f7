"""Deliberate faults in `repro.actkv.eviction` and `access`: mistakes that a reader could make."""

import functools

import numpy as np

from repro.faults import Fault

_HOME = "repro.actkv.eviction:"


def _scores_lost(original):
    @functools.wraps(original)
    def step(self, length, budget):
        kept = original(self, length, budget)
        if len(kept) < length:
            self.score = np.zeros(len(kept))
        return kept

    return step


FAULTS = {
    "hits_ignored": Fault(
        "every entry adds its attention to its score, hit or not",
        _HOME + "updated_score",
        lambda original: (
            lambda score, attention, hits, decay: original(
                score, attention, np.arange(score.size), decay
            )
        ),
    ),
    "prefix_in_mass": Fault(
        "the protected prefix counts in the mass of the hit set",
        _HOME + "hit_set",
        lambda original: (
            lambda attention, mass=0.9, protected=0, prefix_in_mass=False, ties="newer": original(
                attention, mass, protected, True, ties
            )
        ),
    ),
    "exact_comparison": Fault(
        "the hit set compares sums of floats without a tolerance",
        _HOME + "_ROUNDING",
        lambda original: 0.0,
    ),
    "prefix_evicted": Fault(
        "the prefix competes for its place like any other entry",
        _HOME + "_keep",
        lambda original: (
            lambda score, protected, allowance, ties: original(
                score, 0, protected + allowance, ties
            )
        ),
    ),
    "ties_to_older": Fault(
        "among equal scores the older slot wins",
        _HOME + "_ranked",
        lambda original: lambda values, ties: original(values, "older"),
    ),
    "decay_forgotten": Fault(
        "old scores are never decayed",
        _HOME + "updated_score",
        lambda original: lambda score, attention, hits, decay: original(score, attention, hits, 1),
    ),
    "group_mean": Fault(
        "query heads of a group are averaged instead of taking the largest",
        _HOME + "action_attention",
        lambda original: (
            lambda attn, group_reduce="max", head_reduce="mean": original(attn, "mean", head_reduce)
        ),
    ),
    "scores_not_carried": Fault(
        "an eviction resets the scores of the survivors",
        _HOME + "ActionLRFU.step",
        _scores_lost,
    ),
    "born_ignored": Fault(
        "rounds before an entry existed count as rounds that did not read it",
        "repro.actkv.access:access_class",
        lambda original: lambda vector, born=0: original(vector, 0),
    ),
}
