"""MuSeR's fused items, controls, comparison: golden values, budgets, cold items, bad input."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from repro.errors import BadParameter
from repro.muser import cold, compression, controls, data, fused, semantics, study_comparison

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "muser_comparison.json").read_text("utf-8")
)["by_hand"]


@pytest.fixture(scope="module")
def world():
    shelf = cold.catalogue(np.random.default_rng(0), per_topic=30, topics=6)
    return cold.draw(np.random.default_rng(1), shelf, people=60, length=60, after=8)


@pytest.fixture(scope="module")
def z(world):
    return study_comparison.semantic(world.catalogue.texts, semantics.hashed(96))


@pytest.fixture(scope="module")
def found(world, z):
    names = ("ids and semantics", "ids only", "texts of other items", "future items as negatives")
    arms = {name: study_comparison.ARMS[name] for name in names}
    few = fused.Settings(d=12, queries=3, steps=60)
    return study_comparison.compare(cold.parts(world), z, arms, 0, few, 6, 32)


@pytest.mark.parametrize("control", ["ids only", "texts of other items"])
def test_semantics_find_cold_items(found, control):
    """By a paired interval, also over a placebo that has the same counts and numbers to train."""
    ours, theirs = (found.recall(arm, 20, "cold") for arm in ("ids and semantics", control))
    word, low, _ = study_comparison.verdict(ours, theirs)
    assert word == "above" and low > 0


def test_future_items_as_negatives_cost_cold_items(found):
    arms = ("ids and semantics", "future items as negatives")
    ours, theirs = (found.recall(arm, 20, "cold") for arm in arms)
    assert study_comparison.verdict(ours, theirs)[0] == "above"


@pytest.mark.parametrize("control", study_comparison.PLAIN)
def test_untrained_controls_cannot_find_what_nobody_met(found, control):
    assert np.nanmax(found.recall(control, 20, "cold")) == 0


def test_nobody_met_the_cold_items_in_training(world):
    *train, test = cold.parts(world)
    new = np.flatnonzero(test.counts == 0)
    for rows in train:
        assert not np.isin(np.concatenate(rows.history), new).any()
        assert not np.isin(np.concatenate(rows.future), new).any()
    assert np.isin(np.concatenate(test.future), new).mean() > 0.3


def test_a_texts_words_are_of_its_topic(world):
    for topic, text in zip(world.catalogue.topic, world.catalogue.texts, strict=True):
        own = set(list(cold.TOPICS.values())[topic].split())
        assert len(own & set(text.split())) == 4 and len(text.split()) == 10
    assert len(set(world.catalogue.texts)) == len(world.catalogue.texts)


def test_the_dormant_topic_sleeps(world):
    log, topic = world.log, world.catalogue.topic
    for user in range(20):
        mine = log.user == user
        asleep = mine & (log.time >= cold.CUTS[0] / 2) & (log.time < cold.CUTS[0])
        assert not (topic[log.item[asleep]] == world.dormant[user]).any()
        assert (world.catalogue.arrives[log.item[mine]] <= log.time[mine]).all()


def test_arms_have_one_budget(world):
    rows = cold.parts(world)[-1]
    given = (rows, 6, 32)
    lengths = {w: [len(p) for p in study_comparison.plans(w, *given)] for w in
               ("compressed", "uniform pooling")}  # fmt: skip
    short = study_comparison.shortened("newest only", *given)
    newest = [len(p) for p in study_comparison.plans("newest only", short, 6, 32)]
    assert lengths["compressed"] == lengths["uniform pooling"] == newest
    for kept, history in zip(short.history, rows.history, strict=True):
        assert np.array_equal(kept, history[-len(kept) :])
    full = study_comparison.plans("full history", *given)
    assert [len(p) for p in full] == [len(h) for h in rows.history]


def test_a_placebo_has_the_same_numbers_to_train(found):
    sizes = {arm: found.arms[arm].size for arm in found.arms}
    assert sizes["texts of other items"] == sizes["ids and semantics"] > sizes["ids only"]


def test_training_is_the_same_for_the_same_seed(world, z):
    parts = cold.parts(world)[:2]
    tokens = [fused.Tokens(r, [compression.plan(len(h), 6, 32) for h in r.history]) for r in parts]
    few = fused.Settings(d=6, queries=2, steps=3, batch=4, negatives=8)

    def losses():
        model = fused.Model(fused.Tower(z, 6), 6, 2)
        return fused.train(model, list(zip(parts, tokens, strict=True)), 0, few)

    assert losses() == losses()


@pytest.mark.parametrize("reader", fused.READERS)
def test_every_part_is_trained(world, z, reader):
    rows = cold.parts(world)[0]
    tokens = fused.Tokens(rows, [compression.plan(len(h), 6, 32) for h in rows.history])
    model = fused.Model(fused.Tower(z, 6), 6, 2, reader)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    fused.train(model, [(rows, tokens)], 0, fused.Settings(d=6, queries=2, steps=2, batch=8))
    assert before and all((p != before[name]).any() for name, p in model.named_parameters())


def test_golden_gate():
    case = GOLDEN["gate"]
    tower = fused.Tower(torch.ones(1, 2), 2)
    with torch.no_grad():
        tower.b.copy_(torch.tensor([case["b"]]))
        tower.W_b.copy_(torch.eye(2))
        tower.W_z.copy_(torch.diag(torch.tensor(case["z"]).float()))
        tower.W_g.fill_(0)
    assert torch.sigmoid(tower.W_g[0, 0]) == case["g"]
    assert torch.allclose(tower(torch.tensor([0]))[0], torch.tensor(case["e"]))


def test_the_gate_sees_the_count():
    """With a weight on the count alone, semantics weigh more for an item met often."""
    tower = fused.Tower(torch.ones(2, 2), 2)
    with torch.no_grad():
        tower.b.copy_(torch.tensor([[1.0, 0.0]] * 2))
        tower.W_b.copy_(torch.eye(2))
        tower.W_z.copy_(torch.tensor([[0.0, 0.5], [0.0, 0.5]]))
        tower.W_g.zero_()
        tower.W_g[-1] = 1.0
    met, often = tower(torch.tensor([0, 100])).detach()[:, 1]
    assert met == pytest.approx(0.5 / 1.25**0.5) and often > 0.69


def test_golden_alignment_and_routing():
    case, eye = GOLDEN["alignment"], torch.eye(2)
    assert fused.alignment(eye, eye, case["tau"]).item() == pytest.approx(case["apart"])
    same = torch.ones(2, 2)
    assert fused.alignment(same, same, case["tau"]).item() == pytest.approx(case["alike"])
    case = GOLDEN["routing"]
    tokens = torch.tensor([[case["sum"]]]).float()
    found = controls.routing(tokens, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert torch.allclose(found, torch.tensor([[case["interest"]]]).float())


def test_routing_parts_two_kinds_of_tokens():
    """Two directions and starts that lean either way: each interest ends along one of them."""
    tokens = torch.tensor([[[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]]])
    start = torch.tensor([[0.1, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.1]])
    u = controls.routing(tokens, start, torch.ones(1, 4, dtype=torch.bool), rounds=4)
    unit = torch.nn.functional.normalize(u, dim=-1)[0]
    assert torch.allclose(unit, torch.eye(2), atol=0.02) and (u.norm(dim=-1) < 1).all()


def test_item_knn_keeps_the_nearest_only():
    log = data.log("x", [0, 0, 0, 1, 1, 0, 1], [0, 1, 2, 0, 1, 3, 3], [1.0] * 5 + [9.0] * 2, "abcd")
    rows = data.at(log, 5.0)
    near = controls.item_knn(rows, neighbours=1)
    s = 2**-0.5  # items 0 and 1 are nearest to each other, item 2 has both at the same distance
    assert np.allclose(near, [[1 + s, 1 + s, 0, 0], [1, 1, 0, 0]])
    assert np.allclose(controls.item_knn(rows)[:, 2], 2 * s)


def test_identical_arms_are_uninformative():
    same = np.linspace(0, 1, 9)
    word, low, high = study_comparison.verdict(same, same.copy())
    assert word.startswith("uninformative") and low == high == 0
    assert math.isnan(study_comparison.verdict(same[:3], same[1:4])[1])


ROWS = data.at(data.log("hand", [0, 0, 1, 1], [0, 1, 1, 0], [1.0, 3.0, 1.0, 3.0], ("a", "b")), 2.0)
MASK = torch.ones(1, 2, dtype=torch.bool)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: fused.Tower(torch.ones(3), 2), "z has shape (3,)"),
        (lambda: fused.Tower(torch.full((2, 2), math.nan), 2), "finite"),
        (lambda: fused.Tower(torch.ones(2, 2), 0), "d=0"),
        (lambda: fused.Tower(torch.ones(2, 2), 2, "both"), "parts='both'"),
        (lambda: fused.Model(fused.Tower(torch.ones(2, 2), 2), 2, 1, "sum"), "reader='sum'"),
        (lambda: fused.Settings(queries=0), "queries=0"),
        (lambda: fused.Settings(tau=0.0), "tau=0.0"),
        (lambda: fused.Settings(mu=-1.0), "mu=-1.0"),
        (lambda: fused.Settings(drawn_from="some"), "drawn_from='some'"),
        (lambda: fused.alignment(torch.ones(1, 2), torch.ones(1, 2), 0.0), "tau=0.0"),
        (lambda: fused.Tokens(ROWS, [compression.plan(2)] * 2), "2 actions of 1"),
        (lambda: controls.item_knn(ROWS, 0), "neighbours=0"),
        (lambda: controls.routing(torch.ones(1, 2, 3), torch.ones(1, 4), MASK), "logits has shape"),
        (lambda: controls.routing(torch.ones(1, 2, 3), torch.ones(1, 2), ~MASK), "is empty"),
        (lambda: study_comparison.plans("none", ROWS, 1, 1), "way='none'"),
        (lambda: study_comparison.Study(ROWS, {}, {}).recall("a", 1, "new"), "kind='new'"),
        (lambda: cold.catalogue(np.random.default_rng(0), topics=13), "topics=13"),
        (lambda: cold.catalogue(np.random.default_rng(0), per_topic=5), "per_topic=5"),
        (lambda: cold.draw(None, None, people=0), "people=0"),
        (lambda: cold.draw(None, None, fresh=1.5), "fresh=1.5"),
    ],
)
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)
