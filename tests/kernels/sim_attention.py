"""Under the simulator: score recovery and paged decoding against float64, bytes, bad input."""

from collections import Counter

import numpy as np
import pytest
import torch

from kernels import paged_decode, paged_scores, traffic
from kernels.vector16 import SIMULATED

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1 (test_kernel_simulated.py does)"
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def case(seed, dtype=torch.float32, requests=2, actions=1, group=2, heads=1, dim=16, size=16):
    """Ragged requests over a shuffled pool, as the keyword arguments of `recover_`."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    width = 80 // size
    blocks = requests * width + 2
    visible = rng.integers(3, width * size - actions, (requests, 1)) + np.arange(actions)
    q_heads = heads * group
    return dict(
        out=torch.rand(requests, heads, width * size),
        queries=torch.randn(requests, actions, q_heads, dim).to(dtype),
        lse=torch.randn(requests, actions, q_heads) + 3,
        keys=torch.randn(blocks, size, heads, dim).to(dtype),
        table=torch.from_numpy(rng.permutation(blocks)[: requests * width].reshape(requests, -1)),
        visible=torch.from_numpy(visible),
        folded=torch.from_numpy(rng.integers(0, 3, requests)),
    )


def assert_recovered(given):
    expected = paged_scores.recover_reference(**given)
    plain = given | dict(out=given["out"].clone())
    paged_scores.recover_torch(**plain)
    paged_scores.recover_(**given)
    assert np.abs(given["out"].numpy() - expected).max() < 2e-5
    assert np.abs(plain["out"].numpy() - expected).max() < 2e-5


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_token(dtype):
    assert_recovered(case(1, dtype))


@pytest.mark.parametrize("group", [1, 3, 5])  # below, at odds with and above the quad
def test_groups(group):
    assert_recovered(case(2, torch.float16, requests=1, group=group, heads=2))


def test_whole_round_with_padding():
    given = case(3, torch.bfloat16, actions=3)
    given["visible"][1, 2] = 0
    assert_recovered(given)


def test_padding_may_hold_any_log_sum_exp():
    given = case(15, actions=2)
    given["visible"][0, 1], given["lse"][0, 1] = 0, torch.inf
    paged_scores.recover_(**given)
    assert given["out"].isfinite().all()


def test_one_pass_equals_steps():
    given = case(4, actions=3, group=3)
    given["folded"][:] = 0
    given["out"].zero_()
    steps = given["out"].clone()
    for token in range(3):
        one = {k: given[k][:, token : token + 1] for k in ("queries", "lse", "visible")}
        paged_scores.recover_(**given | one | dict(out=steps, folded=torch.full((2,), token)))
    paged_scores.recover_(**given)
    assert torch.allclose(given["out"], steps, atol=1e-6)


def test_other_layout_block_size_and_scale():
    given = case(5, size=4, heads=2, dim=24)
    given["keys"] = given["keys"].transpose(1, 2).contiguous().transpose(1, 2)
    assert_recovered(given | dict(scale=0.3))


def test_first_token_ignores_what_was_there():
    given = case(6, requests=1)
    given["folded"][:] = 0
    given["out"][:] = torch.nan
    paged_scores.recover_(**given)
    n = int(given["visible"].max())
    assert given["out"][..., :n].isfinite().all() and given["out"][..., n:].isnan().all()


def counting(monkeypatch, module):
    seen = Counter()
    load = module.load_global

    def counted(array, at):
        seen[array.size, int(at)] += 1
        return load(array, at)

    monkeypatch.setattr(module, "load_global", counted)
    return seen


def test_scores_read_each_key_once(monkeypatch):
    seen = counting(monkeypatch, paged_scores)
    given = case(7, torch.float16, requests=1, actions=2, heads=2)
    paged_scores.recover_(**given)
    size = given["keys"].numel() // 2  # as 32-bit words
    keys = {at: n for (words, at), n in seen.items() if words == size}
    queries = {at for (words, at) in seen if words != size}
    assert set(keys.values()) == {1}
    geometry = traffic.Geometry(4, 2, 16, layers=1)
    slots = int(given["visible"].max())
    counted = 16 * (len(keys) + len(queries)) + given["lse"].nbytes
    mean = 4 * geometry.heads * slots  # fp32, written
    assert counted + mean == traffic.score_recovery_one_pass(slots, geometry, actions=2)


def attention(seed, dtype, group=2, dim=16, heads=1, size=16):
    given = case(seed, dtype, group=group, heads=heads, dim=dim, size=size)
    lengths = torch.tensor([int(given["visible"][0, 0]), 80])
    values = torch.randn_like(given["keys"])
    return given["queries"][:, 0], given["keys"], values, given["table"], lengths


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("group", "dim", "heads"), [(1, 16, 2), (5, 32, 1)])
def test_decode(dtype, group, dim, heads):
    args = attention(8, dtype, group, dim, heads)
    expected = paged_decode.decode_reference(*args)
    for found, wanted in zip(paged_decode.decode(*args, chunk=64), expected, strict=True):
        assert np.abs(found.numpy() - wanted).max() < 2e-6


def test_decode_does_not_depend_on_the_chunk():
    args = attention(9, torch.float32)
    one, two = paged_decode.decode(*args, chunk=128), paged_decode.decode(*args, chunk=64)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(one, two, strict=True))


def test_recovered_from_decode_sums_to_one():
    queries, keys, values, table, lengths = attention(10, torch.float32, group=1)
    _, lse = paged_decode.decode(queries, keys, values, table, lengths, chunk=64)
    out = torch.zeros(2, 1, 80)
    folded = torch.zeros(2, dtype=torch.int32)
    paged_scores.recover_(
        out, queries[:, None], lse[:, None], keys, table, lengths[:, None], folded
    )
    assert torch.allclose(out.sum(-1), torch.ones(2, 1), atol=1e-5)


def test_decode_reads_only_slots_in_use(monkeypatch):
    seen = counting(monkeypatch, paged_decode)
    queries, keys, values, table, _ = attention(11, torch.float16, heads=2)
    lengths = torch.tensor([37, 70])
    paged_decode.decode(queries, keys, values, table, lengths, chunk=64)
    geometry = traffic.Geometry(4, 2, 16, layers=1)
    size = keys.numel() // 2
    # K and V pools have the same size and addresses; a place read for both counts twice below.
    places = {at for (words, at) in seen if words == size}
    assert 2 * 16 * len(places) == int(lengths.sum()) * geometry.row


GOOD = case(12)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (dict(keys=GOOD["keys"].numpy()), TypeError, "keys=ndarray"),
        (dict(keys=GOOD["keys"].double()), TypeError, r"keys\.dtype"),
        (dict(keys=GOOD["keys"].to("meta")), ValueError, "keys is on meta"),
        (dict(keys=GOOD["keys"].transpose(2, 3)), ValueError, "keys has stride"),
        (dict(queries=GOOD["queries"].half()), TypeError, r"queries\.dtype"),
        (dict(queries=GOOD["queries"][..., :8]), ValueError, "queries has shape"),
        (dict(keys=torch.zeros(12, 16, 4, 16)), ValueError, "queries have 2 heads"),
        (dict(lse=GOOD["lse"].double()), TypeError, r"lse\.dtype"),
        (dict(lse=GOOD["lse"][:, :, :1]), ValueError, "lse has shape"),
        (dict(lse=GOOD["lse"] * torch.nan), ValueError, "lse holds NaN"),
        (dict(lse=GOOD["lse"] + torch.inf), ValueError, "lse holds NaN or infinity"),
        (dict(out=GOOD["out"][..., :16]), ValueError, "out has shape"),
        (dict(out=GOOD["out"].transpose(1, 2)), ValueError, "out has shape"),
        (dict(table=GOOD["table"] + 99), ValueError, "table has values"),
        (dict(table=GOOD["table"] - 20), ValueError, "table has values"),
        (dict(table=GOOD["table"].float()), TypeError, r"table\.dtype"),
        (dict(visible=GOOD["visible"] + 80), ValueError, "visible has values"),
        (dict(visible=GOOD["visible"][:1]), ValueError, "visible has shape"),
        (dict(folded=GOOD["folded"] - 3), ValueError, "folded has values"),
        (dict(folded=GOOD["folded"].to("meta")), ValueError, "folded is on meta"),
    ],
)
def test_bad_score_input_is_named(change, error, named):
    with pytest.raises(error, match=named):
        paged_scores.recover_(**GOOD | change)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (dict(keys=GOOD["keys"].half(), values=GOOD["keys"].half()), TypeError, r"queries\.dtype"),
        (dict(values=GOOD["keys"].half()), TypeError, "values is torch.float16"),
        (dict(queries=3), TypeError, "queries=int"),
        (dict(values=GOOD["keys"][:-1]), ValueError, "values has shape"),
        (dict(queries=GOOD["queries"]), ValueError, "queries has shape"),
        (dict(queries=GOOD["queries"][:1, 0]), ValueError, "table has shape"),
        (dict(lengths=torch.tensor([0, 4])), ValueError, "lengths has values"),
        (dict(lengths=torch.tensor([4, 99])), ValueError, "lengths has values"),
        (dict(chunk=40), ValueError, "chunk=40"),
        (dict(table=GOOD["table"] + 9), ValueError, "table has values"),
    ],
)
def test_bad_decode_input_is_named(change, error, named):
    given = dict(
        queries=GOOD["queries"][:, 0],
        keys=GOOD["keys"],
        values=GOOD["keys"],
        table=GOOD["table"],
        lengths=torch.tensor([4, 5]),
    )
    with pytest.raises(error, match=named):
        paged_decode.decode(**given | change)


def test_nan_is_not_hidden():
    given = case(13, requests=1, group=3)
    given["keys"][given["table"][0, 0], 1] = torch.nan
    paged_scores.recover_(**given)
    assert given["out"][..., 1].isnan().all() and given["out"][..., 0].isfinite().all()
    queries, keys, values, table, lengths = attention(14, torch.float32)
    keys[table[1, 4], 15] = torch.nan
    found = paged_decode.decode(queries, keys, values, table, lengths, chunk=64)
    assert all(x[0].isfinite().all() and x[1].isnan().all() for x in found)
