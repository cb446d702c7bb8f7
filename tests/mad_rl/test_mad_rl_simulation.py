import json
import re

import numpy as np
import pytest

from repro.errors import BadParameter
from repro.mad_rl import divergences, simulation
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/mad_rl.json").read_text())
REST = GOLDEN["resting"]


@pytest.mark.parametrize(
    ("entry", "leave_one_out", "centre"),
    [
        ("plug_in", False, False),
        ("plug_in_centred", False, True),
        ("leave_one_out", True, False),
        ("leave_one_out_centred", True, True),
    ],
)
def test_l2_rests_where_the_hand_calculation_says(entry, leave_one_out, centre):
    closed = simulation.l2_resting_point(REST["t"], REST["G"], leave_one_out, centre)
    assert closed == pytest.approx(REST[entry], abs=1e-6)
    found = simulation.resting_point(
        "l2", REST["t"], REST["G"], leave_one_out=leave_one_out, centre=centre
    )
    assert found == pytest.approx(closed, abs=1e-9)


def test_a_rare_category_dies_out_where_the_closed_form_is_negative():
    target = (0.9, 0.07, 0.03)
    assert simulation.l2_resting_point(target, 8, False, True)[2] < 0
    found = simulation.resting_point("l2", target, 8, steps=1500)
    assert found[2] < 1e-3


def test_size_of_an_update_at_the_optimum():
    """Undivided it shrinks with the group; divided it does not (notes, 6.2)."""
    golden = GOLDEN["at_the_optimum"]
    t = np.full(golden["K"], 1 / golden["K"])
    for at, size in enumerate(golden["groups"]):
        n = simulation.all_groups(golden["K"], size)
        weights = simulation.chances(n, t)
        for key, scale in (("undivided", "none"), ("divided", "group")):
            mass = n / size * simulation.paid("l2", n, t, scale=scale)
            step = np.linalg.norm(mass - t * mass.sum(-1, keepdims=True), axis=-1)
            assert weights @ step == pytest.approx(golden[key][at], rel=0.3), (key, size)


def test_cosines_with_the_exact_gradient():
    """Random p and t, K = 5, G = 16: forward KL is the only one that is far off (notes, 3.4)."""
    rng, cosine = np.random.default_rng(0), {name: [] for name in divergences.NAMES}
    for _ in range(12):
        p, t = rng.dirichlet(np.ones(5), 2) * 0.98 + 0.004
        for name in divergences.NAMES:
            u, exact = simulation.expected_update(name, p, t, 16), simulation.descent(name, p, t)
            cosine[name].append(u @ exact / np.linalg.norm(u) / np.linalg.norm(exact))
    mean = {name: np.mean(found) for name, found in cosine.items()}
    assert min(mean, key=mean.get) == "forward_kl"
    assert min(mean["l2"], mean["reverse_kl"], mean["js"]) > 0.98


def test_recovers_from_97_percent_and_not_from_999_permille():
    t, rng = np.full(5, 0.2), np.random.default_rng(1)
    ends = {}
    for start in (0.97, 0.999):
        p = np.append(start, np.full(4, (1 - start) / 4))
        path = simulation.simulate(lambda n: simulation.paid("l2", n, t), p, 16, 600, 0.5, 8, rng)
        ends[start] = divergences.divergence("js", path[-1], np.broadcast_to(t, (8, 5))).mean()
    assert ends[0.97] < 0.05 < 0.3 < ends[0.999]


def test_joined_rules_make_outputs_right_and_mixed():
    start = np.array([[0.3, 0.3], [0.3, 0.1]])
    rng = np.random.default_rng(0)
    end = simulation.simulate_joined("gate", "js", start, (0.5, 0.5), 16, 600, 2.0, rng)
    right = end[:, 1]
    assert right.sum() > 0.9
    assert right / right.sum() == pytest.approx([0.5, 0.5], abs=0.15)


BAD = [
    (lambda: simulation.all_groups(1, 4), "kinds=1", "2 or more"),
    (lambda: simulation.all_groups(3, 1), "group=1", "2 or more"),
    (
        lambda: simulation.paid("l2", np.array([[2, 2]]), (0.5, 0.5), scale="batch"),
        "scale='batch'",
        "none, group",
    ),
    (lambda: simulation.tempered((0.5, 0.5), 0.0), "temperature=0.0", "above 0"),
    (lambda: simulation.with_entropy_bonus([1, 1], -1.0), "beta=-1.0", "above 0"),
    (lambda: simulation.descent("l2", (0.5, 0.6), (0.5, 0.5)), "p sums to", "sum to 1"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
