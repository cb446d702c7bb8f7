"""The runner on hybrids of `transformers`: tiny, random, both classes that the library has."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from repro.deltas import adapter, drift, runner
from repro.deltas.retention import RetentionPolicy
from repro.deltas.runner import StreamRunner

COMMON = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    max_position_embeddings=512,
)


def build(name):
    import transformers

    torch.manual_seed(0)
    if name == "qwen3_5":
        config = transformers.Qwen3_5TextConfig(**COMMON)
        model = transformers.Qwen3_5ForCausalLM(config)
    else:
        experts = dict(moe_intermediate_size=16, shared_expert_intermediate_size=16)
        config = transformers.Qwen3NextConfig(
            **COMMON, **experts, num_experts=4, num_experts_per_tok=4
        )
        model = transformers.Qwen3NextForCausalLM(config)
    for parameter in model.parameters():  # the library's initial weights hardly mix tokens
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3_next"])
def model(request):
    return build(request.param)


IDS = torch.randint(0, 61, (2, 140), generator=torch.Generator().manual_seed(0))


def close(a, b, scale):
    """To rounding, which the norm of a small head output can raise; a lost state costs O(scale)."""
    assert (a - b).abs().max() < 2e-3 * scale, (a - b).abs().max()


@pytest.mark.parametrize("size", [1, 37, 64])
def test_in_pieces_is_one_shot(model, size):
    whole = model(IDS).logits
    read = StreamRunner(adapter.Hybrid(model), None, batch=2)
    cut = range(0, 140 if size > 1 else 20, size)
    parts = torch.cat([read.feed(IDS[:, i : i + size]) for i in cut], 1)
    close(parts, whole[:, : parts.shape[1]], whole.std())


def streamed(model, policy, count=7, signal="drift"):
    read = StreamRunner(adapter.Hybrid(model), policy, signal, batch=2)
    for i in range(0, 20 * count, 20):
        read.feed(IDS[:, i : i + 20])
    return read


POLICY = RetentionPolicy(64, 4, 8, 4)


def test_budget_positions_and_copies(model):
    read = streamed(model, POLICY)
    assert {k.shape[2] for k, _ in read.memory.attended()} == {64}
    assert read.memory.cache.get_seq_length() == 64  # what must not become the next position
    assert read.next_position.tolist() == [140, 140]
    read.feed(IDS[:, :3])
    assert read.position[0, 0, -3:].tolist() == [140, 141, 142]
    assert min(s.min() for s in read.scores) > 1e-3  # states were copied, not referenced
    live = read.memory.states()
    kept, copies = live, drift.copied(live)
    read.feed(IDS[:, :3])
    assert torch.equal(kept[0], read.memory.states()[0])  # the library updates in place
    assert not torch.equal(copies[0], kept[0])


def test_positions_matter(model):
    """The same kept entries at renumbered positions give other logits: the usual mistake."""
    read = streamed(model, POLICY)
    right = read.ask(IDS[:, :4])
    read.next_position[:] = 64
    assert (read.ask(IDS[:, :4]) - right).abs().max() > 1e-3


def test_many_at_once_is_one_by_one_after_evictions(model):
    one, many = streamed(model, POLICY), streamed(model, POLICY)
    wide = RetentionPolicy(200, 4, 8, 4)
    one.policy = many.policy = wide
    apart = torch.cat([one.feed(IDS[:, [i]]) for i in range(7)], 1)
    together = many.feed(IDS[:, :7])
    close(apart, together, together.std())


def test_asking_changes_nothing(model):
    asked, never = streamed(model, POLICY), streamed(model, POLICY)
    first, second = asked.ask(IDS[:, :5], tokens=4), asked.ask(IDS[:, :5], tokens=4)
    assert torch.equal(first, second) and first.shape == (2, 4)
    assert runner.same(asked.state(), never.state())
    assert torch.equal(asked.feed(IDS[:, :9]), never.feed(IDS[:, :9]))


def test_padding_and_neighbours_leak_nothing(model):
    home = adapter.Hybrid(model)
    pad = torch.cat([torch.zeros(1, 16, dtype=torch.long), IDS[:1, :21]], 1)
    real = np.ones((2, 37), bool)
    real[0, :16] = False
    pair, alone = StreamRunner(home, POLICY, batch=2), StreamRunner(home, POLICY)
    both = pair.feed(torch.cat([pad, IDS[1:, :37]]), real=real)
    one = alone.feed(IDS[:1, :21])
    close(both[0, 16:], one[0], one.std())
    for i in range(40, 120, 20):
        both, one = pair.feed(IDS[:, i : i + 20]), alone.feed(IDS[:1, i : i + 20])
        close(both[0], one[0], one.std())
        np.testing.assert_allclose(pair.scores[-1][0], alone.scores[-1][0], rtol=1e-3)
    assert pair.position[0, 0][pair.real[0]].tolist() == alone.position[0, 0].tolist()


def test_three_axes_of_positions():
    """Equal axes are plain positions; the next one follows the largest of all axes."""
    home = adapter.Hybrid(build("qwen3_5"))
    plain, axes = (StreamRunner(home, POLICY) for _ in range(2))
    one = plain.feed(IDS[:1, :8])
    same = axes.feed(IDS[:1, :8], np.broadcast_to(np.arange(8), (3, 1, 8)))
    close(one, same, one.std())
    axes.feed(IDS[:1, :4], np.array([[[8] * 4], [[8, 8, 9, 9]], [[8, 9, 8, 11]]]))
    assert axes.next_position.tolist() == [12]
    axes.feed(IDS[:1, :2])
    assert axes.position[:, 0, -1].tolist() == [13, 13, 13]


def test_gates_where_the_model_shows_them():
    home = adapter.Hybrid(build("qwen3_5"))
    read = {name: StreamRunner(home, POLICY, name) for name in ("drift", "write", "decay")}
    for one in read.values():
        for i in range(0, 60, 20):
            one.feed(IDS[:1, i : i + 20])
    drifted, wrote, forgot = (read[n].scores[-1][0, 0] for n in ("drift", "write", "decay"))
    assert drifted <= wrote + forgot + 1e-5 and min(wrote, forgot) > 0
    with pytest.raises(ValueError, match="signal='residual' needs beta"):
        StreamRunner(home, POLICY, "residual").feed(IDS[:1, :4])
    with pytest.raises(ValueError, match="needs the decay gates.*accepted: 'drift'"):
        StreamRunner(adapter.Hybrid(build("qwen3_next")), POLICY, "write").feed(IDS[:1, :4])


def fake(*kinds):
    return SimpleNamespace(config=SimpleNamespace(layer_types=list(kinds)))


BAD = [
    (object(), "model=object has no layer_types", "Qwen3_5ForCausalLM"),
    (fake("linear_attention", "sliding_attention"), "sliding_attention", "full_attention"),
    (fake("full_attention"), "no linear_attention layer", "no state to read"),
    (fake("linear_attention"), "no full_attention layer", "no KV to evict"),
]


@pytest.mark.parametrize(("given", "names", "accepts"), BAD)
def test_wrong_layer_types_are_named(given, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        adapter.Hybrid(given)
    assert accepts in str(caught.value)


def test_a_question_before_the_stream_is_refused(model):
    with pytest.raises(ValueError, match="before the first chunk; accepted: after feed"):
        StreamRunner(adapter.Hybrid(model), POLICY).ask(IDS[:1, :3])
