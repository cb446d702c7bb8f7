import json
import re

import pytest
import torch

from repro.deltas import cost, delta, drift
from repro.deltas.drift_checks import HAND, case
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/deltas.json").read_text())


def test_the_step_by_hand():
    step = GOLDEN["step"]
    before = torch.tensor(step["before"])[None, None]
    k, v = (torch.tensor(step[n])[None, None, None] for n in "kv")
    log_decay = torch.tensor(step["decay"]).log().reshape(1, 1, 1)
    beta = torch.full((1, 1, 1), step["beta"])
    for rule in (delta.recurrent, delta.chunked):
        _, after, committed = rule(k, k, v, log_decay, beta, before)
        torch.testing.assert_close(after[0, 0], torch.tensor(step["after"]), atol=1e-5, rtol=0)
        assert committed.item() ** 2 == pytest.approx(step["residual_squared"], rel=1e-5)
    assert drift.drift([before], [after]).item() ** 2 == pytest.approx(
        step["drift_squared"], rel=1e-5
    )
    write = drift.write_drift([before], [after], [log_decay]).item()
    assert write**2 == pytest.approx(step["write_drift_squared"], rel=1e-5)
    found = drift.decay_drift([before], [log_decay]).item()
    assert found == pytest.approx(step["decay_drift"], rel=1e-5)
    assert HAND["after"] == step["after"]  # the page shows the same example


def test_pooling_by_hand():
    pool = GOLDEN["pooling"]
    before, after = (torch.tensor(pool[n]).reshape(1, 2, 1, 1) for n in ("before", "after"))
    for reduce in drift.REDUCE:
        assert drift.drift([before], [after], reduce).item() == pytest.approx(pool[reduce])
    first = drift.drift([0 * before], [after]).item()
    assert first * GOLDEN["eps"] == pytest.approx(52**0.5, rel=1e-5)  # |(6, 4)|
    floored = drift.drift([0 * before], [after], eps=1.0).item()
    assert floored == pytest.approx(52**0.5, rel=1e-5)


@pytest.mark.parametrize("tokens", GOLDEN["lengths"])
@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_both_forms_are_those_of_transformers(tokens, strength):
    from transformers.models.qwen3_5 import modeling_qwen3_5 as library

    q, k, v, g, beta, state = case(tokens, strength, seed=tokens, dim=8)
    expected = library.torch_recurrent_gated_delta_rule(
        q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )  # fmt: skip
    for rule in (delta.recurrent, delta.chunked):
        found = rule(q, k, v, g, beta, state)
        for a, b in zip(found, expected, strict=False):
            torch.testing.assert_close(a, b, atol=3e-6, rtol=1e-4)
    one, many = delta.recurrent(q, k, v, g, beta, state), delta.chunked(q, k, v, g, beta, state)
    torch.testing.assert_close(many[2], one[2], atol=1e-5, rtol=1e-4)  # residuals


def test_nothing_changes_its_arguments():
    q, k, v, g, beta, state = case(4)
    kept = state.clone()
    delta.recurrent(q, k, v, g, beta, state), delta.chunked(q, k, v, g, beta, state)
    assert torch.equal(state, kept)
    states = [state]
    copies = drift.copied(states)
    copies[0].zero_()
    assert torch.equal(state, kept)


def test_half_precision_states_are_compared_in_float32():
    before = torch.full((1, 1, 4, 4), 1.0, dtype=torch.bfloat16)
    after = before.clone()
    after[0, 0, 0, 0] = 1.0078125  # the next bfloat16 number
    found = drift.drift([before], [after])
    assert found.dtype == torch.float32 and found.item() == pytest.approx(0.0078125 / 4)


def test_residual_is_a_mean_over_layers_and_heads():
    one, other = torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[6.0, 8.0]]])
    assert drift.residual([one, other]).tolist() == [[4.5]]


def test_costs_are_those_of_the_notes():
    want, stack = GOLDEN["costs"], cost.Stack()
    assert stack.state_numbers == want["state_numbers"]
    assert stack.state_bytes() == want["state_mib_fp32"] * 2**20
    assert stack.state_bytes(2) == want["state_mib_16bit"] * 2**20
    assert stack.kv_bytes() == want["kv_kib_a_token"] * 2**10
    assert stack.state_bytes() / stack.kv_bytes() == want["state_in_tokens_fp32"]
    assert stack.state_bytes(2) / stack.kv_bytes() == want["state_in_tokens_16bit"]
    assert stack.kv_bytes(want["hour_tokens"]) / 2**30 == pytest.approx(want["hour_gib"], rel=5e-3)
    assert stack.signal_flops() / 1e6 == pytest.approx(want["signal_mflop"], rel=5e-3)
    assert stack.signal_bytes() / 1e6 == pytest.approx(want["signal_mb"], rel=5e-3)
    assert stack.forward_flops(128) / 1e12 == pytest.approx(want["forward_tflop_128"], rel=5e-3)
    for tokens, percent in want["share"].items():
        assert 100 * stack.share(int(tokens)) == pytest.approx(percent, rel=0.06)


GOOD = torch.ones(1, 2, 3, 3)
GATES = torch.zeros(1, 4, 2)
NAN = GOOD.clone()
NAN[0, 0, 0, 0] = torch.nan
BAD = [
    (lambda: drift.drift([], []), "before has 0 layers", "at least one"),
    (lambda: drift.drift([GOOD], [GOOD, GOOD]), "after 2", "equally many"),
    (lambda: drift.drift([GOOD], [GOOD[:, :1]]), "after[0] has shape [1, 1, 3, 3]", "[B, H"),
    (lambda: drift.drift([GOOD[0]], [GOOD[0]]), "before[0] has shape [2, 3, 3]", "[B, H"),
    (lambda: drift.drift([GOOD], [NAN]), "after[0] holds NaN", "finite"),
    (lambda: drift.drift([NAN], [GOOD]), "before[0] holds NaN", "finite"),
    (lambda: drift.drift([GOOD], [GOOD], "sum"), "reduce='sum'", "layer"),
    (lambda: drift.drift([GOOD], [GOOD], eps=0), "eps=0", "above 0"),
    (lambda: drift.write_drift([GOOD], [GOOD], []), "log_decay has 0 layers", "1, as"),
    (lambda: drift.decay_drift([GOOD], [GATES[..., :1]]), "log_decay[0]", "[1, T, 2]"),
    (lambda: drift.residual([]), "committed is empty", "[B, T, H]"),
    (lambda: delta.chunked(*case(3), chunk=0), "chunk=0", "at least 1"),
    (lambda: delta.recurrent(*(x[:, :0] for x in case(3)[:5])), "q, k, v have", "T at least 1"),
    (lambda: delta.recurrent(*case(3)[:3], GATES, GATES), "log_decay has shape", "as k"),
    (lambda: delta.recurrent(*case(3)[:5], GOOD), "state has shape", "[2, 2, 4, 4]"),
    (lambda: cost.Stack().share(0), "tokens=0", "at least 1"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
