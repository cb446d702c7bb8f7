"""Policies against the notes' reference (papers/actkv.md, 6.1), written again with loops."""

import re

import numpy as np
import pytest
import torch

from repro.actkv import eviction
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import GROUPS, HEADS, LAYERS, WIDTH, tiny, tokens
from repro.actkv.policies import POLICIES, base
from repro.actkv.policies import actkv as actkv_module
from repro.actkv.policies.watch import watching

S, B = 90, 40


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Oracles: float64, one query row at a time. queries [H_q, n, d], keys [H_k, S, d] -> [H_k, S].


def soft(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def rows(queries, keys, causal=True):
    """Yield (KV head, query number, probabilities [S], logits [S]) of every query head."""
    heads, n, _ = queries.shape
    groups, length, _ = keys.shape
    for head in range(heads):
        group = head // (heads // groups)
        for j in range(n):
            z = keys[group].astype(float) @ queries[head, j].astype(float) / WIDTH**0.5
            seen = length - n + j + 1 if causal else length
            yield group, j, np.r_[soft(z[:seen]), np.zeros(length - seen)], z


def sums(queries, keys, causal=True):
    """Over queries, mean over the group."""
    total = np.zeros(keys.shape[:2])
    for group, _, p, _ in rows(queries, keys, causal):
        total[group] += p / (queries.shape[0] // keys.shape[0])
    return total


def best(scores, n, window=0):
    """The window and the best of the older; the newer of equals."""
    older = range(len(scores) - window)
    ranked = sorted(older, key=lambda i: (-scores[i], -i))[: n - window]
    return sorted([*ranked, *range(len(scores) - window, len(scores))])


def h2o(queries, keys, budget):
    return sums(queries, keys), budget // 2


def snapkv(queries, keys, budget, window=12, kernel=5):
    w = queries[:, -window:]
    mean = sums(w, keys)[:, :-window] / window
    padded = np.pad(mean, ((0, 0), (2, 2)))
    pooled = sum(padded[:, i : i + mean.shape[1]] for i in range(kernel)) / kernel
    return np.pad(pooled, ((0, 0), (0, window))), window


def tova(queries, keys, budget):
    return sums(queries[:, -1:], keys).mean(0, keepdims=True), 1


def rkv(queries, keys, budget, window=8, mix=0.07):
    groups, length, _ = keys.shape
    older = length - window
    largest = np.full((groups, window, older), -np.inf)
    for group, j, _, z in rows(queries[:, -window:], keys, causal=False):
        largest[group, j] = np.maximum(largest[group, j], z[:older])
    out = np.zeros((groups, length))
    for group in range(groups):
        mean = np.mean([soft(row) for row in largest[group]], axis=0)
        importance = [mean[max(0, j - 3) : j + 4].max() for j in range(older)]
        unit = [k / (np.linalg.norm(k) + 1e-8) for k in keys[group].astype(float)]
        c = np.array(
            [[0.0 if i == j else a @ b for j, b in enumerate(unit)] for i, a in enumerate(unit)]
        )
        for row in c:
            near = np.flatnonzero(row > 0.5)
            row[near[-1] if near.size else 0] = 0
        redundancy = soft(c.mean(0))[:older]
        out[group, :older] = mix * np.array(importance) - (1 - mix) * redundancy
    return out, window


def agentkv(queries, keys, budget):
    """One buffer here: all queries of one phase, so the last 8; sinks 32."""
    scores = sums(queries[:, -8:], keys, causal=False) / 8
    scores[:, :32] = np.inf
    return scores, 0


ORACLES = {"h2o": h2o, "snapkv": snapkv, "tova": tova, "rkv": rkv, "agentkv": agentkv}
OPTIONS = {"snapkv": {"window": 12}}


def observed(name, queries, keys, cuts=(), protected=0, **options):
    policy = POLICIES[name](layers=1, protected=protected, **OPTIONS.get(name, {}), **options)
    edges = [0, *cuts, queries.shape[1]]
    behind = keys.shape[1] - queries.shape[1]
    for first, stop in zip(edges, edges[1:], strict=False):
        part, seen = queries[:, first:stop], keys[:, : behind + stop]
        policy.observe(0, torch.as_tensor(part), torch.as_tensor(seen), "observation")
    return policy


@pytest.mark.parametrize("cuts", [(), (1, 40, 83, 84)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ORACLES)
def test_sets_are_the_oracle(name, seed, cuts):
    queries, keys = draw(seed, HEADS, S, WIDTH), draw(seed + 9, GROUPS, S, WIDTH)
    policy = observed(name, queries, keys, cuts)
    scores, window = ORACLES[name](queries, keys, B)
    found = policy.scores(0, S, B, lambda layer: torch.as_tensor(keys)).numpy()
    scale = np.abs(scores[np.isfinite(scores)]).max()
    older = slice(0, S - window)
    finite = np.isfinite(found[:, older])
    assert (finite == np.isfinite(scores[:, older])).all()
    assert np.allclose(found[:, older][finite], scores[:, older][finite], atol=1e-6 * scale)
    sets = policy.head_sets(S, B, lambda layer: torch.as_tensor(keys))
    assert sets.tolist() == [[best(row, B, window) for row in scores]]
    shared = policy.select(S, B, lambda layer: torch.as_tensor(keys))
    assert shared.tolist() == [best(scores.mean(0), B, window)]


def test_streaming_keeps_sinks_and_the_newest():
    found = POLICIES["streaming"](layers=2).select(S, 10, None)
    assert found.tolist() == [[0, 1, 2, 3, *range(S - 6, S)]] * 2
    found = POLICIES["streaming"](layers=1, protected=7).select(S, 10, None)
    assert found.tolist() == [[*range(7), *range(S - 10, S)]]
    found = POLICIES["streaming"](layers=1, protected=7, sink=2).select(S, 10, None)
    assert found.tolist() == [[*range(9), *range(S - 8, S)]]


def test_h2o_sums_go_on_after_an_eviction():
    queries, keys = draw(0, HEADS, S, WIDTH), draw(1, GROUPS, S, WIDTH)
    policy = observed("h2o", queries[:, :60], keys[:, :60])
    total = sums(queries[:, :60], keys[:, :60])
    (kept,) = policy.select(60, B, None)
    later = np.r_[kept, 60:S]
    policy.observe(0, torch.as_tensor(queries[:, 60:]), torch.as_tensor(keys[:, later]), "action")
    total = np.pad(total[:, kept], ((0, 0), (0, 30))) + sums(queries[:, 60:], keys[:, later])
    assert np.allclose(policy.sums[0], total, atol=1e-5)
    assert policy.head_sets(70, B, None)[0].tolist() == [best(row, B, B // 2) for row in total]


def test_agentkv_gives_every_phase_its_buffer():
    queries, keys = draw(0, HEADS, S, WIDTH), draw(1, GROUPS, S, WIDTH)
    policy, at, newest = POLICIES["agentkv"](layers=1, sink=0), 0, {}
    for phase, n in (("prefix", 30), ("observation", 20), ("reasoning", 5), ("action", 2)) * 2:
        if at + n > S:
            break
        part = queries[:, at : at + n]
        at += n
        newest[phase] = np.concatenate([newest.get(phase, part[:, :0]), part], 1)[:, -8:]
        policy.observe(0, torch.as_tensor(part), torch.as_tensor(keys[:, :at]), phase)
    assert {phase: buffer.shape[1] for phase, buffer in newest.items()} == {
        "prefix": 8,
        "observation": 8,
        "reasoning": 5,
        "action": 2,
    }
    scores = sums(np.concatenate(list(newest.values()), 1), keys[:, :at], causal=False)
    found = policy.select(at, B, lambda layer: torch.as_tensor(keys[:, :at]))
    assert found.tolist() == [best(scores.mean(0), B)]
    few = torch.as_tensor(keys[:, :at][:, found[0]])  # fewer entries than stored queries
    assert len(found[0]) >= B and policy.select(B, 10, lambda layer: few[:, :B]).shape == (1, 10)


def test_random_keep_is_fair_and_differs_by_layer_and_seed():
    counts = np.zeros(20)
    for seed in range(300):
        kept = POLICIES["random"](layers=2, seed=seed).select(20, 5, None)
        assert (kept[0] != kept[1]).any() or seed
        counts[kept.ravel()] += 1
    assert abs(counts / 600 - 0.25).max() < 0.08


@pytest.mark.parametrize(
    ("name", "phases"), [("actkv", ["action"]), ("lrfu-all", ["reasoning", "action"])]
)
def test_actkv_is_algorithm_1_over_its_phases(name, phases):
    keys = draw(0, GROUPS, S, WIDTH)
    policy, plain = POLICIES[name](layers=1, protected=5), eviction.ActionLRFU(protected=5)
    at, cached = 0, keys[:, :0]
    for step, (phase, n) in enumerate(
        (("prefix", 5), *[("observation", 9), ("reasoning", 5), ("action", 4)] * 4)
    ):
        queries = draw(step, HEADS, n, WIDTH)
        cached, at = np.concatenate([cached, keys[:, at : at + n]], 1), at + n
        policy.observe(0, torch.as_tensor(queries), torch.as_tensor(cached), phase)
        if phase in phases:
            p = np.zeros((GROUPS, HEADS // GROUPS, n, cached.shape[1]))
            for number, (group, j, row, _) in enumerate(rows(queries, cached)):
                p[group, number // n % (HEADS // GROUPS), j] = row
            plain.observe(p)
        if phase == "action":
            kept = policy.select(cached.shape[1], 20, None)[0]
            assert kept.tolist() == plain.step(cached.shape[1], 20).tolist()
            assert policy.state[0].score == pytest.approx(plain.score, abs=1e-6)
            cached = cached[:, kept]
    assert cached.shape[1] == 25


def test_adaptive_budget_is_raised_only_when_entries_have_to_go(monkeypatch):
    asked = []
    decide = actkv_module.confidence.next_budget
    monkeypatch.setattr(
        actkv_module.confidence, "next_budget", lambda *a, **k: asked.append(1) or decide(*a, **k)
    )
    fall, flat = np.linspace(9, 1, 200), np.ones(200)
    acted = torch.as_tensor(draw(0, HEADS, 1, WIDTH))

    def close(policy, length):
        policy.observe(0, acted, torch.as_tensor(draw(1, GROUPS, length, WIDTH)), "action")
        return policy.select(length, 1, None).shape[1]

    policy = POLICIES["actkv-adaptive"](layers=1, start=20, protected=3)
    policy.note(fall)
    assert (close(policy, 23), policy.budget, len(asked)) == (23, 20, 0)
    assert (close(policy, 60), policy.budget, len(asked)) == (38, 35, 1)
    policy.note(flat)
    assert policy.select(70, 1, None).shape[1] == 70  # no action: nothing is asked or evicted
    assert len(asked) == 1 and len(policy.decisions) == 1
    eager = POLICIES["actkv-adaptive"](layers=1, start=20, upper=30, ask="round")
    eager.note(fall)
    assert (close(eager, 23), eager.budget) == (23, 30)
    recent = POLICIES["actkv-adaptive"](layers=1, start=20, monitor={"fit": "since_raise"})
    recent.note(fall)
    assert (close(recent, 60), close(recent, 90)) == (35, 35)  # nothing new since the raise


@pytest.mark.parametrize("name", POLICIES)
def test_a_budget_above_the_length_keeps_all(name):
    policy = POLICIES[name](layers=LAYERS, protected=3)
    for layer in range(LAYERS):
        policy.observe(layer, torch.ones(HEADS, 9, WIDTH), torch.ones(GROUPS, 9, WIDTH), "action")
    kept = policy.select(9, 6, lambda layer: torch.ones(GROUPS, 9, WIDTH))
    assert kept.tolist() == [list(range(9))] * LAYERS


@pytest.mark.parametrize("name", POLICIES)
def test_rounds_on_a_model_keep_the_protocol(name):
    """A peak of prefix + budget + slack + one pass, the same prefix for all, true positions."""
    protected, budget, slack = 10, 40, 20
    options = {"start": budget, "upper": budget} if name == "actkv-adaptive" else {}
    policy = POLICIES[name](layers=LAYERS, protected=protected, **options)
    cache, ids, at = PagedCache(tiny(), block_size=4), tokens(310), protected
    with watching(tiny(), cache, [policy]) as watch:
        tiny()(ids[:, :protected], cache=cache)
        while at < 310:
            for phase, n in (("observation", 12), ("reasoning", 5), ("action", 3)):
                watch.phase = phase
                tiny()(ids[:, at : at + n], cache=cache)
                at += n
                length, over = cache.physical[0], phase == "action"
                if base.due(policy, length, budget, slack, over):
                    kept = policy.select(length, budget, cache.keys)
                    cache.evict(kept)
                    assert kept.shape == (LAYERS, min(length, protected + budget))
                    assert (cache.positions()[:, :protected] == np.arange(protected)).all()
    assert tiny().config._attn_implementation == "sdpa"
    limit = 310 if name == "fullkv" else protected + budget + slack + 12
    assert cache.counters()["logical"] == [310] and cache.peak_entries <= limit


def test_a_watched_batch_shows_each_request_alone():
    class Note(base.Policy):
        def observe(self, layer, queries, keys, phase):
            seen.setdefault((id(self), layer), []).append((queries.clone(), keys.clone(), phase))

    seen, ids = {}, tokens(11)
    both = [Note(layers=LAYERS) for _ in range(2)]
    batch = torch.cat([ids, torch.nn.functional.pad(ids[:, :6], (5, 0))])
    cache = PagedCache(tiny(), requests=2)
    with watching(tiny(), cache, both):
        tiny()(batch, attention_mask=(batch > 0).long(), cache=cache)
    alone, one = Note(layers=LAYERS), PagedCache(tiny())
    with watching(tiny(), one, [alone]) as watch:
        watch.phase = "prefix"
        tiny()(ids[:, :6], cache=one)
    for layer in range(LAYERS):
        ((queries, keys, _),) = seen[id(both[1]), layer]
        ((expected, expected_keys, _),) = seen[id(alone), layer]
        assert torch.allclose(queries, expected, atol=1e-5)
        assert torch.allclose(keys, expected_keys, atol=1e-5)
        assert keys.equal(cache.keys(layer, 1))


def test_watched_attention_is_the_models():
    ids, cache = tokens(20), PagedCache(tiny())
    policy = POLICIES["h2o"](layers=LAYERS)
    with watching(tiny(), cache, [policy]):
        found = tiny()(ids, cache=cache).logits
    assert found.equal(tiny()(ids, use_cache=False).logits)
    tiny().set_attn_implementation("eager")
    try:
        maps = tiny()(ids, use_cache=False, output_attentions=True).attentions
    finally:
        tiny().set_attn_implementation("sdpa")
    for layer, expected in enumerate(maps):
        expected = expected[0].view(GROUPS, -1, 20, 20).mean(1).sum(1)
        assert torch.allclose(policy.sums[layer], expected, atol=1e-5)


NONE = {"layers": 1}
KEYS = torch.zeros(GROUPS, S, WIDTH)


def seen(name, **options):
    policy = POLICIES[name](**NONE, **options)
    policy.observe(0, torch.zeros(HEADS, S, WIDTH), KEYS, "action")
    return policy


BAD = [
    (lambda: POLICIES["h2o"](layers=0), "layers=0", ">= 1"),
    (lambda: POLICIES["h2o"](**NONE, protected=-1), "protected=-1", ">= 0"),
    (lambda: POLICIES["h2o"](**NONE, recent=1.5), "recent=1.5", "[0, 1]"),
    (lambda: POLICIES["snapkv"](**NONE, window=0), "window=0", ">= 1"),
    (lambda: POLICIES["snapkv"](**NONE, kernel=4), "kernel=4", "odd"),
    (lambda: POLICIES["rkv"](**NONE, kernel=4), "kernel=4", "odd"),
    (lambda: POLICIES["rkv"](**NONE, mix=2), "mix=2", "[0, 1]"),
    (lambda: POLICIES["agentkv"](**NONE, queries=0), "queries=0", ">= 1"),
    (lambda: POLICIES["streaming"](**NONE, sink=-1), "sink=-1", ">= 0"),
    (lambda: POLICIES["actkv"](**NONE, decay=2), "decay=2", "[0, 1]"),
    (lambda: POLICIES["actkv-adaptive"](**NONE, ask="no"), "ask='no'", "over"),
    (lambda: seen("h2o").select(S, 0, None), "budget=0", ">= 1"),
    (lambda: seen("actkv").select(S, 0, None), "budget=0", ">= 1"),
    (lambda: seen("snapkv").select(S, 31, lambda layer: KEYS), "window=32", ">= 32"),
    (lambda: seen("rkv").select(S, 7, lambda layer: KEYS), "window=8", ">= 8"),
    (lambda: seen("streaming").select(S, 3, None), "sink=4", ">= 4"),
    (lambda: seen("agentkv").select(S, 31, lambda layer: KEYS), "sink=32", ">= 32"),
    (lambda: seen("h2o").select(S + 1, 9, None), f"length={S + 1}", f"{S} entries"),
    (lambda: seen("tova", protected=5).select(4, 9, None), "length=4", ">= protected=5"),
    (lambda: seen("agentkv").observe(0, KEYS, KEYS, "think"), "phase='think'", "reasoning"),
    (lambda: POLICIES["tova"](**NONE).select(S, 9, lambda layer: KEYS), "no pass", "observe"),
    (lambda: POLICIES["agentkv"](**NONE).select(S, 40, lambda layer: KEYS), "no pass", "observe"),
    (lambda: base.attention(torch.zeros(3, 1, WIDTH), KEYS), "(3, 1, 8)", "multiple"),
    (lambda: base.attention(torch.zeros(4, 1, 4), KEYS), "(4, 1, 4)", "multiple"),
    (lambda: base.attention(torch.zeros(4, S + 1, WIDTH), KEYS), "91", "n <= S"),
    (lambda: base.attention(torch.zeros(4, 1, WIDTH) / 0, KEYS), "NaN", "finite"),
    (lambda: base.keep(torch.tensor([[0.0, torch.nan]]), 0, 1), "NaN", "finite"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)


def test_one_policy_a_request():
    with (
        pytest.raises(ValueError, match="policies has 2 entries; accepted: 1"),
        watching(tiny(), PagedCache(tiny()), [None, None]),
    ):
        pass
