"""Deliberate faults in `repro.toolsearcher.credit` and `answer`: mistakes that are easily made."""

from types import SimpleNamespace

import numpy as np

from repro.faults import Fault
from repro.toolsearcher import answer

_HOME = "repro.toolsearcher.credit:"


def _unguarded(original):
    def standardised(values, std="sample", epsilon=1e-6):
        values = np.asarray(values, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (values - values.mean(0)) / values.std(0, ddof=1 if std == "sample" else 0)

    return standardised


def _pooled(original):
    def standardised(values, std="sample", epsilon=1e-6):
        values = np.asarray(values, dtype=float)
        return original(values.reshape(-1), std, epsilon).reshape(values.shape)

    return standardised


def _by_position(original):
    def batch_credit(batch, targets, **options):
        size = len(batch) // len(targets)
        groups = [batch[i : i + size] for i in range(0, len(batch), size)]
        return [
            one
            for group in groups
            for one in original(
                [type(t)(group[0].query, t.retrieved, t.answer) for t in group], targets, **options
            )
        ]

    return batch_credit


def _untrimmed(original):
    def read_answer(turn):
        blocks = answer._BLOCK.findall(turn)
        names = blocks[-1].split(",") if blocks else ()
        return answer.Answer(frozenset(names), len(blocks))

    return read_answer


FAULTS = {
    "repeats_credited": Fault(
        "every search that returns a target is credited, not only the first",
        _HOME + "first_found",
        lambda original: lambda hit: hit,
    ),
    "negative_search_credit": Fault(
        "a search that finds nothing new gets the lowest score of its trajectory",
        _HOME + "search_advantage",
        lambda original: (
            lambda first, score: np.where(first.any(1), original(first, score), score.min())
        ),
    ),
    "sum_over_targets": Fault(
        "a search is paid the sum over the targets it finds",
        _HOME + "search_advantage",
        lambda original: lambda first, score: np.where(first, score, 0.0).sum(1),
    ),
    "pooled_statistics": Fault(
        "mean and deviation are taken over all targets at once",
        _HOME + "standardised",
        _pooled,
    ),
    "nan_at_zero_variance": Fault(
        "a group in which all are equal is divided by its deviation of zero",
        _HOME + "standardised",
        _unguarded,
    ),
    "other_deviation": Fault(
        "the population deviation where the sample one is asked for",
        _HOME + "standardised",
        lambda original: (
            lambda values, std="sample", epsilon=1e-6: original(values, "population", epsilon)
        ),
    ),
    "gate_removed": Fault(
        "selection is credited whatever the searches found",
        _HOME + "complete",
        lambda original: lambda found: np.ones(len(found), dtype=bool),
    ),
    "gate_opens_early": Fault(
        "one target found is enough to open the gate",
        _HOME + "complete",
        lambda original: lambda found: found.any(axis=1),
    ),
    "gate_before_statistics": Fault(
        "closed trajectories are left out of mean and deviation",
        _HOME + "selection_advantage",
        lambda original: (
            lambda reward, gate_open, std="sample", epsilon=1e-6, gate="hard", statistics="all": (
                original(reward, gate_open, std, epsilon, gate, "all" if gate == "none" else "open")
            )
        ),
    ),
    "first_block_scored": Fault(
        "of several answer blocks the first is scored",
        "repro.toolsearcher.answer:_BLOCK",
        lambda original: SimpleNamespace(findall=lambda text: original.findall(text)[::-1]),
    ),
    "bonus_for_any_block": Fault(
        "the format bonus is paid for two blocks as well, and for none",
        _HOME + "selection_reward",
        lambda original: (
            lambda answer, targets, score="exact", bonus=0.1: (
                original(answer, targets, score, 0.0) + bonus
            )
        ),
    ),
    "names_not_trimmed": Fault(
        "white space around the names of an answer is part of them",
        "repro.toolsearcher.answer:read_answer",
        _untrimmed,
    ),
    "groups_by_position": Fault(
        "neighbours in the batch are taken for a group",
        _HOME + "batch_credit",
        _by_position,
    ),
}
