"""The plan of a compaction: properties over random cases, shared blocks, bad arguments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import compaction, paged_decode
from kernels.faults import FAULTS
from kernels.plan import Plan, physical_moves, plan, shorten
from repro import faults


def test_a_planted_fault_takes_every_way_to_call():
    rng = np.random.default_rng(0)
    queries, keys = rng.normal(size=(1, 2, 8)), rng.normal(size=(3, 4, 1, 8))
    given = dict(queries=queries, keys=keys, values=keys, table=np.array([[2, 0]]))
    given |= dict(lengths=np.array([7]), scale=0.5)
    out, lse = paged_decode.decode_reference(**given)
    with faults.plant(FAULTS, "binary_logarithm"):
        same, bits = paged_decode.decode_reference(**given)
    np.testing.assert_array_equal(out, same)
    np.testing.assert_allclose(bits, lse / np.log(2))


@given(st.data(), st.integers(1, 9), st.integers(0, 60))
def test_plan_properties(data, size, length):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)), bool)
    prefix = data.draw(st.integers(0, length // size))
    keep[: prefix * size] = True
    found = plan(keep, length, size, prefix)
    assert not np.intersect1d(found.src, found.dst).size
    assert len(found.src) == len(found.dst) == len(np.unique(found.dst))
    assert np.sort(found.perm).tolist() == np.flatnonzero(keep).tolist()
    assert keep[found.src].all()
    assert (found.src >= prefix * size).all() and (found.dst >= prefix * size).all()
    assert len(found.freed_blocks) == -(-length // size) - -(-int(keep.sum()) // size)
    # What `slots` says holds: a survivor that did not move stands where it stood.
    stayed = found.slots == found.perm
    assert stayed.sum() == len(found.perm) - len(found.src)
    assert found.slots[~stayed].tolist() == found.dst.tolist()
    table = np.arange(-(-length // size)) + 7
    rest, freed = shorten(table, found)
    assert sorted([*rest, *freed]) == table.tolist()
    assert rest[:prefix].tolist() == table[:prefix].tolist()
    new = np.arange(len(found.perm))
    assert (rest[new // size] * size + new % size).tolist() == (
        table[found.slots // size] * size + found.slots % size
    ).tolist()


def test_gather_and_rows_hold_the_same_survivors():
    rng = np.random.default_rng(0)
    keep = rng.random(45) < 0.4
    found = plan(keep, 45, 8)
    table = rng.permutation(9)[None, :6]
    import torch

    before = torch.randn(2, 2, 9, 8, 2, 4)
    ours, gathered = before.clone(), before.clone()
    compaction.compact_reference(ours, table, [found])
    compaction.compact_gather(gathered, table, [found])
    at = table[0][found.slots // 8], found.slots % 8
    back = np.argsort(found.perm)
    assert torch.equal(ours[:, :, at[0], at[1]][:, :, back], gathered[:, :, at[0], at[1]])


def test_shared_block_may_be_read_and_given_back():
    keep = np.isin(np.arange(9), [0, 5, 6, 8])
    assert plan(keep, 9, 4, shared=np.array([True, True, False])).src.tolist() == [0, 5, 6]


def test_full_shared_block_may_stay():
    keep = np.array([False] * 4 + [True] * 4)
    assert plan(keep, 8, 4, shared=np.array([False, True])).dst.size == 0


GOOD = dict(keep=np.ones(8, bool), length=8, block_size=4)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (dict(keep=np.ones(7, bool)), "keep is bool"),
        (dict(keep=np.ones(8, int)), "keep is int64"),
        (dict(block_size=0), "block_size=0"),
        (dict(prefix_blocks=3), "prefix_blocks=3"),
        (dict(prefix_blocks=-1), "prefix_blocks=-1"),
        (dict(keep=np.arange(8) > 0, prefix_blocks=1), "keep drops slots"),
        (dict(keep=np.arange(8) != 5, shared=np.array([True])), "shared is bool"),
        (dict(keep=np.arange(8) > 0, shared=np.array([0, 1])), "shared is int64"),
        (dict(keep=np.arange(8) % 4 > 0, shared=np.array([True, True])), "shared blocks [0, 1]"),
    ],
)
def test_bad_plan_argument_is_named(change, named):
    with pytest.raises(ValueError, match=named.replace("[", r"\[")):
        plan(**GOOD | change)


SHAPE = (2, 2, 5, 4, 1, 8)
MOVE = plan(np.isin(np.arange(9), [0, 5, 6, 8]), 9, 4)


@pytest.mark.parametrize(
    ("tables", "plans", "named"),
    [
        ([[0, 1, 2]], [MOVE, MOVE], "tables is"),
        ([[0.0, 1.0, 2.0]], [MOVE], "tables is float64"),
        ([[0, 1]], [MOVE], "names block 2"),
        ([[0, 1, 5]], [MOVE], "holds 0 … 5"),
        ([[0, 1, -1]], [MOVE], "holds -1 … 1"),
        ([[0, 1, 2]], [[MOVE]], "one Plan or 2"),
        ([[0, 1, 2]], [[MOVE, plan(np.ones(9, bool), 9, 4)]], "different numbers"),
        ([[0, 1, 2]], [plan(np.arange(9) > 0, 9, 8)], "block_size=8"),
        ([[0, 1, 2], [3, 4, 2]], [MOVE, MOVE], "write a slot twice"),
        ([[0, 1, 2], [4, 2, 3]], [MOVE, MOVE], "still read"),
    ],
)
def test_bad_moves_are_named(tables, plans, named):
    with pytest.raises(ValueError, match=named):
        physical_moves(SHAPE, np.array(tables), plans)


def test_overlap_is_refused():
    bad = Plan(np.array([0, 1]), np.array([1, 2]), np.arange(2), np.arange(0), 4)
    with pytest.raises(ValueError, match="still read"):
        physical_moves(SHAPE, np.array([[0]]), [bad])
