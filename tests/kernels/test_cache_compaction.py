"""Algorithm 4 inside the paged cache: by age nothing changes, and as many blocks come free."""

import functools

import cache_rounds
import numpy as np
import pytest
import torch

from kernels import cache_compaction
from kernels.cache_compaction import compact, plan_layers, whole_blocks
from repro.actkv import paging

PAGES = torch.zeros(2, 2, 6, 4, 1, 8)
KEPT = np.array([[0, 5, 6, 8], [1, 2, 3, 8]])


def test_fifty_rounds_equal_the_default_by_age():
    assert cache_rounds.rounds(compact, 50, seed=0) > 50  # most evictions permuted their survivors


def test_one_request_and_long_rounds():
    assert cache_rounds.rounds(compact, 10, seed=1, most=60, requests=1) > 5


def test_a_wrong_order_is_noticed():
    def sorted_order(*args):
        table, freed, order = compact(*args)
        return table, freed, np.sort(order, axis=1)

    with pytest.raises(AssertionError):
        cache_rounds.rounds(sorted_order, 10, seed=0)


def test_a_block_too_many_is_noticed(monkeypatch):
    """Without the plan's own prefix, the first block would be given back."""
    monkeypatch.setattr(cache_compaction, "whole_blocks", lambda keep, slots: 0)
    with pytest.raises(AssertionError):
        cache_rounds.rounds(compact, 10, seed=0)


def test_by_hand():
    """9 slots in blocks 5, 0, 3 of four: layer 0 packs 0, 5, 6 beside 8, layer 1 packs 1 to 3."""
    pages = torch.zeros(2, 2, 6, 4, 1, 8)
    for slot in range(9):
        pages[:, :, [5, 0, 3][slot // 4], slot % 4] = slot
    table, freed, order = compact(pages, [5, 0, 3], KEPT, 9)
    assert (table, freed) == ([3], [5, 0])
    assert order.tolist() == [[8, 0, 5, 6], [8, 1, 2, 3]]
    assert (pages[:, :, 3, :, 0, 0] == torch.from_numpy(order)[:, None]).all()


def test_same_survivors_and_blocks_as_the_reference():
    rng = np.random.default_rng(2)
    for _ in range(20):
        length = int(rng.integers(5, 40))
        number = int(rng.integers(1, length + 1))
        kept = np.stack([rng.permutation(length)[:number] for _ in range(2)])
        pages = torch.from_numpy(rng.standard_normal((2, 2, 12, 4, 1, 8), np.float32))
        table = rng.permutation(12)[: -(-length // 4)].tolist()
        found = []
        for each in (compact, paging.compact):
            mine = pages.clone()
            rest, freed, order = each(mine, table, kept, length)
            rows = paging.rows(rest, np.arange(number), 4)
            entries = mine.flatten(2, 3)[:, :, rows]
            back = torch.from_numpy(np.argsort(order, axis=1))
            found.append((entries.take_along_dim(back[:, None, :, None, None], 2), np.sort(order)))
            assert sorted([*rest, *freed]) == sorted(table) and len(rest) == -(-number // 4)
        assert torch.equal(found[0][0], found[1][0])
        assert (found[0][1] == found[1][1]).all()


def test_blocks_that_every_layer_keeps_whole():
    keep = np.ones((2, 11), bool)
    assert whole_blocks(keep, 4) == 2  # the third block is not full
    keep[1, 6] = False
    assert whole_blocks(keep, 4) == 1
    keep[0, 0] = False
    assert whole_blocks(keep, 4) == 0


def test_plans_of_all_layers_free_the_same_blocks():
    plans = plan_layers([[0, 1, 2, 3, 5], [0, 1, 2, 3, 8]], 2, 9, 4)
    assert [p.freed_blocks.tolist() for p in plans] == [[1], [1]]
    assert all(p.perm[:4].tolist() == [0, 1, 2, 3] for p in plans)


def shared(*blocks):
    flags = np.zeros(6, bool)
    flags[list(blocks)] = True
    return flags


def test_shared_blocks_are_read_and_given_back_but_never_written():
    before = torch.randn(2, 2, 6, 4, 1, 8)
    pages = before.clone()
    _, freed, _ = compact(pages, [5, 0, 3], KEPT, 9, shared=shared(5, 0))
    assert freed == [5, 0] and torch.equal(pages[:, :, [5, 0]], before[:, :, [5, 0]])
    with pytest.raises(ValueError, match=r"shared blocks \[2\] have holes to fill"):
        compact(pages, [5, 0, 3], KEPT, 9, shared=shared(3))


def test_a_shared_prefix_stays_shared():
    """A prefix block that others read is kept whole, so it is not even in the plan."""
    bound = functools.partial(compact, shared=shared(5))
    table, freed, _ = bound(PAGES.clone(), [5, 0, 3], [[0, 1, 2, 3, 8], [0, 1, 2, 3, 4]], 9)
    assert (table, freed) == ([5, 3], [0])


GOOD = dict(pages=PAGES, table=[5, 0, 3], kept=KEPT, length=9)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (dict(pages=[PAGES[0], PAGES[1]]), "pages is list"),
        (dict(pages=PAGES[0]), r"pages is \[2, 6, 4, 1, 8\]"),
        (dict(table=[5, 0]), r"table is int64 \[2\]; accepted: integers \[3\]"),
        (dict(table=[5, 0, 3.0]), "table is float64"),
        (dict(table=[5, 0, 6]), "table holds 0 … 6; accepted: 0 … 5"),
        (dict(table=[5, 0, -1]), "table holds -1 … 5"),
        (dict(table=[5, 0, 5]), "table names a block twice"),
        (dict(kept=KEPT[:1]), r"kept is int64 \[1, 4\]"),
        (dict(kept=KEPT[:, :0]), r"kept is int64 \[2, 0\]"),
        (dict(kept=[[0, 1], [2]]), "kept has layers of unequal size"),
        (dict(kept=KEPT.astype(float)), "kept is float64"),
        (dict(kept=KEPT + 1), "kept holds 1 … 9; accepted: 0 … 8"),
        (dict(kept=KEPT - 1), "kept holds -1 … 7"),
        (dict(kept=[[0, 0], [1, 2]]), "kept names a slot twice"),
        (dict(shared=[True, False]), r"shared is bool \[2\]; accepted: bool \[6\]"),
        (dict(shared=np.zeros(6)), "shared is float64"),
    ],
)
def test_bad_input_is_named(change, named):
    with pytest.raises(ValueError, match=named):
        compact(**GOOD | change)
