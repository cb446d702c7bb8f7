"""Deliberate faults in the paged cache and the policies: mistakes that others really made."""

import numpy as np

from repro.faults import Fault


def _permuted(original):
    """A compaction that moves survivors to any slot, as Algorithm 4 may, and does not say so."""

    def compact(pages, table, kept, length):
        table, freed, order = original(pages, table, kept, length)
        block, slots = pages[0].shape[2], np.arange(order.shape[1])
        rows = np.asarray(table)[slots // block] * block + slots % block
        for layer in pages:
            flat = layer.view(2, -1, *layer.shape[3:])
            flat[:, rows] = flat[:, rows[::-1].copy()]
        return table, freed, order

    return compact


def _in_place(original):
    """Rows moved one by one, the last first: sources are overwritten before they are read."""

    def move(pages, source, target):
        flat = pages.view(2, -1, *pages.shape[3:])
        for one, other in zip(source[::-1], target[::-1], strict=True):
            flat[:, other] = flat[:, one]

    return move


FAULTS = {
    "positions_from_cache_length": Fault(
        "after an eviction the next token takes the number of cached entries as its position",
        "repro.actkv.request:Request.next_position",
        lambda original: property(lambda self: self.physical),
    ),
    "mask_from_the_start": Fault(
        "the causal mask is aligned to the start of the key axis, so new tokens see later ones",
        "repro.actkv.cache:_Layer.get_mask_sizes",
        lambda original: lambda self, query_length: (original(self, query_length)[0], 0),
    ),
    "padding_cached": Fault(
        "padded columns are cached like tokens",
        "repro.actkv.cache:PagedCache.prepare",
        lambda original: lambda self, valid: original(self, np.ones_like(valid)),
    ),
    "order_not_carried": Fault(
        "compaction permutes the survivors and the permutation is forgotten",
        "repro.actkv.paging:compact",
        _permuted,
    ),
    "overlap": Fault(
        "compaction writes to rows that it has yet to read",
        "repro.actkv.paging:_move",
        _in_place,
    ),
    "block_freed_twice": Fault(
        "an eviction gives its first block back twice",
        "repro.actkv.pool:Pool.release",
        lambda original: lambda self, freed: original(self, [*freed, *freed[:1]]),
    ),
    "free_unchecked": Fault(
        "the allocator takes back a block that is free already",
        "repro.actkv.paging:Blocks.release",
        lambda original: lambda self, blocks: self.free.__setitem__(list(blocks), True),
    ),
    "prefix_evicted": Fault(
        "the prefix competes for its place like any other entry",
        "repro.actkv.policies.base:keep",
        lambda original: lambda scores, protected, budget: original(scores, 0, protected + budget),
    ),
    "budget_for_all": Fault(
        "the budget counts the prefix",
        "repro.actkv.policies.base:keep",
        lambda original: (
            lambda scores, protected, budget: original(
                scores, protected, max(1, budget - protected)
            )
        ),
    ),
    "ties_to_older": Fault(
        "among equal scores the older entry stays",
        "repro.actkv.policies.base:keep",
        lambda original: (
            lambda scores, protected, budget: original(
                scores - 1e-6 * scores.new_ones(scores.shape).cumsum(1), protected, budget
            )
        ),
    ),
    "scores_not_carried": Fault(
        "an eviction leaves the scores where they were",
        "repro.actkv.policies.h2o:H2O.carry",
        lambda original: lambda self, layer, kept: original(self, layer, np.arange(len(kept))),
    ),
    "older_copy_kept": Fault(
        "R-KV punishes every copy of a key alike",
        "repro.actkv.policies.rkv:mean_similarity",
        lambda original: lambda keys, similar: original(keys, 2.0),
    ),
}
