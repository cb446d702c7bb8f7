"""What must hold of the arms that are timed and of the predictions (notes 5, 8 and 9.2).

Nothing here is timed on this machine. How laps are taken is checked in `stopwatch_checks`.
"""

from itertools import pairwise

import torch
from torch.utils.flop_counter import FlopCounterMode

from repro.kite import flops, latency, stopwatch_checks, study_latency, variants
from repro.kite.config import Config
from repro.kite.tiny import near

TINY = Config(width=16, heads=4, kv_heads=1, vocab=31)
SHALLOW = Config(width=16, layers=1, heads=4, kv_heads=1, vocab=31)  # counting is slow
PROMPT = 9
LARGE = Config(width=1024, layers=8, heads=16, kv_heads=4, hidden=2816, vocab=32_000)
LARGEST = Config(
    width=4096, layers=16, heads=32, kv_heads=8, head_size=128, hidden=14_336, vocab=128_256
)


def roofline_by_hand() -> None:
    """Width 1024, 8 + 8 layers, 8,192 tokens: 1.98, eager 1.88 on an A30; 1.97, 1.46 on an H200."""
    wanted = {"A30": (1.98, 1.88, 1.98), "H200": (1.97, 1.46, 1.91)}
    for name, expected in wanted.items():
        found = [_ratio(LARGE, 8192, name, k) for k in (0, latency.EAGER, latency.GRAPH)]
        assert _close(found, expected), f"{name}: {found}, by hand {expected}"


def short_prompts_pay_for_the_decoder_s_weights() -> None:
    """Width 4096 at 256 tokens: 1.40, 1.45, 1.33, far below 2; at 2,048 about 1.90."""
    names = ("A30", "A100-80", "H200")
    short, long = ([_ratio(LARGEST, s, name, 0) for name in names] for s in (256, 2048))
    assert _close(short, (1.40, 1.45, 1.33)), f"at 256 tokens {short}"
    assert _close(long, (1.90, 1.91, 1.88)), f"at 2,048 tokens {long}"


def launches_hide_the_ratio_at_width_32() -> None:
    """The negative control: 1.00 with launches, eager or replayed; FLOPs and bytes say 1.27."""
    small = Config(width=32, vocab=256)
    found = [_ratio(small, 256, "A30", k) for k in (0, latency.EAGER, latency.GRAPH)]
    assert _close(found, (1.27, 1.00, 1.00)), f"width 32, 256 tokens, A30: {found}"


def least_sizes_by_hand() -> None:
    """Eager: 3,148 tokens at width 512, width 2,732 to decode (A30); 18,864 and 6,196 (H200)."""
    for name, prompt, width in (("A30", 3147.1, 2732.0), ("H200", 18863.7, 6196.8)):
        card = latency.cards()[name]
        found = latency.least_prompt(512, card, latency.EAGER)
        assert abs(found - prompt) < 0.1, f"{name}: least prompt {found:.1f}"
        found = latency.least_width(card, latency.EAGER)
        assert abs(found - width) < 0.1, f"{name}: least width {found:.1f}"
        found = latency.even_prompt(card)
        assert abs(found - {"A30": 110, "H200": 129}[name]) < 1, f"{name}: even at {found:.1f}"


def ideals_rise_to_the_depth_ratio() -> None:
    """FLOPs, dense over SST: prefill rises towards 2 and stays below; decoding is 1.00 to 1.03."""
    lengths = (1, 8, 64, 1024, 65_536)
    found = [latency.ideal(LARGE, s) for s in lengths]
    assert all(a < b for a, b in pairwise(found)) and 1.99 < found[-1] < 2, f"prefill {found}"
    decode = [latency.ideal(LARGE, s, "decode") for s in lengths]
    assert all(1 < r < 1.03 for r in decode), f"decode {decode}"


def arms_do_the_work_of_the_formulas() -> None:
    """A FLOP counter sees in each arm, as served and as fixed steps, what the formulas say."""
    arms, ids = _arms(SHALLOW)
    for name, (layers, above, last) in _MEANT.items():
        meant = Config(**{**SHALLOW.__dict__, "layers": layers})
        expected = flops.prefill(meant, PROMPT, above, last, square=True)
        for variant in ("served", "eager"):
            call = study_latency.prefill_makers({name: arms[name]}, ids, variant)[name]()
            _counted(call, expected, f"{name}, {variant}, prompt")
    for name in study_latency.DECODED:
        layers, above, _ = _MEANT[name]
        meant = Config(**{**SHALLOW.__dict__, "layers": layers})
        for variant, reads in (("served", PROMPT + 2), ("eager", PROMPT + 1)):
            call = study_latency.decode_makers({name: arms[name]}, ids, variant)[name]()
            _counted(call, flops.decode(meant, reads, above), f"{name}, {variant}, token")


_MEANT = {
    study_latency.DENSE: (2, 0, True),
    study_latency.TOWERS: (1, 1, True),
    study_latency.EVERYWHERE: (1, 1, False),
    study_latency.SOURCE: (1, 0, True),
}


def arms_have_equal_layers() -> None:
    """Every layer of every arm has the sizes of the source's, W_K and W_V of the Decoder apart."""
    arms, _ = _arms()
    wanted = _shapes(arms[study_latency.SOURCE].model.prefiller[0])
    for name, arm in arms.items():
        for block in arm.model.prefiller:
            assert _shapes(block) == wanted, f"{name}: layers {_shapes(block)}, wanted {wanted}"
        for block in arm.model.decoder:
            part = {k: s for k, s in wanted.items() if k not in ("key.weight", "value.weight")}
            assert _shapes(block) == part, f"{name}: Decoder layers {_shapes(block)}"


def caches_hold_the_prefiller_s_layers() -> None:
    """After a prompt the cache is what the formula says: the Decoder adds nothing to it."""
    arms, ids = _arms(SHALLOW)
    for name, (layers, _, _) in _MEANT.items():
        meant = Config(**{**SHALLOW.__dict__, "layers": layers})
        found = study_latency.prefilled(arms[name], ids)[1].bytes()
        expected = PROMPT * flops.kv_bytes(meant)
        assert found == expected, f"{name}: {found} bytes cached, {expected} by formula"


def fixed_steps_are_the_model() -> None:
    """The steps that are compiled and captured give the served model's logits, repeated too."""
    arms, ids = _arms()
    for name, arm in arms.items():
        logits, past = study_latency.prefilled(arm, ids)
        step = variants.Prefill(arm.model, PROMPT, arm.keep is not None)
        with torch.no_grad():
            found, kept = step(ids)
            near(found, logits[:, -1], f"{name}, prompt")
            assert len(kept) == len(past.keys), f"{name}: {len(kept)} layers kept"
            token = variants.Decode(arm.model, kept)
            token(ids[:, :1])
            expected = arm.model(ids[:, 1:2], past.copy(), 1)[0][:, 0]
            near(token(ids[:, 1:2]), expected, f"{name}, token")


def verdicts_by_hand() -> None:
    """A ratio above its ideal in every repeat is an error; one repeat above it is not; nor is 2."""
    good = {64: [1.3, 1.5], 256: [1.6, 1.7], 1024: [1.99, 1.9]}
    ideals = {64: 1.97, 256: 1.99, 1024: 1.98}
    assert not latency.judge(good, ideals, 2).error, "growing ratios are called an error"
    over = latency.judge(good | {1024: [2.0, 2.1]}, ideals, 2)
    assert over.above == (1024,), f"2.0 and 2.1 against 1.98: {over}"
    fallen = latency.judge(good | {256: [1.1, 1.2]}, ideals, 2)
    assert fallen.falls == (256,), f"from 1.3 to 1.2: {fallen}"
    flat = latency.judge({64: [1.0, 1.0], 1024: [1.0, 1.0]}, ideals, 2)
    assert flat.error and not flat.nearer, f"a ratio that does not grow: {flat}"


def decode_verdicts_by_hand() -> None:
    """Token times: about the ideal is even, as launches explain is told; the rest are errors."""
    cases = {
        "even": [0.99, 1.01, 1.05],
        "bound by launches": [1.05, 1.08, 1.12],
        "above both, not in every repeat": [1.05, 1.2, 1.2, 1.2, 1.2],
        "**an error**: a gain": [1.3, 1.4, 1.5],
        "**an error**: dense is quicker": [0.8, 0.9, 0.95],
    }
    found = [latency.read_decode(ratios, 1.02, 1.09) for ratios in cases.values()]
    assert found == list(cases), f"{found}"


def _arms(config: Config = TINY) -> tuple[dict[str, study_latency.Arm], torch.Tensor]:
    arms = study_latency.arms(config, 5, kind="explicit")
    return arms, study_latency.prompt_ids(config, PROMPT, 5)


def _shapes(block: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in block.named_parameters()}


def _counted(call, expected: float, what: str) -> None:
    with FlopCounterMode(display=False) as seen:
        call()
    found = seen.get_total_flops()
    assert found == expected, f"{what}: {found:,} FLOPs counted, {expected:,.0f} by formula"


def _ratio(config: Config, prompt: int, name: str, per_layer: float) -> float:
    return latency.ratio(config, prompt, latency.cards()[name], per_layer)


def _close(found: list[float], expected: tuple[float, ...]) -> bool:
    return all(abs(a - b) < 0.0051 for a, b in zip(found, expected, strict=True))


CHECKS = {
    check.__name__: check
    for check in (
        roofline_by_hand,
        short_prompts_pay_for_the_decoder_s_weights,
        launches_hide_the_ratio_at_width_32,
        least_sizes_by_hand,
        ideals_rise_to_the_depth_ratio,
        arms_do_the_work_of_the_formulas,
        arms_have_equal_layers,
        caches_hold_the_prefiller_s_layers,
        fixed_steps_are_the_model,
        verdicts_by_hand,
        decode_verdicts_by_hand,
    )
} | stopwatch_checks.CHECKS
