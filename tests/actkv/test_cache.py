"""The paged cache: the invariants of the notes, 7.2, on a random Llama and the real model."""

import copy
import re
import weakref

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from repro import digest, models
from repro.actkv import cache_checks, paging
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import BLOCK, GROUPS, LAYERS, WIDTH, Gathered, tiny, tokens

NOTHING = float(torch.finfo(torch.float32).min)


@pytest.fixture(autouse=True)
def one_thread(request):
    before = torch.get_num_threads()
    torch.set_num_threads(before if "real" in request.fixturenames else 1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def real():
    return models.load(device="cpu")


def permuting(pages, table, kept, length):
    """Algorithm 4 as the notes gives it: pack into the last blocks, free the first ones."""
    block, kept = pages[0].shape[2], np.asarray(kept)
    before, after = -(-length // block), -(-kept.shape[1] // block)
    low = (before - after) * block
    high, order = low + kept.shape[1], []
    for layer, slots in zip(pages, kept, strict=True):
        inside = set(slots[(slots >= low) & (slots < high)].tolist())
        target = [slot for slot in range(low, high) if slot not in inside]
        source = sorted(set(slots.tolist()) - inside)
        rows = paging.rows(table, np.array([source, target], dtype=int), block)
        paging._move(layer, *rows)
        moved = np.arange(low, high)
        moved[np.array(target, dtype=int) - low] = source
        order.append(moved)
    return list(table[before - after :]), list(table[: before - after]), np.stack(order)


def greedy(model, ids, number, **inputs):
    return model.generate(
        ids, max_new_tokens=number, do_sample=False, eos_token_id=None, pad_token_id=0, **inputs
    )


def hidden_by_layer(model, ids, events):
    """Logits without a cache; events: (length, kept [layers, n]), positions kept from there on."""
    total, handles = ids.shape[1], []
    for layer, block in enumerate(model.model.layers):
        hidden = np.triu(np.ones((total, total), dtype=bool), 1)
        for length, kept in events:
            hidden[length:, np.setdiff1d(np.arange(length), kept[layer])] = True
        mask = torch.as_tensor(hidden, dtype=torch.float32)[None, None] * NOTHING
        handles.append(
            block.self_attn.register_forward_pre_hook(
                lambda _, args, kwargs, mask=mask: (args, kwargs | {"attention_mask": mask}),
                with_kwargs=True,
            )
        )
    try:
        return model(ids, use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()


def sinks_and_recent(length, n, rng):
    return np.tile(np.r_[0:4, length - n + 4 : length], (LAYERS, 1))


def lots(length, n, rng):
    return np.stack([rng.choice(length, n, replace=False) for _ in range(LAYERS)])


@pytest.mark.parametrize("choose", [sinks_and_recent, lots])
@pytest.mark.parametrize("compact", [paging.compact, permuting])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_two_evictions_are_masks(choose, compact, implementation, monkeypatch):
    monkeypatch.setattr(paging, "compact", compact)
    rng, ids, cache = np.random.default_rng(0), tokens(80), PagedCache(tiny(), block_size=BLOCK)
    events, logits, at = [], [], 0
    before = tiny().config._attn_implementation
    tiny().set_attn_implementation(implementation)
    try:
        for stop, n in ((40, 17), (62, 23), (80, 9)):
            for part in (
                ids[:, at : stop - 2],
                ids[:, stop - 2 : stop - 1],
                ids[:, stop - 1 : stop],
            ):
                logits.append(tiny()(part, cache=cache).logits)
            at = stop
            held = cache.positions()
            kept = choose(held.shape[1], n, rng)
            cache.evict(kept)
            events.append((stop, np.take_along_axis(held, np.sort(kept, axis=1), 1)))
            assert (cache.positions() == events[-1][1]).all()
        expected = hidden_by_layer(tiny(), ids, events)
    finally:
        tiny().set_attn_implementation(before)
    assert (torch.cat(logits, 1) - expected).abs().max() < 1e-4
    assert cache.counters()["logical"] == [80] and cache.counters()["physical"] == [9]
    assert cache.peak_entries == 41  # 23 kept, 18 new


def test_eviction_matters():
    """The comparison above can tell: without the mask the logits differ."""
    ids = tokens(40)
    full = tiny()(ids, use_cache=False).logits[:, 30:]
    assert (cache_checks.masked(ids, 30, np.arange(4))[:, 30:] - full).abs().max() > 1e-3


@pytest.mark.parametrize("compact", [paging.compact, permuting])
def test_fifty_rounds_against_a_gather(compact, monkeypatch):
    monkeypatch.setattr(paging, "compact", compact)
    oracle = Gathered(PagedCache(tiny(), block_size=BLOCK), seed=7)
    for _ in range(50):
        oracle.append(int(oracle.rng.integers(1, 30)))
        oracle.compare()
        oracle.evict(int(oracle.rng.integers(1, oracle.positions.shape[1] + 1)))
        oracle.compare()
    assert oracle.cache.requests[0].logical == oracle.seen


@pytest.mark.parametrize(
    ("length", "kept", "block"),
    [(100, 40, 16), (17, 10, 16), (64, 64, 16), (200, 3, 8), (33, 16, 16)],
)
def test_freed_blocks(length, kept, block):
    cache = PagedCache(tiny(), block_size=block)
    tiny()(tokens(length), cache=cache)
    cache.evict(lots(length, kept, np.random.default_rng(0)))
    counters = cache.counters()
    assert counters["blocks"] == -(-kept // block)
    assert counters["peak_blocks"] == -(-length // block)
    assert counters["bytes"] == counters["blocks"] * LAYERS * 2 * block * GROUPS * WIDTH * 4


def test_generate_goes_on_over_an_evicted_cache():
    ids, cache = tokens(20), PagedCache(tiny())
    first = greedy(tiny(), ids, 8, cache=cache)
    kept = np.tile(np.r_[0:3, 12:27], (LAYERS, 1))
    cache.evict(kept)
    longer = torch.cat([first, tokens(11, seed=1)], 1)  # the next observation
    found = greedy(tiny(), longer, 6, cache=cache)
    for at in range(longer.shape[1], found.shape[1]):
        expected = hidden_by_layer(tiny(), found[:, :at], [(27, kept)])[0, -1].argmax()
        assert found[0, at] == expected
    chunked = PagedCache(tiny())
    greedy(tiny(), ids, 8, cache=chunked)
    chunked.evict(kept)
    assert greedy(tiny(), longer, 6, cache=chunked, prefill_chunk_size=5).equal(found)


@pytest.mark.parametrize("blocks", [None, 60, 15])  # grows; equal shares; shares too small: gathers
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_ragged_batch_is_its_requests_alone(blocks, side):
    lengths, rounds = (20, 7, 13), ((5, 9, 2), (4, 4, 4))
    rng = np.random.default_rng(0)
    batch = PagedCache(tiny(), requests=3, block_size=BLOCK, blocks=blocks)
    alone, gathered = [PagedCache(tiny(), block_size=BLOCK) for _ in lengths], []
    for added in (lengths, *rounds):
        width = max(added)
        ids, mask = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width)
        for request, n in enumerate(added):
            where = slice(width - n, width) if side == "left" else slice(0, n)
            ids[request, where], mask[request, where] = tokens(n, seed=n)[0], 1
        found = tiny()(ids, attention_mask=mask, cache=batch).logits
        gathered.append(batch.last.window.source is not None)
        for request, cache in enumerate(alone):
            one = ids[request][mask[request] > 0][None]
            expected = tiny()(one, cache=cache).logits[0]
            assert (found[request][mask[request] > 0] - expected).abs().max() < 1e-5
            n = max(2, cache.physical[0] - 3 - request)
            kept = lots(cache.physical[0], n, rng)
            cache.evict(kept), batch.evict(kept, request)
    assert batch.physical == [cache.physical[0] for cache in alone]
    assert batch.peak_entries <= sum(cache.peak_entries for cache in alone)
    assert any(gathered) == (blocks == 15)


def test_generate_on_a_ragged_batch():
    lengths = (20, 7, 13)
    ids = torch.zeros(3, 20, dtype=torch.long)
    for request, n in enumerate(lengths):
        ids[request, 20 - n :] = tokens(n, seed=n)[0]
    cache = PagedCache(tiny(), requests=3)
    found = greedy(tiny(), ids, 9, attention_mask=(ids > 0).long(), cache=cache)
    for request, n in enumerate(lengths):
        assert found[request, 20 - n :].equal(greedy(tiny(), tokens(n, seed=n), 9)[0])
    assert cache.physical == [n + 8 for n in lengths]


def test_other_caches_and_a_second_cache_are_left_alone():
    ids, cache = tokens(12), PagedCache(tiny())
    PagedCache(tiny())
    assert len(tiny().base_model._forward_pre_hooks) == 1
    assert tiny()(ids, cache=DynamicCache()).logits.equal(tiny()(ids, cache=cache).logits)
    cache.reset()
    assert cache.physical == [0] and cache.counters()["peak_blocks"] == 0
    tiny()(ids, cache=cache)


def test_real_model_roomy_budget_is_the_full_cache(real):
    model, tokenizer = real
    ids = tokenizer("The capital of France is a city that", return_tensors="pt").input_ids
    cache = PagedCache(model)
    found = greedy(model, ids, 8, cache=cache)
    cache.evict(np.tile(np.arange(cache.physical[0]), (30, 1)))  # a budget >= the length
    found = greedy(model, found, 8, cache=cache)
    assert found.equal(greedy(model, ids, 16))


def test_real_model_eviction_is_a_mask(real):
    model, _ = real
    rng, ids = np.random.default_rng(0), torch.as_tensor(np.arange(500, 560))[None]
    cache = PagedCache(model)
    model(ids[:, :50], cache=cache)
    kept = np.stack([rng.choice(50, 20, replace=False) for _ in range(30)])
    cache.evict(kept)
    found = model(ids[:, 50:], cache=cache).logits
    expected = hidden_by_layer(model, ids, [(50, kept)])[:, 50:]
    assert (found - expected).abs().max() < 1e-4 * max(1, expected.abs().max())


def test_a_pool_of_fixed_size_runs_out_and_recovers():
    cache = PagedCache(tiny(), blocks=5, block_size=BLOCK)
    tiny()(tokens(16), cache=cache)
    with pytest.raises(paging.OutOfBlocks, match="all 5 blocks are in use; evict"):
        tiny()(tokens(9), cache=cache)
    assert cache.physical == [16]
    tiny()(tokens(4), cache=cache)
    assert cache.counters()["blocks"] == 5


def filled(length=20):
    cache = PagedCache(tiny(), block_size=BLOCK)
    tiny()(tokens(length), cache=cache)
    return cache


def put(keys, values=None, cache=None, layer=0):
    cache = cache or PagedCache(tiny())
    cache.prepare(np.ones((1, 3), dtype=bool))
    return cache.append(keys, keys if values is None else values, layer)


def released_twice():
    blocks = paging.Blocks(4)
    blocks.release([blocks.take(0)] * 2)


PAGES = [torch.zeros(2, 4, BLOCK, GROUPS, WIDTH) for _ in range(2)]
GOOD = torch.zeros(1, GROUPS, 3, WIDTH)
KEPT = np.zeros((2, 1), dtype=int)
BAD = [
    (lambda: filled().evict([[0, 1], [0]]), "unequal size", "equally many"),
    (lambda: filled().evict(np.zeros((LAYERS, 0), int)), "0 slots a layer", "1 to 20"),
    (lambda: filled().evict(np.zeros((3, 4), int)), "(3, 4)", "2 layers"),
    (lambda: filled().evict(np.zeros((LAYERS, 4))), "float64", "integers"),
    (lambda: filled().evict([[0, 20], [0, 1]]), "0..20", "0..19"),
    (lambda: filled().evict([[0, 0], [0, 1]]), "twice", "each slot once"),
    (lambda: released_twice(), "freed twice", "in use"),
    (lambda: paging.Blocks(4).release([4]), "block 4", "0..3"),
    (lambda: paging.rows([0, 1], np.array([8]), 4), "slots span 8..8", "0..7"),
    (lambda: paging.compact(PAGES, [0, 9], KEPT, 8), "table spans 0..9", "0..3"),
    (lambda: paging.compact(PAGES, [0, 0], KEPT, 8), "twice", "each block once"),
    (lambda: paging.compact(PAGES, [0], KEPT, 8), "1 blocks", "accepted: 2"),
    (lambda: paging.compact([p.transpose(1, 2) for p in PAGES], [0], KEPT, 4), "contiguous", ""),
    (lambda: paging.compact([PAGES[0], PAGES[1].half()], [0], KEPT, 4), "float16", "as pages[0]"),
    (lambda: paging.compact([PAGES[0], PAGES[1].to("meta")], [0], KEPT, 4), "meta", "as pages[0]"),
    (lambda: paging.compact([p.long() for p in PAGES], [0], KEPT, 4), "int64", "floats"),
    (lambda: put(GOOD.double()), "keys is torch.float64", "torch.float32"),
    (lambda: put(GOOD, GOOD.to("meta")), "values is torch.float32 on meta", "on cpu"),
    (lambda: put(GOOD[:, :1]), "(1, 1, 3, 8)", "(1, 2, 3, 8)"),
    (lambda: put(GOOD[:, :, :2]), "2 tokens", "prepare"),
    (lambda: put(GOOD / 0), "keys holds NaN", "finite"),
    (lambda: put(GOOD, layer=1), "layer 1", "accepted: 0"),
    (lambda: PagedCache(tiny()).append(GOOD, GOOD, 0), "unannounced", "prepare"),
    (lambda: PagedCache(tiny(), requests=0), "requests=0", ">= 1"),
    (lambda: PagedCache(tiny(), blocks=0), "blocks=0", ">= 1"),
    (lambda: PagedCache(tiny(), block_size=0), "block_size=0", ">= 1"),
    (lambda: tiny()(tokens(3).repeat(2, 1), cache=filled()), "2 rows", "accepted: 1"),
    (
        lambda: tiny()(tokens(3), cache=filled(), attention_mask=torch.ones(1, 1, 3, 3)),
        "(1, 1, 3, 3)",
        "[R, columns]",
    ),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)


def test_an_eviction_inside_a_pass_and_a_reordering_are_refused():
    cache = PagedCache(tiny())
    put(GOOD, cache=cache)
    with pytest.raises(ValueError, match="within a pass, before layer 1"):
        cache.evict([[0], [0]])
    with pytest.raises(NotImplementedError, match="one beam"):
        cache.crop(-1)


def test_a_copy_is_on_its_own():
    one = PagedCache(tiny(), 1)
    tiny()(tokens(20), cache=one)
    two = copy.deepcopy(one)
    one.evict(np.tile(np.arange(4), (LAYERS, 1)))
    said = tiny()(tokens(3), cache=two).logits
    whole = tiny()(torch.cat([tokens(20), tokens(3)], 1), use_cache=False).logits[:, 20:]
    torch.testing.assert_close(said, whole, atol=1e-4, rtol=0)
    assert one.physical == [4] and two.physical == [23]


def test_a_dropped_cache_is_gone_at_once():
    one = PagedCache(tiny(), 1)
    tiny()(tokens(20), cache=one)
    seen = weakref.ref(one)
    del one
    assert seen() is None


def test_the_cache_depends_on_no_policy():
    reached, _ = digest.closure("from repro.actkv import cache")
    assert not [name for name in reached if "policies" in name or "eviction" in name]
