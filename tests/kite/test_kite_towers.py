"""Tests 1 to 6 of the notes, 3.4, at sizes other than those of the checks, and bad arguments."""

import json
import re

import pytest
import torch

from repro import accept
from repro.errors import BadParameter
from repro.kite import blocks, cost, flops, growth, past, rows, serve, tiny
from repro.kite.config import Config
from repro.kite.model import SST
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/kite.json").read_text())
SHAPES = {
    "modern, grouped": Config(width=24, layers=3, heads=4, kv_heads=2, head_size=8, vocab=40),
    "modern, one head": Config(width=16, layers=1, vocab=40),
    "origin": Config(width=16, layers=2, vocab=40, style="origin"),
}


def build(name, **options):
    torch.manual_seed(7)
    model = SST(SHAPES[name])
    torch.nn.init.normal_(model.head.weight, std=0.5)
    model.expand(**options)
    return model.eval()


def ids(length=20, batch=3, seed=0):
    return torch.randint(0, 40, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", blocks.KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_1_all_modes_agree(name, kind):
    model = build(name).use_attention(kind)
    with torch.no_grad():
        expected = model(ids())[0]
        for chunk in (0, 1, 7, 19, 20, 50):
            found, cache = serve.prefill(model, ids(), chunk=chunk)
            torch.testing.assert_close(found, expected[:, -1], atol=1e-5, rtol=0)
            assert cache.rows == [20] * 3
        cache = None
        for t in range(20):
            logits, cache = model(ids()[:, t : t + 1], cache, 1)
            torch.testing.assert_close(logits[:, 0], expected[:, t], atol=1e-5, rtol=0)


@pytest.mark.parametrize("init", ["copy", "random"])
@pytest.mark.parametrize("name", SHAPES)
def test_2_kv_is_bitwise_equal_before_and_after_expand(name, init):
    torch.manual_seed(7)
    model = SST(SHAPES[name])
    with torch.no_grad():
        before, old = model(ids())[::-1]
        model.expand(init)
        after, new = model(ids())[::-1]
    for kept in ("keys", "values"):
        assert all(map(torch.equal, getattr(before, kept), getattr(after, kept)))
    assert not torch.allclose(old, new)


@pytest.mark.parametrize("name", SHAPES)
def test_3_no_kv_depends_on_the_decoder_and_the_loss_reaches_both(name):
    model = build(name)
    logits, cache = model(ids())
    for key in cache.keys:
        grads = torch.autograd.grad(
            key.square().sum(), model.decoder_parameters(), retain_graph=True, allow_unused=True
        )
        assert all(g is None for g in grads)
    logits.log_softmax(-1)[..., 0].sum().backward()
    for block in model.prefiller:
        assert block.key.weight.grad.any() and block.value.weight.grad.any()
    assert all(block.query.weight.grad.any() for block in model.decoder)


def test_3_the_last_prefiller_layer_learns_keys_through_the_decoder_only_when_it_reads_them():
    """Cut the Prefiller's own reading off: what is left of the gradient comes from the Decoder."""
    model = build("modern, grouped", layer_map=(0, 1, 1))
    logits, cache = model(ids())
    with torch.no_grad():
        for block in model.prefiller:
            block.out.weight.zero_()
    model.zero_grad()
    logits, cache = model(ids())
    logits[..., 0].sum().backward()
    reached = [bool(block.key.weight.grad.any()) for block in model.prefiller]
    assert reached == [True, True, False]


@pytest.mark.parametrize("name", SHAPES)
def test_4_a_token_changes_nothing_before_it(name):
    model, other = build(name), ids().clone()
    other[:, 11] = (other[:, 11] + 1) % 40
    with torch.no_grad():
        a, b = model(ids())[0], model(other)[0]
    torch.testing.assert_close(a[:, :11], b[:, :11], atol=1e-6, rtol=0)
    assert (a[:, 11:] - b[:, 11:]).abs().amax((0, 2)).min() > 1e-5


@pytest.mark.parametrize("name", SHAPES)
def test_5_random_decoder_weights_leave_the_kv_alone(name):
    model = build(name)
    with torch.no_grad():
        logits, before = model(ids())
        for weight in model.decoder_parameters():
            weight.normal_()
        changed, after = model(ids())
    assert all(map(torch.equal, before.keys, after.keys))
    assert all(map(torch.equal, before.values, after.values))
    assert not torch.allclose(logits, changed, atol=1e-2)


def test_6_parameter_counts():
    golden = GOLDEN["parameters"]
    model = SST(Config(layers=2, **golden["config"]))
    deep = SST(Config(layers=4, **golden["config"]))
    count = [sum(p.numel() for p in m.parameters()) for m in (model, deep)]
    assert count == [golden["source"], golden["dense4"]]
    model.expand()
    assert sum(p.numel() for p in model.parameters()) == golden["grown"]


@pytest.mark.parametrize("name", SHAPES)
def test_parameter_groups_are_disjoint_and_complete(name):
    model = build(name)
    groups = [model.prefiller_parameters, model.decoder_parameters, model.shared_parameters]
    found = [id(p) for group in groups for p in group()]
    assert len(found) == len(set(found)) and set(found) == {id(p) for p in model.parameters()}
    assert len(found) == len(list(model.parameters()))
    total = sum(p.numel() for p in model.parameters())
    assert total == SHAPES[name].parameters(len(model.decoder))


def test_towers_of_different_depth_copy_the_layer_they_read():
    model = build("modern, grouped", layer_map=(2, 0))
    assert len(model.decoder) == 2
    for block, layer in zip(model.decoder, (2, 0), strict=True):
        assert torch.equal(block.query.weight, model.prefiller[layer].query.weight)
    assert growth.stacked(SST(SHAPES["origin"])).config.layers == 4


def test_frozen_prefiller_keeps_the_kv_through_training():
    model = build("modern, grouped")
    model.freeze_prefiller()
    with torch.no_grad():
        before = model(ids())[1]
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.1)
    model(ids())[0].square().sum().backward()
    optimiser.step()
    with torch.no_grad():
        after = model(ids())[1]
    assert all(map(torch.equal, before.keys, after.keys))


MODERN = "modern, grouped"
OTHER = SST(Config(width=24, layers=3, vocab=40))  # as deep, other heads
BAD = [
    (lambda: build(MODERN).expand(), "expand()", "one expansion"),
    (lambda: SST(SHAPES[MODERN]).expand(width=32), "width=32", "accepted: 24"),
    (lambda: SST(SHAPES[MODERN]).expand(hidden=8), "hidden=8", "init='copy'"),
    (lambda: SST(SHAPES[MODERN]).expand("zero"), "init='zero'", "copy, random"),
    (lambda: SST(SHAPES[MODERN]).expand(layer_map=(0, 3)), "layer_map=(0, 3)", "0 to 2"),
    (lambda: SST(SHAPES[MODERN]).expand(layer_map=()), "layer_map=()", "0 to 2"),
    (lambda: growth.stacked(build(MODERN)), "expand()", "one expansion"),
    (lambda: build(MODERN)(ids()[:, :0]), "[3, 0]", "empty prompt"),
    (lambda: serve.prefill(build(MODERN), ids()[:, :0]), "[3, 0]", "empty prompt"),
    (lambda: build(MODERN)(ids()[0]), "[20]", "[B, T]"),
    (lambda: build(MODERN)(ids(), lengths=[3, 0, 1]), "lengths[1]=0", ">= 1"),
    (lambda: build(MODERN)(ids(), lengths=[3, 21, 1]), "lengths[1]=21", "at most 20"),
    (lambda: build(MODERN)(ids(), lengths=[3, 2]), "lengths=[3, 2]", "one a row"),
    (lambda: build(MODERN)(ids(), None, 21), "logits_to_keep=21", "0 to 20"),
    (lambda: build(MODERN)(ids(), None, -1), "logits_to_keep=-1", ">= 0"),
    (lambda: build(MODERN)(ids(), None, torch.tensor([[0, 20]])), "(0, 20)", "new tokens"),
    (lambda: build(MODERN)(ids(), None, torch.tensor([0])), "[1]", "[N, 2]"),
    (lambda: build(MODERN)(ids(), OTHER(ids())[1], 1), "past has keys", "KV heads"),
    (lambda: build("origin")(ids(65)), "position 64", "positions=64"),
    (lambda: build(MODERN).use_attention("flash"), "kind='flash'", "explicit"),
    (
        lambda: serve.prefill(build(MODERN), ids(), prompt_logprobs=True),
        "prompt_logprobs",
        "scores",
    ),
    (lambda: serve.prompt_scores(build(MODERN), ids(), 1), "prompt_logprobs", "scores"),
    (lambda: serve.prefill(build(MODERN), ids(), chunk=-1), "chunk=-1", ">= 0"),
    (lambda: serve.prefill(build(MODERN), ids(), [9, 25, 3]), "lengths[1]=25", "at most 20"),
    (lambda: serve.prefill(build(MODERN), ids(), [9, 25, 3], 7), "lengths[1]=25", "at most 20"),
    (lambda: build(MODERN)(ids(), past.Past(2)), "past has 2 layers", "accepted: 3"),
    (lambda: rows.padded(torch.zeros(5, 2), [2, 4]), "5 entries", "1 to 4"),
    (lambda: Config(width=30, heads=4), "heads=4", "width=30"),
    (lambda: Config(heads=4, kv_heads=3), "kv_heads=3", "heads=4"),
    (lambda: Config(head_size=3), "head_size=3", "even"),
    (lambda: Config(style="gpt"), "style='gpt'", "modern"),
    (lambda: Config(width=0), "width=0", ">= 1"),
    (lambda: flops.forward(Config(), 0), "length=0", ">= 1"),
    (lambda: flops.steps(1.0, 1e6), "budget=1", "one step"),
    (lambda: flops.training(Config(), 8, frozen=True), "frozen=True", "decoder_layers > 0"),
    (lambda: cost.proxy(1.0, 1.0, 1.1), "share=1.1", "[0, 1]"),
    (lambda: cost.break_even(1.0, 1.0, 0.0), "decoder=0.0", "more than 0"),
    (lambda: cost.decode_share(0, 0), "prompt=0", "not both 0"),
    (lambda: accept.numbers("widths", "32, x"), "widths='32, x'", "integers"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)


@pytest.mark.parametrize("keep", [4, -1, torch.tensor([[0, 3]]), torch.tensor([0])])
def test_a_refused_call_leaves_the_past_alone(keep):
    model = build(MODERN)
    with torch.no_grad():
        expected = model(ids())[0]
        cache = model(ids()[:, :10], None, 0)[1]
        with pytest.raises(BadParameter, match="logits_to_keep"):
            model(ids()[:, 10:13], cache, keep)
        assert cache.rows == [10] * 3
        found = model(ids()[:, 10:13], cache)[0]
    torch.testing.assert_close(found, expected[:, 10:13], atol=1e-5, rtol=0)


def test_generation_is_greedy_and_continues_the_past():
    model, whole = build(MODERN), ids(6)
    logits, cache = serve.prefill(model, whole)
    found = serve.generate(model, logits, cache, 4)
    for t in range(4):
        with torch.no_grad():
            assert torch.equal(found[:, t], model(whole)[0][:, -1].argmax(-1))
        whole = torch.cat([whole, found[:, t : t + 1]], 1)
    assert cache.rows == [10] * 3


def test_a_past_is_continued_in_place_and_copied_on_demand():
    model = build(MODERN)
    with torch.no_grad():
        _, cache = model(ids()[:, :10], None, 0)
        branch = cache.copy()
        first = model(ids()[:, 10:12], cache, 1)[0]
        assert cache.rows == [12] * 3 and branch.rows == [10] * 3
        model(ids(seed=9)[:, :3], branch, 1)
        torch.testing.assert_close(model(ids()[:, :12])[0][:, -1:], first, atol=1e-5, rtol=0)
    assert past.Past(2).bytes.__doc__ and tiny.TOLERANCE == 1e-5
