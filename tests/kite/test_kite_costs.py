"""FLOPs, bytes and cost against golden vectors, and identities between the formulas."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.kite import cost, flops
from repro.kite.config import Config
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/kite.json").read_text())
CONFIGS = st.builds(
    lambda layers, group, kv, size, width, hidden: Config(
        width, layers, group * kv, kv, 2 * size, hidden
    ),
    *[st.integers(1, n) for n in (6, 4, 3, 16, 96, 128)],
)


def test_flops_and_steps_of_the_public_run():
    golden = GOLDEN["flops"]
    small, deep = (Config(layers=n, **GOLDEN["parameters"]["config"]) for n in (2, 4))
    length, steps = golden["length"], golden["steps"]
    source, grown = (flops.forward(small, length, n, square=True) for n in (0, 2))
    dense = flops.forward(deep, length, square=True)
    assert [source, grown, dense] == [golden[k] for k in ("source", "grown", "dense4")]
    assert flops.steps(steps["first"] * source, dense) == steps["dense_first"]
    assert flops.steps(steps["second"] * grown, dense) == steps["dense_second"]
    assert flops.steps(steps["second"] * grown, source) == steps["source_second"]


def test_a_tiny_model_by_hand():
    golden = GOLDEN["small"]
    config = Config(**golden["config"])
    assert flops.forward(config, 3) == golden["forward_source_3"]
    assert flops.forward(config, 3, 1) == golden["forward_grown_3"]
    assert flops.forward(config, 3, 1, square=True) == golden["forward_grown_3_square"]
    assert flops.training(config, 3) == golden["training_source_3"]
    assert flops.prefill(config, 3, 1) == golden["prefill_3"]
    assert flops.decode(config, 3, 1) == golden["decode_3"]
    assert flops.kv_bytes(config) == golden["kv_bytes"]


@given(CONFIGS, st.integers(1, 512), st.integers(1, 6))
def test_identities(config, length, above):
    assert flops.prefill(config, 1, above) == flops.forward(config, 1, above)
    assert flops.prefill(config, length, above) <= flops.prefill(config, length, above, False)
    assert flops.prefill(config, length, above, last_only=False) == pytest.approx(
        sum(flops.decode(config, t, above) for t in range(1, length + 1))
    )
    deep = Config(**{**config.__dict__, "layers": config.layers + above})
    ratio = flops.prefill(deep, length) / flops.prefill(config, length, above)
    assert 1 <= ratio < deep.layers / config.layers or length == 1
    saved = flops.decode(deep, length) - flops.decode(config, length, above)
    assert saved == above * 4 * config.width * config.kv_heads * config.head_size
    frozen = flops.training(config, length, above, frozen=True)
    assert frozen < flops.training(config, length, above)


@given(CONFIGS, st.integers(1, 4096))
def test_traffic_is_not_halved(config, context):
    n = config.layers
    deep = Config(**{**config.__dict__, "layers": 2 * n})
    both = flops.decode_bytes(config, context, n)
    dense = flops.decode_bytes(deep, context)
    assert dense - both == 4 * n * 2 * config.width * config.kv_heads * config.head_size
    assert flops.decode_bytes(config, context, n, shared=True) < both
    assert 2 * flops.kv_bytes(config) == flops.kv_bytes(deep)


def test_break_even_table():
    paid = [active * (1 - saved) for active, saved in cost.PAPER.values()]
    assert abs(paid[0] - paid[1]) < 2e-3  # the two percentages are one number
    for row in GOLDEN["break_even"]:
        p, d = row["P"], row["D"]
        assert p + d == pytest.approx(cost.ACTIVE)
        assert cost.implied_share(1.381, p, d) == pytest.approx(row["implied"], abs=1e-3)
        assert cost.break_even(1.48, p, d) == pytest.approx(row["A1.48"], abs=6e-4)
        assert cost.break_even(2.02, p, d) == pytest.approx(row["A2.02"], abs=6e-4)


@given(st.floats(0.1, 3), st.floats(0.1, 3), st.floats(0.1, 3), st.floats(0, 1))
def test_every_percentage_comes_with_its_break_even(active, prefiller, decoder, share):
    said = cost.told(active, prefiller, decoder, share)
    assert "β*" in said and "%" in said
    edge = cost.break_even(active, prefiller, decoder)
    if abs(share - edge) > 1e-6:
        assert ("cheaper at a decode" in said) == (share < edge)


def test_widened_meets_the_cost():
    config = Config(width=64, heads=2)
    wanted = flops.forward(config, 128, 2)
    wide = flops.widened(config, wanted, 128)
    assert wide.hidden > config.hidden
    assert flops.forward(wide, 128) == pytest.approx(wanted, rel=0.005)
