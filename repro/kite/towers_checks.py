"""What must hold of both towers: tiny models, milliseconds.

Sources: arXiv 2609.27294 by its public readers, and the tests of the project's notes, 3.4. All is
reached through its module, so that a planted fault is seen.
"""

import torch

from repro.kite import cost_checks, growth, rows, serving_checks
from repro.kite.config import Config
from repro.kite.model import SST
from repro.kite.tiny import STYLES, near, refused, tiny, tokens


def _kv(model: SST, ids: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        past = model(ids)[1]
    return [t.clone() for t in (*past.keys, *past.values)]


def kv_stays_bitwise_at_the_boundary() -> None:
    """Growing leaves every key and every value as it was, bit for bit."""
    for style in STYLES:
        for init in ("copy", "random"):
            model = tiny(style, grown=False)
            before = _kv(model, tokens())
            model.expand(init)
            same = map(torch.equal, before, _kv(model, tokens()))
            assert all(same), f"{style}, {init}: the KV changed"


def random_decoder_changes_logits_and_no_kv() -> None:
    """Other Decoder weights give other logits and the same KV, bit for bit."""
    model = tiny()
    before, logits = _kv(model, tokens()), model(tokens())[0]
    with torch.no_grad():
        for weight in model.decoder_parameters():
            weight.normal_()
    assert all(map(torch.equal, before, _kv(model, tokens()))), "the KV changed"
    assert not torch.allclose(logits, model(tokens())[0], atol=1e-2), "the logits did not change"


def no_gradient_from_kv_to_the_decoder() -> None:
    """The KV has no gradient in any Decoder weight; the loss reaches W_K through the Decoder."""
    model = tiny()
    logits, past = model(tokens())
    used = list(model.decoder_parameters())
    assert used, "there is no Decoder"
    written = sum(t.square().sum() for t in (*past.keys, *past.values))
    grads = torch.autograd.grad(written, used, retain_graph=True, allow_unused=True)
    assert all(g is None or not g.any() for g in grads), "a Decoder weight moves the KV"
    logits.square().sum().backward()
    top = model.prefiller[-1]  # its output is read by the junction; its keys by the Decoder
    for name, weight in (("W_K", top.key.weight), ("W_V", top.value.weight)):
        assert weight.grad is not None and weight.grad.any(), f"no gradient in {name}"
    assert model.decoder[0].query.weight.grad.any(), "no gradient in the Decoder's W_Q"


def the_past_decides_nothing_earlier() -> None:
    """Changing token t changes no logit before t, and the one at t."""
    model, ids = tiny(), tokens()
    other = ids.clone()
    other[:, 7] = (other[:, 7] + 1) % 31
    a, b = model(ids)[0], model(other)[0]
    near(a[:, :7], b[:, :7], "logits before the change")
    assert not torch.allclose(a[:, 7], b[:, 7], atol=1e-3), "the changed token is not seen"


def a_position_reads_its_own_key() -> None:
    """The Decoder at t reads slot t: with one token its attention is that token's value."""
    model = tiny()
    with torch.no_grad():
        logits, past = model(tokens(1))
        e = model.embedding(tokens(1))
        h = e
        for block in model.prefiller:
            value = block.value(block.attention_norm(h))
            h = _after(block, h, value)
        z = e / (e.square().mean(-1, keepdim=True) + 1e-5) ** 0.5
        z = z + h / (h.square().mean(-1, keepdim=True) + 1e-5) ** 0.5
        for block, value in zip(model.decoder, past.values, strict=True):
            z = _after(block, z, value.transpose(1, 2).flatten(2))
        near(logits, model.head(model.norm(z)), "logits of one token, by hand")


def _after(block, stream: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A block for one token: attention is the value, once for each query head."""
    stream = stream + block.out(value.repeat(1, 1, block.config.heads))
    u = block.ffn_norm(stream)
    gate = block.ffn.gate(u)
    return stream + block.ffn.down(gate * torch.sigmoid(gate) * block.ffn.up(u))


def layers_read_their_own_map() -> None:
    """Decoder layer l reads the KV of layer pi(l): spoiling another layer's KV is not seen."""
    torch.manual_seed(0)
    model = SST(Config(width=16, layers=3, vocab=31))
    model.expand(layer_map=(2, 0))
    with torch.no_grad():
        _, past = model(tokens(6), None, 0)
        e, positions = model.embedding(tokens(6)), rows.starts([0, 0], 6, torch.device("cpu"))
        expected = model.decode(e, e, past, 6, positions, "causal")
        for layer, is_read in enumerate((True, False, True)):
            other = past.copy()
            other.values[layer] += 1
            found = model.decode(e, e, other, 6, positions, "causal")
            assert torch.equal(found, expected) != is_read, f"KV of layer {layer}"
        swapped = past.copy()
        swapped.values[0], swapped.values[2] = swapped.values[2], swapped.values[0]
        swapped.keys[0], swapped.keys[2] = swapped.keys[2], swapped.keys[0]
        model.layer_map = (0, 2)
        near(model.decode(e, e, swapped, 6, positions, "causal"), expected, "layers renamed")


def copied_parts_are_copies() -> None:
    """The Decoder starts from norms, W_Q, W_O and FFN of its layer, as parameters of its own."""
    model = tiny()
    for source, block in zip(model.prefiller, model.decoder, strict=True):
        names = set(block.state_dict())
        gone = {"key.weight", "value.weight"}
        assert names == set(source.state_dict()) - gone, f"the Decoder has {sorted(names)}"
        for name, value in block.state_dict().items():
            assert torch.equal(value, source.state_dict()[name]), f"{name} is not copied"
    groups = (model.prefiller_parameters, model.decoder_parameters, model.shared_parameters)
    ids = [{id(p) for p in group()} for group in groups]
    assert sum(map(len, ids)) == len(set().union(*ids)), "a parameter is in two groups"
    assert set().union(*ids) == {id(p) for p in model.parameters()}, "a parameter is in no group"


def grown_once_only() -> None:
    """A second expansion is refused."""
    refused(lambda: tiny().expand(), "a second expansion")
    refused(lambda: growth.stacked(tiny()), "stacking a grown model")


CHECKS = {
    check.__name__: check
    for check in (
        kv_stays_bitwise_at_the_boundary,
        random_decoder_changes_logits_and_no_kv,
        no_gradient_from_kv_to_the_decoder,
        the_past_decides_nothing_earlier,
        a_position_reads_its_own_key,
        layers_read_their_own_map,
        copied_parts_are_copies,
        grown_once_only,
    )
}
CHECKS |= serving_checks.CHECKS | cost_checks.CHECKS
