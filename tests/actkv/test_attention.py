import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tiny_llama import tiny_llama

from repro.actkv import attention, eviction

VOCABULARY, LAYERS, HEADS, KV_HEADS = 50, 2, 4, 2


@dataclass
class Trace:
    ids: np.ndarray
    labels: list[str]
    rounds: np.ndarray


@pytest.fixture(scope="module")
def model():
    # spread: attention far from uniform, logits near 1
    return tiny_llama(VOCABULARY, heads=HEADS, groups=KV_HEADS, layers=LAYERS, spread=0.2)


def make_trace():
    runs = [
        ("prefix", 0, 9),
        ("observation", 0, 7),
        ("reasoning", 0, 5),
        ("action", 0, 6),
        ("observation", 0, 1),
        ("observation", 1, 11),
        ("reasoning", 1, 4),  # a round without an action
        ("reasoning", 2, 3),  # begins with a generated token
        ("action", 2, 5),
        ("action", 3, 2),  # nothing but an action
    ]
    labels = [label for label, _, n in runs for _ in range(n)]
    rounds = np.array([r for _, r, n in runs for _ in range(n)])
    ids = np.random.default_rng(0).integers(0, VOCABULARY, len(labels))
    return Trace(ids, labels, rounds)


@pytest.fixture(scope="module")
def whole(model):
    """One eager pass over the whole trace: logits [L, V] and attention [layers, H_q, L, L]."""
    trace = make_trace()
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor(trace.ids)[None], output_attentions=True)
    model.set_attn_implementation("sdpa")
    return out.logits[0].numpy(), torch.cat(out.attentions).numpy()


@pytest.mark.parametrize(("chunk", "queries"), [(256, 32), (4, 3), (1, 1)])
def test_rounds_equal_one_full_pass(model, whole, chunk, queries):
    trace, (logits, maps) = make_trace(), whole
    labels = np.array(trace.labels)
    found = list(
        attention.action_rounds(model, trace, eviction.action_attention, True, chunk, queries)
    )
    assert [r.round for r in found] == [0, 1, 2, 3]
    assert [r.span for r in found] == [(21, 27), None, (46, 51), (51, 53)]
    assert [r.length for r in found] == [28, 43, 51, 53]
    assert found[1].attention is None
    for item in found:
        mine = np.flatnonzero((trace.rounds == item.round) & np.isin(labels, attention.GENERATED))
        assert item.positions.tolist() == mine.tolist()
        assert np.abs(item.logits - logits[mine - 1]).max() < 1e-5  # t-1 predicts t
        if item.span:
            start, stop = item.span
            rows = maps[:, :, start:stop, :stop].reshape(LAYERS, KV_HEADS, -1, stop - start, stop)
            expected = [eviction.action_attention(layer) for layer in rows]
            assert item.attention.dtype == np.float32
            assert np.abs(item.attention - expected).max() < 1e-5


def test_probabilities_arrive_whole_and_group_by_kv_head(model, whole):
    seen = []

    def reduce(attn):
        seen.append(attn)
        return attn.mean((0, 1, 2))

    trace = make_trace()
    rounds = [r for r in attention.action_rounds(model, trace, reduce) if r.span]
    assert all(a.shape[:2] == (KV_HEADS, HEADS // KV_HEADS) for a in seen)
    assert all(np.allclose(a.sum(-1), 1, atol=1e-5) for a in seen)
    assert all(np.allclose(r.attention.sum(-1), 1, atol=1e-5) for r in rounds)
    first, (_, maps) = seen[0], whole  # query head h reads KV head h // G
    for head in range(HEADS):
        pair = divmod(head, HEADS // KV_HEADS)
        assert np.abs(first[pair] - maps[0, head, 21:27, :27]).max() < 1e-5


@pytest.mark.parametrize("chunk", [256, 10, 1])
def test_generated_logits_are_shifted_by_one(model, whole, chunk):
    trace, (logits, _) = make_trace(), whole
    pieces = list(attention.generated_logits(model, trace, chunk))
    positions = np.concatenate([p for p, _ in pieces])
    assert positions.tolist() == np.flatnonzero(np.isin(trace.labels, attention.GENERATED)).tolist()
    assert np.abs(np.concatenate([x for _, x in pieces]) - logits[positions - 1]).max() < 1e-5


def test_first_token_of_a_trace_has_no_prediction(model):
    trace = Trace(np.arange(4), ["reasoning"] * 3 + ["action"], np.zeros(4, int))
    (only,) = attention.action_rounds(model, trace, eviction.action_attention, logits=True)
    assert only.positions.tolist() == [1, 2, 3] and len(only.logits) == 3
    ((positions, _),) = attention.generated_logits(model, trace)
    assert positions.tolist() == [1, 2, 3]


def test_the_attention_implementation_is_put_back(model):
    assert model.config._attn_implementation == "sdpa"

    def broken(attn):
        raise RuntimeError("reduce failed")

    with pytest.raises(RuntimeError, match="reduce failed"):
        list(attention.action_rounds(model, make_trace(), broken))
    assert model.config._attn_implementation == "sdpa"
    rounds = attention.action_rounds(model, make_trace(), eviction.action_attention)
    next(rounds)  # a consumer that stops half way
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(ZeroDivisionError), attention._eager(model):
        raise ZeroDivisionError
    assert model.config._attn_implementation == "sdpa"


def test_recorded_attention_drives_the_policy(model):
    rounds = list(attention.action_rounds(model, make_trace(), eviction.action_attention))
    policy = eviction.ActionLRFU(protected=9)
    rows = [None if r.attention is None else r.attention[0] for r in rounds]
    lengths = [r.length for r in rounds]
    sizes = [c.size for c in eviction.replay(policy, rows, lengths, [6] * 4)]
    assert sizes == [15, 30, 15, 15]  # the round without action is left alone


BAD = [
    (lambda t: setattr(t, "ids", t.ids[:0]), "trace has 0 tokens", "1..128"),
    (lambda t: setattr(t, "ids", np.zeros(200, int)), "trace has 200 tokens", "1..128"),
    (lambda t: setattr(t, "labels", t.labels[:-1]), "52 labels", "equally many"),
    (lambda t: setattr(t, "rounds", t.rounds[::-1]), "53 rounds", "never fall"),
    (lambda t: t.labels.__setitem__(3, "tool"), "['tool']", "prefix, observation"),
]


@pytest.mark.parametrize(("spoil", "names", "accepts"), BAD)
def test_bad_traces(model, spoil, names, accepts):
    trace = make_trace()
    spoil(trace)
    for run in (
        lambda: list(attention.action_rounds(model, trace, eviction.action_attention)),
        lambda: list(attention.generated_logits(model, trace)),
    ):
        with pytest.raises(ValueError, match=re.escape(names)) as caught:
            run()
        assert accepts in str(caught.value)
    with pytest.raises(ValueError, match="chunk=0"):
        list(attention.generated_logits(model, make_trace(), chunk=0))
