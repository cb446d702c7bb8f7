"""Wrong arguments that the other files here do not try: each is refused, and named."""

import numpy as np
import pytest
import torch

from kernels import compaction, paged_decode, paged_scores, ptx, streaming, traffic, workload
from kernels.elements import tile_slots
from kernels.plan import plan, shorten

RNG = np.random.default_rng(0)
KEYS = RNG.normal(size=(4, 4, 2, 8))
DECODE = dict(
    queries=RNG.normal(size=(2, 4, 8)),
    keys=KEYS,
    values=KEYS,
    table=np.array([[0, 1], [3, 2]]),
    lengths=np.array([5, 8]),
)
SCORES = dict(
    out=np.zeros((2, 2, 8)),
    queries=DECODE["queries"][:, None],
    lse=np.zeros((2, 1, 4)),
    keys=KEYS,
    table=DECODE["table"],
    visible=DECODE["lengths"][:, None],
    folded=np.zeros(2, int),
)
BAD = [
    (dict(table=np.array([[0, 4], [3, 2]])), "table has values 0 … 4; accepted: 0 … 3"),
    (dict(table=np.array([[0, -1], [3, 2]])), "table has values -1 … 0"),
    (dict(table=np.array([[0, 1]])), r"table has shape \[1, 2\]"),
    (dict(table=np.array([[0], [3]])), "has values 5 … 8; accepted: 0 … 4"),
    (dict(keys=KEYS[..., :4]), r"queries has shape .*; accepted: \[..., Q, 4\]"),
    (dict(keys=KEYS.repeat(2, 2)[:, :, :3]), "Q a multiple of 3"),
]


@pytest.mark.parametrize(("change", "named"), BAD)
def test_references_refuse_what_does_not_fit(change, named):
    with pytest.raises(ValueError, match=named):
        paged_decode.decode_reference(**DECODE | change)
    with pytest.raises(ValueError, match=named):
        paged_scores.recover_reference(**SCORES | change)


def test_references_take_what_lies_behind_a_request():
    """Table entries beyond a request's slots are not read, so they are not judged either."""
    table = np.array([[0, 1, -1], [3, 2, 99]])
    out, _ = paged_decode.decode_reference(**DECODE | dict(table=table))
    np.testing.assert_array_equal(out, paged_decode.decode_reference(**DECODE)[0])


def test_negative_lengths_are_named():
    with pytest.raises(ValueError, match="lengths has values -1 … 5"):
        paged_decode.decode_reference(**DECODE | dict(lengths=np.array([5, -1])))
    with pytest.raises(ValueError, match="visible has values -1 … 5"):
        paged_scores.recover_reference(**SCORES | dict(visible=np.array([[5], [-1]])))


MOVE = plan(np.isin(np.arange(9), [0, 5, 6, 8]), 9, 4)
CACHE = torch.zeros(2, 2, 5, 4, 1, 8)


@pytest.mark.parametrize("compact", [compaction.compact_reference, compaction.compact_gather])
@pytest.mark.parametrize(
    ("tables", "plans", "named"),
    [
        ([[0, 1, 5]], [MOVE], "holds 0 … 5"),
        ([[0, 1]], [MOVE], "names block 2"),
        ([[0, 1, 2]], [MOVE, MOVE], "tables is"),
        ([[0, 1, 2]], [[MOVE]], "plans"),
        ([[0.5, 1, 2]], [MOVE], "tables is float64"),
    ],
)
def test_other_ways_to_compact_refuse_the_same(compact, tables, plans, named):
    before = CACHE.clone()
    with pytest.raises(ValueError, match=named):
        compact(CACHE, np.array(tables), plans)
    assert torch.equal(CACHE, before)


def test_a_table_without_the_freed_blocks_is_named():
    with pytest.raises(ValueError, match=r"table has shape \[1\]; accepted: .* more than 1"):
        shorten(np.array([3]), MOVE)
    with pytest.raises(ValueError, match=r"table has shape \[1, 3\]"):
        shorten(np.array([[3, 1, 2]]), MOVE)


@pytest.mark.parametrize(
    ("target", "error", "named"),
    [
        (np.zeros(8), TypeError, "target=ndarray"),
        (torch.zeros(2, 4), ValueError, r"target has shape \[2, 4\]"),
        (torch.zeros(8, device="meta"), ValueError, "target is on meta"),
        (torch.zeros(4), ValueError, r"target is torch.float32 \[4\]"),
        (torch.zeros(8).half(), ValueError, "target is torch.float16"),
    ],
)
def test_a_copy_to_something_else_is_named(target, error, named):
    with pytest.raises(error, match=named):
        streaming.copy_(target, torch.zeros(8))


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ((8, 3, 64, 2), "q_heads=8; accepted: a multiple of heads=3"),
        ((8, 0, 64, 2), "heads=0"),
        ((8, 8, 64, 2, 0), "bytes=0"),
    ],
)
def test_bad_geometry_is_named(sizes, named):
    with pytest.raises(ValueError, match=named):
        traffic.Geometry(*sizes)


def test_bad_counts_are_named():
    for slots, survivors in ((0, 0), (8, 9), (8, -1)):
        with pytest.raises(ValueError, match=f"survivors={survivors}"):
            traffic.expected_moves(slots, survivors)
    for dtype, dim in (("float64", 8), ("float16", 0)):
        with pytest.raises(ValueError, match=f"dtype='{dtype}', dim={dim}"):
            tile_slots(dtype, dim)
    with pytest.raises(ValueError, match="name='copy'; accepted: copy_rows"):
        ptx.compiled("copy", (8, 0))


@pytest.mark.parametrize(("survivors", "prefix"), [(0, 0), (33, 0), (15, 1)])
def test_a_budget_below_one_or_below_the_prefix_or_above_the_length_is_named(survivors, prefix):
    with pytest.raises(ValueError, match=f"survivors={survivors}; accepted: {max(16 * prefix, 1)}"):
        workload.draw_plans([32], [survivors], prefix)
