"""GRAFT's graph, values, credits, controls, loss: worked values, invariants, bad arguments."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from repro.errors import BadParameter
from repro.graft import (
    canonical,
    controls,
    credit,
    graph,
    grid,
    loss,
    study_estimators,
    tabular,
    values,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "graft.json").read_text())


def group():
    return [
        graph.Trajectory(tuple(t["states"]), tuple(t["actions"]), t["outcome"])
        for t in GOLDEN["group"]
    ]


def test_golden_example():
    built = graph.build(group())
    value = values.solve(built, GOLDEN["gamma"])
    at = dict(zip(built.names, value, strict=True))
    for node, expected in GOLDEN["values"].items():
        assert at[node] == pytest.approx(expected, abs=1e-6)
    step = credit.one_step(built, value, GOLDEN["gamma"])
    assert step == pytest.approx(GOLDEN["credits"], abs=1e-6)
    for lam in (0.0, 0.5, 0.95, 1.0):
        assert credit.graph_gae(built, value, GOLDEN["gamma"], lam) == pytest.approx(step, abs=1e-9)
    found = credit.normalise(built, step).advantage
    assert found == pytest.approx(GOLDEN["normalised"], abs=1e-4)
    assert controls.grpo(built) == pytest.approx(GOLDEN["grpo"], abs=1e-9)
    first = built.tail == built.tail[0]
    assert controls.gigpo(built)[first] == pytest.approx(GOLDEN["gigpo_at_s"], abs=5e-5)


@pytest.fixture(scope="module")
def table():
    """Mean squared errors over the 199 groups of the notes, by method and variant."""
    held = study_estimators.groups(300, 8, 0)
    found, moved = {}, 0.0
    for one, true in held:
        for name, error in study_estimators.errors(study_estimators.signals(one), true).items():
            found.setdefault(name, []).append(error)
        for name, both in study_estimators.variants(one).items():
            for kind, signal in zip(("one step", "gae"), both, strict=True):
                found.setdefault(f"{name}, {kind}", []).append(np.mean((signal - true) ** 2))
            if name == "as defined":
                moved = max(moved, np.abs(both[1] - both[0]).max())
    return len(held), {name: np.mean(errors) for name, errors in found.items()}, moved


def test_table_of_199_groups(table):
    n, found, _ = table
    assert n == GOLDEN["table"]["groups"]
    for name, expected in GOLDEN["table"]["errors"].items():
        assert found[name] == pytest.approx(expected, rel=0.2), name


def test_graph_gae_is_one_step_in_the_exact_regime(table):
    assert table[2] < 1e-9


def test_sample_deviation_and_floor():
    built = graph.build(group())
    step = credit.one_step(built, values.solve(built))
    three = built.tail == built.tail[0]
    sample = credit.normalise(built, step, deviation="sample").advantage[three]
    assert sample == pytest.approx(np.array([-1.4142, 0.7071, 0.7071]) * (2 / 3) ** 0.5, abs=1e-4)
    floored = credit.normalise(built, step, "node+floor", floor=0.1).advantage
    assert np.abs(floored[three]).max() < 0.1  # a preference of thousandths stays small
    assert credit.normalise(built, step, "none").advantage == pytest.approx(step, abs=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_cycles_and_self_loops_converge(gamma):
    loop = graph.Trajectory(("A", "A", "B", "A", "B", "G"), tuple("xyzyw"), 1.0)
    lost = graph.Trajectory(("A", "C", "C"), tuple("cc"), 0.0)
    built = graph.build([loop, lost])
    found = values.solve(built, gamma)
    assert found == pytest.approx(values.solve(built, gamma, method="sparse"), abs=1e-6)
    at = dict(zip(built.names, found, strict=True))
    # A: loops once, goes to B twice, to C once. B: back to A once, to the goal once.
    a = gamma * np.array([[1 / 4, 1 / 2], [1 / 2, 0]])
    expected = np.linalg.solve(np.eye(2) - a, [0, gamma / 2])
    assert [at["A"], at["B"]] == pytest.approx(expected, abs=1e-6)


def test_a_node_without_a_way_to_a_sink_is_worth_nothing():
    built = graph.TrajectoryGraph(
        tail=np.array([0, 1, 2]), head=np.array([1, 0, 3]), action=np.zeros(3, int),
        trajectory=np.array([0, 0, 1]), step=np.array([0, 1, 0]), left=np.array([1, 0, 0]),
        sink=np.array([np.nan, np.nan, np.nan, 1.0]), names=("A", "B", "C", "G"),
    )  # fmt: skip
    assert values.solve(built) == pytest.approx([0, 0, 0.99, 1.0])
    assert values.distance(built) == pytest.approx([np.inf, np.inf, 1, 0])


def test_undiscounted_hops_are_weighted_by_lambda():
    """Merged sinks: at B the residuals do not cancel, and lambda weighs them."""
    walks = [
        graph.Trajectory(("A", "B"), ("x",), 0.0),
        graph.Trajectory(("A", "B", "G"), ("x", "y"), 1.0),
    ]
    built = graph.build(walks, sinks="merged")
    value = values.solve(built)  # B is a sink of value 0 with an edge to G
    step = credit.one_step(built, value)
    assert step == pytest.approx([0, 0, 0.99])
    for lam in (0.0, 0.5, 1.0):
        found = credit.graph_gae(built, value, lam=lam)
        assert found == pytest.approx([0, 0.99 * lam * 0.99, 0.99])  # the first walk ends at B


def test_credit_does_not_depend_on_the_hash_seed():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 8))
    assert np.array_equal(canonical.leader(vectors, 0.5), canonical.leader(vectors.copy(), 0.5))
    assert canonical.leader(vectors, 0.5).max() >= canonical.linked(vectors, 0.5).max()


# Loss --------------------------------------------------------------------------------------------


def test_step_loss_by_hand():
    old = torch.log(torch.tensor([[0.5, 0.5], [0.2, 0.9]], dtype=torch.float64))
    new = torch.log(torch.tensor([[1.0, 0.5], [0.4, 0.9]], dtype=torch.float64))
    new.requires_grad_()
    mask = torch.tensor([[1, 1], [1, 0]])
    ratio = loss.step_ratio(new, old, mask)
    assert ratio.tolist() == pytest.approx([2**0.5, 2.0])  # geometric mean; padding left out
    found = loss.step_loss(new, old, mask, torch.tensor([1.0, -1.0], dtype=torch.float64))
    assert found.item() == pytest.approx(-(1.2 - 2.0) / 2)  # the gain is clipped, the loss is not
    found.backward()
    assert new.grad[0].tolist() == [0, 0] and new.grad[1, 0] > 0 and new.grad[1, 1] == 0


def test_token_loss_clips_each_token():
    old = torch.zeros(1, 2, dtype=torch.float64)
    new = torch.log(torch.tensor([[2.0, 0.5]], dtype=torch.float64))
    one = torch.ones(1, dtype=torch.float64)
    assert loss.token_loss(new, old, torch.ones(1, 2), one).item() == pytest.approx(
        -(1.2 + 0.5) / 2
    )
    assert loss.step_loss(new, old, torch.ones(1, 2), one).item() == pytest.approx(-1.0)


def test_losses_agree_on_policy():
    logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    advantage = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    grads = []
    for form in (loss.step_loss, loss.token_loss):
        new = logits.clone().requires_grad_()
        form(new, logits, mask, advantage).backward()
        grads.append(new.grad)
    assert torch.allclose(*grads, atol=1e-12)


# Bad input ---------------------------------------------------------------------------------------


def walk(*states, outcome=1.0, task=""):
    return graph.Trajectory(states, tuple("abcdefgh"[: len(states) - 1]), outcome, task)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: graph.build([]), "group is empty"),
        (lambda: graph.build([walk("A", "B", task="1"), walk("A", "B", task="2")]), "mixes"),
        (lambda: graph.build([walk("A", "B")], sinks="none"), "sinks='none'"),
        (
            lambda: graph.build([walk("A", "B"), walk("A", "B", outcome=0.0)], sinks="merged"),
            "contradict",
        ),
        (lambda: graph.build([walk("A", "B")], phi=lambda states: np.zeros(7)), "phi gave"),
        (lambda: walk("A"), "1 states and 0 actions"),
        (lambda: walk("A", "B", outcome=10.0), "outcome=10.0"),
        (lambda: walk("A", "B", outcome=float("nan")), "outcome=nan"),
        (
            lambda: graph.Trajectory.of_steps([("A", "x", "B"), ("C", "y", "D")], 1.0),
            "disconnected",
        ),
        (lambda: values.solve(graph.build([walk("A", "B")]), 1.0), "gamma=1.0"),
        (lambda: values.solve(graph.build([walk("A", "B")]), 0.0), "gamma=0.0"),
        (lambda: values.solve(graph.build([walk("A", "B")]), weight="none"), "weight='none'"),
        (lambda: values.solve(graph.build([walk("A", "B")]), method="none"), "method='none'"),
        (lambda: values.solve(graph.build([walk("A", "B")]), tolerance=0), "tolerance=0"),
        (lambda: credit.one_step(graph.build([walk("A", "B")]), np.zeros(9)), "value has shape"),
        (
            lambda: credit.graph_gae(graph.build([walk("A", "B")]), np.zeros(3), lam=2),
            "lam=2",
        ),
        (
            lambda: credit.normalise(graph.build([walk("A", "B")]), np.array([np.nan])),
            "advantage has shape",
        ),
        (lambda: canonical.leader(np.zeros((2, 3))), "zero vector"),
        (lambda: canonical.leader(np.ones((2, 3)), tau=1.0), "tau=1.0"),
        (lambda: canonical.linked(np.ones(3)), "vectors has shape"),
        (lambda: tabular.draw(np.random.default_rng(0), states=1), "states=1"),
        (lambda: grid.Grid(traps=(0,)), "traps=(0,)"),
        (lambda: grid.learn("none", 0), "arm='none'"),
        (lambda: grid.learn("GRAFT", 0, size=1), "size=1"),
        (lambda: study_estimators.groups(3, 1, 0), "size=1"),
        (
            lambda: loss.step_loss(*[torch.zeros(2, 3)] * 3, torch.zeros(2)),
            "without tokens",
        ),
        (
            lambda: loss.step_loss(*[torch.ones(2, 3)] * 3, torch.zeros(3)),
            "advantage has shape",
        ),
    ],
)  # fmt: skip
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)


def test_a_conflict_can_be_averaged():
    built = graph.build(
        [walk("A", "B"), walk("A", "B", outcome=0.0)], sinks="merged", conflict="mean"
    )
    assert built.conflicts == 1 and np.nanmax(built.sink) == 0.5


def test_graph_work_grows_in_proportion_to_the_steps():
    """A count, not a time: nodes and edges stay within the number of steps."""
    rng = np.random.default_rng(0)
    process = tabular.draw(rng, states=2000, horizon=13)
    walks, _ = tabular.rollouts(process, 800, rng)
    built = graph.build(walks)
    assert len(built.tail) == sum(map(len, walks))
    assert built.n <= len(built.tail) + len(walks) + 2
