import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter
from repro.mad_rl import advantages, combine, divergences, rewards
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/mad_rl.json").read_text())
NAMES = st.sampled_from(divergences.NAMES)
GROUPS = st.lists(st.integers(-1, 3), min_size=2, max_size=20)
FLAT = (0.25, 0.25, 0.25, 0.25)


@pytest.mark.parametrize("case", GOLDEN["rewards"], ids=lambda c: c["divergence"])
def test_worked_values(case):
    options = {"epsilon": case["epsilon"], "clip": 99} if "epsilon" in case else {}
    found = rewards.group(case["divergence"], case["categories"], GOLDEN["target"], **options)
    assert round(found[case["at"]], case["digits"]) == case["value"]


def test_ranges_and_forbidden_categories():
    golden = GOLDEN["ranges"]
    t, size = golden["t"], golden["G"]
    for name in ("forward_kl", "js"):
        rarest = rewards.by_category(name, [1 / size, 1 - 1 / size], [t, 1 - t])[0]
        assert rarest == pytest.approx(golden[name][1], abs=1e-6)
    for name in ("l2", "forward_kl", "js"):
        lowest = rewards.by_category(name, [1.0, 0.0], [0.0, 1.0])[0]
        assert lowest == pytest.approx(golden[name][0], abs=1e-6)
        asked = GOLDEN["forbidden"][name]
        found = rewards.by_category(name, [0.4, 0.6], [0.0, 1.0])[0]
        assert found == pytest.approx(-0.4 if asked == "-f" else asked, abs=5e-4)
    assert rewards.by_category("reverse_kl", [0.4, 0.6], [0.0, 1.0])[0] == -np.inf


def test_pooled_and_per_prompt():
    golden, target = GOLDEN["pooled"], GOLDEN["target"]
    n = np.array(golden["counts"])
    pooled = divergences.divergence("js", n / n.sum(), target)
    each = divergences.divergence("js", np.eye(5)[[0, 2]], np.tile(target, (2, 1)))
    assert pooled == pytest.approx(golden["pooled"], abs=5e-5)
    assert each == pytest.approx(golden["each"], abs=5e-4)
    assert each.mean() == pytest.approx(golden["mean"], abs=5e-4)


def test_sampling_floor_against_the_simulated_one():
    golden, rng = GOLDEN["floor"], np.random.default_rng(0)
    t = np.full(golden["K"], 1 / golden["K"])
    for size, simulated in zip(golden["N"], golden["simulated"], strict=True):
        f = rng.multinomial(size, t, 4000) / size
        found = divergences.divergence("js", f, np.broadcast_to(t, f.shape)).mean()
        assert found == pytest.approx(simulated, abs=0.002)
        if size >= 16:
            assert divergences.sampling_floor(golden["K"], size) == pytest.approx(found, rel=0.15)


def test_chance_of_no_signal():
    golden = GOLDEN["no_signal"]
    for share, row in golden["share"].items():
        found = advantages.chance_of_no_signal(float(share), np.array(golden["groups"]))
        assert found == pytest.approx(row, abs=0.0051)


@settings(max_examples=40)
@given(NAMES, GROUPS, st.randoms())
def test_order_of_samples_and_names_of_categories_do_not_matter(name, group, random):
    base = rewards.group(name, group, (0.4, 0.3, 0.2, 0.1))
    order = random.sample(range(len(group)), len(group))
    shuffled = rewards.group(name, np.array(group)[order], (0.4, 0.3, 0.2, 0.1))
    assert shuffled == pytest.approx(base[order])
    names = np.array(random.sample(range(4), 4) + [-1])  # the last: invalid stays invalid
    target = np.zeros(4)
    target[names[:4]] = (0.4, 0.3, 0.2, 0.1)
    assert rewards.group(name, names[group], target) == pytest.approx(base)


@settings(max_examples=40)
@given(NAMES, GROUPS, st.booleans(), st.sampled_from(rewards.INVALID_RULES))
def test_rewards_are_finite_and_equal_within_a_category(name, group, other, rule):
    found = rewards.group(name, group, (0.6, 0.4, 0.0, 0.0), leave_one_out=other, invalid=rule)
    assert np.isfinite(found).all() and (np.abs(found) <= rewards.CLIP).all()
    for category in set(group):
        assert np.ptp(found[np.array(group) == category]) == 0


@settings(max_examples=40)
@given(NAMES, GROUPS)
def test_one_invalid_output_more_lowers_every_frequency(name, group):
    before, after = (rewards.frequencies(rewards.counts(g, 4)) for g in (group, [*group, -1]))
    assert (after[:4] <= before[:4]).all() and after[4] >= before[4]
    assert after.sum() == pytest.approx(1)


def test_invalid_penalty_rule():
    for name in divergences.NAMES:
        found = rewards.group(name, [0, 0, 1, -1], (0.5, 0.5), invalid="penalty")
        assert found[3] == -1


def test_batch_takes_a_target_a_prompt():
    groups = [[0, 0, 1, 1], [0, 0, 1, 1]]
    found = rewards.batch("l2", groups, [(1.0, 0.0), (0.0, 1.0)])
    assert found.tolist() == [[0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5]]


def test_combinations():
    right, wrong = np.ones(4, bool), np.zeros(4, bool)
    for name in divergences.NAMES:
        mix = rewards.group(name, [0, 0, 0, 1], (0.5, 0.5))
        arguments = (name, [0, 0, 0, 1], right, (0.5, 0.5))
        assert combine.combined("sum", *arguments) == pytest.approx(1 + mix)
        assert combine.combined("gate", *arguments) == pytest.approx(mix)
        apart = combine.combined("apart", *arguments, weight=2.0)
        assert apart == pytest.approx(2 * (mix - mix.mean()) / mix.std())
        gated = combine.combined("gate", name, [0, 1, 0, 1], wrong, (0.5, 0.5))
        assert not advantages.advantages([gated]).any()


def test_surrogate_is_the_same_for_arrays_and_tensors_with_its_gradient():
    ratio = torch.tensor([1.5, 0.5, 1.5, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([1.0, 1, -1, -1, 2], dtype=torch.float64)
    found = advantages.surrogate(ratio, a)
    assert found.detach().numpy() == pytest.approx(
        advantages.surrogate(ratio.detach().numpy(), a.numpy())
    )
    found.sum().backward()
    assert ratio.grad.tolist() == [0, 1, -1, 0, 2]  # no pull once the move is made


def test_advantages_of_tiny_and_of_equal_rewards():
    tiny = np.array([[0.0, 1e-5, 0.0, 0.0]])
    assert np.abs(advantages.advantages(tiny, "group")).max() < 0.02  # the floor holds
    assert advantages.no_signal(tiny).tolist() == [False]
    mixed = np.array([[0.1] * 4, [0, 0, 0, 1.0]])
    found = advantages.advantages(mixed, "batch")
    assert not found[0].any() and found[1].any()


BAD = [
    (lambda: divergences.divergence("kl", FLAT, FLAT), "divergence='kl'", "reverse_kl"),
    (lambda: divergences.distribution([0.5, 0.6]), "target sums to 1.1", "sum to 1"),
    (lambda: divergences.distribution([1.5, -0.5]), "target=[1.5, -0.5]", ">= 0"),
    (lambda: divergences.distribution([np.nan, 1]), "target=[nan, 1.0]", "finite"),
    (lambda: divergences.distribution([1.0]), "(1,)", "2 categories"),
    (lambda: divergences.smoothed(FLAT, 0.25), "epsilon=0.25", "[0, 1/K)"),
    (lambda: divergences.sampling_floor(1, 8), "categories=1", "2 or more"),
    (lambda: divergences.sampling_floor(3, 0), "samples=0", "1 or more"),
    (lambda: rewards.group("l2", [0], FLAT), "1 sample", "2 or more"),
    (lambda: rewards.group("l2", [0, 4], FLAT), "0 to 4", "to 3"),
    (lambda: rewards.group("l2", [0, -2], FLAT), "-2", "-1 (invalid)"),
    (lambda: rewards.group("l2", [0.5, 1], FLAT), "categories=", "integers"),
    (lambda: rewards.group("l2", [0, 1], (0.5, 0.4)), "sums to 0.9", "sum to 1"),
    (lambda: rewards.group("l2", [0, 1], FLAT, invalid="drop"), "invalid='drop'", "penalty"),
    (lambda: rewards.group("l2", [0, 1], FLAT, clip=0), "clip=0", "above 0"),
    (lambda: rewards.group("l2", [0, 1], FLAT, alpha=-1.0), "alpha=-1", "0 or more"),
    (
        lambda: rewards.group("js", [0, 1], FLAT, leave_one_out=True, alpha=0.0),
        "alpha=0",
        "above 0",
    ),
    (lambda: rewards.frequencies([3, -1]), "counts=[3.0, -1.0]", ">= 0"),
    (lambda: rewards.frequencies([1.5, 1]), "counts=[1.5, 1.0]", "integers"),
    (lambda: rewards.frequencies([1, 0]), "fewer than 2", "2 or more"),
    (lambda: rewards.correctness([1, 0]), "correct has type int64", "True and False"),
    (lambda: advantages.advantages([[0.0, np.nan]]), "NaN", "finite"),
    (lambda: advantages.advantages([[0.0, np.inf]]), "infinite", "finite"),
    (lambda: advantages.advantages([[1.0]]), "(1, 1)", "2 samples"),
    (lambda: advantages.advantages([[1.0, 2]], "std"), "scale='std'", "batch"),
    (lambda: advantages.surrogate(1.0, 1.0, clip=1.0), "clip=1.0", "between 0 and 1"),
    (lambda: combine.combined("product", "l2", [0, 1], [True, True], FLAT), "rule=", "gate"),
    (lambda: combine.combined("sum", "l2", [0, 1], np.array([True]), FLAT), "(1,)", "(2,)"),
    (
        lambda: combine.combined("sum", "l2", [0, 1], np.array([True] * 2), FLAT, -1.0),
        "weight=-1.0",
        "0 or more",
    ),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
