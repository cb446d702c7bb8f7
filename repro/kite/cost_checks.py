"""What must hold of FLOPs, bytes and the cost estimate (notes 5 and 6; vectors worked by hand)."""

import torch

from repro.kite import cost, flops
from repro.kite.config import Config
from repro.kite.tiny import STYLES, tiny, tokens

ORIGIN = Config(width=32, style="origin")


def parameters_by_hand() -> None:
    """The origin's variant has 43,648, grown 64,704, and 68,800 as four dense layers."""
    found = [ORIGIN.parameters(), ORIGIN.parameters(2)]
    found.append(Config(width=32, layers=4, style="origin").parameters())
    assert found == [43_648, 64_704, 68_800], f"parameters {found}"


def flops_by_hand() -> None:
    """At width 32 and 32 tokens: 73,728, 122,880 and 131,072 FLOPs a token; 17 and 28 steps."""
    dense = Config(width=32, layers=4, style="origin")
    each = [flops.forward(ORIGIN, 32, n, square=True) for n in (0, 2)]
    each.append(flops.forward(dense, 32, square=True))
    assert each == [73_728, 122_880, 131_072], f"FLOPs a token {each}"
    found = [flops.steps(30 * f, each[2]) for f in each[:2]]
    assert found == [17, 28], f"steps {found}"


def flops_are_the_counter_s() -> None:
    """With explicit attention a FLOP counter sees what the formulas say, in every mode."""
    from torch.utils.flop_counter import FlopCounterMode

    config, ids = STYLES["modern"], tokens(8)
    model = tiny().use_attention("explicit")
    with FlopCounterMode(display=False) as seen:
        logits, past = model(ids)
        logits.sum().backward()
    _counted(seen, 16 * flops.training(config, 8, 2, square=True), "training step")
    with torch.no_grad():
        with FlopCounterMode(display=False) as seen:
            _, past = model(ids, None, 1)
        _counted(seen, 2 * flops.prefill(config, 8, 2, square=True), "last-only prefill")
        with FlopCounterMode(display=False) as seen:
            model(ids[:, :1], past, 1)
        _counted(seen, 2 * flops.decode(config, 9, 2), "decoding one token")
    model.freeze_prefiller()
    with FlopCounterMode(display=False) as seen:
        model(ids)[0].sum().backward()
    _counted(seen, 16 * flops.training(config, 8, 2, square=True, frozen=True), "frozen step")


def _counted(seen, expected: float, what: str) -> None:
    found = seen.get_total_flops()
    assert found == expected, f"{what}: {found:,} counted, {expected:,.0f} by formula"


def prefill_ratio_tends_to_the_depth_ratio() -> None:
    """Dense over towers: rises with the prompt towards 2, stays below; decoding stays near 1."""
    small, deep = Config(width=512, heads=8), Config(width=512, layers=4, heads=8)
    ratios = [flops.prefill(deep, s) / flops.prefill(small, s, 2) for s in (1, 16, 256, 65_536)]
    assert ratios == sorted(ratios) and 1 <= ratios[0] and 1.99 < ratios[-1] < 2, f"{ratios}"
    decode = flops.decode(deep, 2048) / flops.decode(small, 2048, 2)
    assert 1 < decode < 1.15, f"decode ratio {decode:.3f}"


def kv_bytes_are_the_cache_s() -> None:
    """The cache holds the formula's bytes: the Prefiller's layers and nothing of the Decoder."""
    model = tiny()
    past = model(tokens())[1]
    expected = 24 * flops.kv_bytes(STYLES["modern"])
    assert past.bytes() == expected, f"{past.bytes()} bytes, {expected} by formula"
    assert len(past.keys) == 2, f"{len(past.keys)} layers cached"
    assert expected == 24 * 2 * 8 * 2 * 4, f"{expected} bytes for 24 tokens"


def break_even_by_hand() -> None:
    """Equal towers of 1.075B: even with 1.48B at a share of 0.377, with 2.02B at 0.879."""
    edges = [cost.break_even(a, 1.075, 1.075) for a in (1.48, 2.02)]
    assert [round(e, 3) for e in edges] == [0.377, 0.879], f"edges {edges}"
    for active, edge in zip((1.48, 2.02), edges, strict=True):
        assert abs(cost.proxy(1.075, 1.075, edge) - active) < 1e-12, "not even at the break-even"
    share = cost.implied_share(1.48 * (1 - 0.067), 1.075, 1.075)
    assert abs(share - 0.2845) < 5e-4, f"implied share {share:.4f}"
    assert cost.decode_share(300, 100) == 0.25, "100 of 400 tokens are a quarter"
    said = cost.told(1.48, 1.075, 1.075, 0.285)
    assert "6.7% cheaper" in said and "β* = 0.377" in said, said


CHECKS = {
    check.__name__: check
    for check in (
        parameters_by_hand,
        flops_by_hand,
        flops_are_the_counter_s,
        prefill_ratio_tends_to_the_depth_ratio,
        kv_bytes_are_the_cache_s,
        break_even_by_hand,
    )
}
