"""Under the simulator: the compaction kernel against its reference, its bytes, bad input."""

from collections import Counter

import numpy as np
import pytest
import torch

from kernels import compaction, streaming, traffic
from kernels.plan import Plan, plan
from kernels.vector16 import SIMULATED

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1 (test_kernel_simulated.py does)"


def case(seed, dtype=torch.float32, layers=2, requests=3, heads=2, dim=16, size=4, per_layer=False):
    """Ragged requests over a shuffled pool; returns cache, tables, plans."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(9, 22, requests)
    width = -(-lengths.max() // size)
    tables = rng.permutation(requests * width + 3)[: requests * width].reshape(requests, width)

    def one(length, survivors):
        keep = np.zeros(length, bool)
        keep[:size] = True
        keep[size + rng.choice(length - size, survivors - size, replace=False)] = True
        return plan(keep, length, size, prefix_blocks=1)

    kept = [int(rng.integers(size + 1, n)) for n in lengths]
    plans = [
        [one(n, b) for _ in range(layers)] if per_layer else one(n, b)
        for n, b in zip(lengths, kept, strict=True)
    ]
    cache = torch.arange(layers * 2 * (requests * width + 3) * size * heads * dim) % 251
    return cache.view(layers, 2, -1, size, heads, dim).to(dtype), tables, plans


def assert_equals_reference(cache, tables, plans):
    expected = cache.clone()
    compaction.compact_reference(expected, tables, plans)
    assert not torch.equal(cache, expected)
    compaction.compact_(cache, tables, plans)
    assert torch.equal(cache, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("per_layer", [False, True])
def test_equals_reference(dtype, per_layer):
    assert_equals_reference(*case(1, dtype, per_layer=per_layer))


@pytest.mark.parametrize("seed", range(4))
def test_equals_reference_on_random_shapes(seed):
    rng = np.random.default_rng(seed)
    heads, dim, size = (int(rng.choice(x)) for x in ((1, 3, 4), (8, 24, 64), (2, 4, 8)))
    dtype = [torch.float16, torch.float32][seed % 2]
    layers = 1 + seed % 3
    assert_equals_reference(*case(seed + 10, dtype, layers, 2, heads, dim, size))


def test_other_layouts():
    cache, tables, plans = case(2)
    by_head = cache.transpose(3, 4).contiguous().transpose(3, 4)  # [.., heads, slots, dim] inside
    assert_equals_reference(by_head, tables, plans)
    interleaved = cache.transpose(1, 2).contiguous().transpose(1, 2)  # [layers, blocks, 2, ..]
    assert_equals_reference(interleaved, tables, plans)
    padded = torch.zeros(*cache.shape[:5], 20)[..., :16]
    padded.copy_(cache)
    assert_equals_reference(padded, tables, plans)


def test_empty_plan_changes_nothing():
    cache, tables, _ = case(3, requests=1)
    before = cache.clone()
    compaction.compact_(cache, tables, [plan(np.ones(8, bool), 8, 4)])
    assert torch.equal(cache, before)


def test_bytes_equal_the_formula(monkeypatch):
    read, written, moves = Counter(), Counter(), []
    load, store, launch = compaction.load_global, compaction.store_global, compaction.launch

    def counted_load(array, at):
        read[int(at)] += 1
        return load(array, at)

    def counted_store(array, at, values):
        written[int(at)] += 1
        store(array, at, values)

    def seen_launch(kernel, grid, threads, flat, pairs, *rest):
        moves.append(pairs)
        launch(kernel, grid, threads, flat, pairs, *rest)

    monkeypatch.setattr(compaction, "load_global", counted_load)
    monkeypatch.setattr(compaction, "store_global", counted_store)
    monkeypatch.setattr(compaction, "launch", seen_launch)
    cache, tables, plans = case(4)
    compaction.compact_(cache, tables, plans)
    assert set(read.values()) == set(written.values()) == {1}  # each 16 bytes once
    assert not set(read) & set(written)
    assert len(moves) == 1  # one launch for all layers and requests
    counted = 16 * (len(read) + len(written)) + moves[0].nbytes
    geometry = traffic.Geometry(2, 2, 16, layers=2, bytes=4)
    moved = sum(len(p.src) for p in plans)
    assert counted == geometry.layers * traffic.compaction(moved, geometry)


def test_overlap_depends_on_the_order_of_moves(monkeypatch):
    """What the check against overlap prevents: the result of a race."""
    monkeypatch.setattr(compaction, "physical_moves", lambda *_: [np.array([[0, 1], [1, 2]])])
    cache = torch.arange(2 * 4 * 8.0).view(1, 2, 1, 4, 1, 8)
    before = cache.clone()
    bad = Plan(np.array([0, 1]), np.array([1, 2]), np.arange(2), np.arange(0), 4)
    compaction.compact_(cache, np.array([[0]]), [bad])
    assert not torch.equal(cache[:, :, :, 2], before[:, :, :, 1])


def change(**parts):
    cache, tables, plans = case(5)
    return dict(cache=cache, tables=tables, plans=plans) | parts


CACHE = case(5)[0]


@pytest.mark.parametrize(
    ("cache", "error", "named"),
    [
        (CACHE.numpy(), TypeError, "cache=ndarray"),
        (CACHE.double(), TypeError, r"cache\.dtype=torch\.float64"),
        (CACHE[0], ValueError, "cache has shape"),
        (CACHE[:, :1], ValueError, "cache has 1 in dimension 1"),
        (CACHE[:, :, :0], ValueError, "no empty dimension"),
        (CACHE.to("meta"), ValueError, "cache is on meta"),
        (CACHE.transpose(4, 5), ValueError, "stride 16 in its last dimension"),
        (CACHE[..., 1:9], ValueError, "4 bytes past a multiple of 16"),
        (CACHE[..., :6], ValueError, "rows of 24 bytes"),
        (CACHE[..., :1, :].expand(-1, -1, -1, -1, 2, -1), ValueError, "strides"),
    ],
)
def test_bad_cache_is_named(cache, error, named):
    with pytest.raises(error, match=named):
        compaction.compact_(**change(cache=cache))


def test_bad_tables_are_named():
    tables = change()["tables"].copy()
    tables[1, 1:] = 99
    with pytest.raises(ValueError, match=r"tables\[1\] holds .*99; accepted: 0"):
        compaction.compact_(**change(tables=tables))


def test_streaming_copy():
    source = torch.arange(4096, dtype=torch.float16)
    target = torch.zeros_like(source)
    streaming.copy_(target, source)
    assert torch.equal(target, source)
    with pytest.raises(ValueError, match="target is torch.float16"):
        streaming.copy_(target[:8], source)
