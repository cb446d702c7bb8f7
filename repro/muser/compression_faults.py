"""Deliberate faults in the compression: mistakes that a reader could make."""

import numpy as np

from repro.faults import Fault


def _forward(first, end, width):
    return np.arange(first, end, width)


def _to_the_newest_of_all(original):
    def gaps(times, plan):
        import torch

        # relative to the newest action of all: every pooled vector changes with the next action
        return torch.from_numpy(np.log1p(times[-1] - times))

    return gaps


def _one_too_many(original):
    def plan(length, recent=512, *rest, **named):
        return original(length, recent + (recent > 0), *rest, **named)

    return plan


FAULTS = {
    "counted_from_the_oldest": Fault(
        "blocks of a segment are counted from its older end",
        "repro.muser.compression:_back",
        lambda original: _forward,
    ),
    "widths_swapped": Fault(
        "middle blocks are wide and early ones narrow",
        "repro.muser.compression:plan",
        lambda original: (
            lambda length, recent=512, middle=4096, widths=(16, 64), align="newest": original(
                length, recent, middle, tuple(widths)[::-1] if align == "newest" else widths, align
            )
        ),
    ),
    "recent_one_too_many": Fault(
        "the recent segment is one action too long", "repro.muser.compression:plan", _one_too_many
    ),
    "sum_for_mean": Fault(
        "a block is the sum of its actions",
        "repro.muser.compression:pool",
        lambda original: (
            lambda x, plan, logits=None: (
                original(x, plan, logits) * _sizes(plan)[:, None].to(x)
            )
        ),
    ),
    "softmax_over_all": Fault(
        "the attention runs over the whole history instead of each block",
        "repro.muser.compression:pool",
        lambda original: lambda x, plan, logits=None: _everywhere(original, x, plan, logits),
    ),
    "gaps_from_now": Fault(
        "the time feature of the pooling is relative to the present",
        "repro.muser.compression:gaps",
        _to_the_newest_of_all,
    ),
    "stale_blocks_kept": Fault(
        "an update takes tokens by their number and not by their actions",
        "repro.muser.compression:_spans",
        lambda original: lambda plan: list(range(len(plan))),
    ),
    "clock_unchecked": Fault(
        "times may run backwards",
        "repro.muser.compression:by_age",
        lambda original: (
            lambda times, now, *bounds: original(np.sort(times), max(now, *times), *bounds)
        ),
    ),
    "padding_attended": Fault(
        "padded places count as tokens",
        "repro.muser.transformer:pad",
        lambda original: lambda parts: _all_true(*original(parts)),
    ),
    "sizes_forgotten": Fault(
        "a pooled token weighs as much as one action although sizes are given",
        "repro.muser.interests:attend",
        lambda original: lambda queries, encoded, mask=None, sizes=None: original(
            queries, encoded, mask
        ),
    ),
}  # fmt: skip


def _sizes(plan):
    import torch

    return torch.from_numpy(plan.stop - plan.start)


def _everywhere(original, x, plan, logits):
    import torch

    share = torch.softmax(torch.zeros(len(x)).to(x) if logits is None else logits, 0)[:, None]
    return original(share * x * len(x), plan)


def _all_true(padded, mask):
    return padded, mask | True
