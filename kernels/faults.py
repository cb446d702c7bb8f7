"""Deliberate errors in plan, scores and counts, each a mistake that somebody could make."""

import dataclasses

import numpy as np

from repro.faults import Fault

_PLAN = "kernels.plan:plan"


def _all_survivors_move(original):
    """Every survivor goes to the next slot of the range, wherever it was."""

    def plan(keep, *args, **options):
        found = original(keep, *args, **options)
        old = np.flatnonzero(keep)
        return dataclasses.replace(found, src=old, dst=found.slots, perm=old)

    return plan


def _order_assumed(original):
    def plan(*args, **options):
        found = original(*args, **options)
        return dataclasses.replace(found, perm=np.sort(found.perm))

    return plan


def _tail_forgotten(original):
    """Slots between S and the end of the last block are not taken for holes."""

    def plan(keep, length, *args, **options):
        found = original(keep, length, *args, **options)
        return dataclasses.replace(found, dst=found.dst[found.dst < length])

    return plan


def _prefix_inside(original):
    def plan(keep, length, block_size, prefix_blocks=0, shared=None):
        return original(keep, length, block_size, 0, shared)

    return plan


def _binary_logarithm(original):
    def decode_reference(*args, **options):
        out, lse = original(*args, **options)
        return out, lse / np.log(2)

    return decode_reference


FAULTS = {
    "overlap": Fault("all survivors move, also onto slots still read", _PLAN, _all_survivors_move),
    "order_assumed": Fault("the order of survivors is taken to be kept", _PLAN, _order_assumed),
    "tail_forgotten": Fault("unused slots of the last block are no holes", _PLAN, _tail_forgotten),
    "prefix_inside": Fault("the prefix is compacted with the rest", _PLAN, _prefix_inside),
    "shared_written": Fault(
        "blocks that others read are filled",
        "kernels.plan:_not_shared",
        lambda original: lambda *_: None,
    ),
    "block_freed_twice": Fault(
        "a block given back stays in the table and is given back again",
        "kernels.plan:shorten",
        lambda original: (
            lambda table, moved: (
                np.append(original(table, moved)[0], table[moved.freed_blocks]),
                table[moved.freed_blocks],
            )
        ),
    ),
    "group_mean": Fault(
        "the query heads of a group are averaged",
        "kernels.paged_scores:group",
        lambda original: lambda x: x.mean(-2),
    ),
    "sum_not_mean": Fault(
        "action tokens are added up",
        "kernels.paged_scores:fold",
        lambda original: lambda mean, total, already, new: mean + total,
    ),
    "mean_one_late": Fault(
        "the running mean divides by the tokens before, not with, the new one",
        "kernels.paged_scores:fold",
        lambda original: (
            lambda mean, total, already, new: original(mean, total, max(already - 1, 0), new)
        ),
    ),
    "binary_logarithm": Fault(
        "the log-sum-exp is in bits",
        "kernels.paged_decode:decode_reference",
        _binary_logarithm,
    ),
    "read_only": Fault(
        "bytes written are not counted",
        "kernels.traffic:compaction",
        lambda original: lambda moved, g: original(moved, g) // 2,
    ),
}
