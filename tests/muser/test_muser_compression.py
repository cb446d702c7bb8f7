"""MuSeR's compression and light Transformer: notes' numbers, invariants, faults, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import intervals
from repro.errors import BadParameter
from repro.muser import (
    compression,
    model,
    study_compression,
    synthetic,
    transformer,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "muser.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["lengths"], ids=lambda c: str(c["length"]))
def test_golden_lengths(case):
    found = compression.plan(case["length"], case["recent"], case["middle"])
    assert list(found.tokens()) == case["tokens"] and len(found) == case["total"]


def test_origin_could_not_test_compression():
    """About 13 actions a user: nothing is early, and two or three pooled tokens replace five."""
    origin = GOLDEN["origin"]
    mean = origin["prefixes"] / origin["users"] + 7
    assert mean == pytest.approx(origin["mean_length"], abs=0.05)
    made = compression.plan(round(mean), origin["recent"], origin["middle"], origin["widths"])
    assert made.tokens() == (0, 2, 8)
    recall = origin["recall"]["full"]["mean"]
    error = (recall * (1 - recall) / origin["tested"]) ** 0.5
    assert error == pytest.approx(origin["standard_error"], abs=2e-4)
    assert abs(recall - origin["recall"]["no compression"]["mean"]) < error
    for arm in origin["recall"].values():
        assert np.mean(arm["seeds"]) == pytest.approx(arm["mean"], abs=5e-4)


def test_work_grows_in_proportion_to_the_history():
    """A count, not a time: every action is in one block, tokens are about L / 64."""
    for length in (10_000, 100_000):
        made = compression.plan(length)
        assert made.block().shape == (length,) and len(made) < 512 + 256 + length / 64 + 1
    assert compression.pool(torch.ones(100_000, 2), compression.plan(100_000)).shape == (2_259, 2)


def test_gradient_reaches_the_attention():
    x = torch.randn(60, 4, dtype=torch.float64)
    made = compression.plan(60, 4, 32)
    parts = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3,), (3, 4), (3,))]
    gap = compression.gaps(np.arange(60.0) ** 2, made)
    compression.pool(
        x, made, compression.Attention(*parts).logits(x, gap)
    ).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in parts)


def test_the_dormant_topic_is_old_only():
    world = synthetic.world(np.random.default_rng(0), topics=8, per_topic=20)
    user = synthetic.user(world, np.random.default_rng(0), length=400)
    topics = world.topic[user.history]
    assert (topics[:200] == user.dormant).any() and not (topics[200:] == user.dormant).any()
    assert (world.topic[user.future[user.returns]] == user.dormant).all()
    assert set(topics) <= {user.dormant, *user.follow}


def test_old_actions_bring_a_dormant_topic_back():
    """At equal tokens, by a paired interval; fails where the old tokens are taken away."""
    rng = np.random.default_rng(0)
    world = synthetic.world(rng, topics=8, per_topic=20)
    users = [synthetic.user(world, rng, length=600) for _ in range(80)]
    small = model.Settings(queries=6, steps=60, batch=16, negatives=32)
    found = study_compression.compare(world, users, 16, 64, 40, 0, small)
    assert found["newest only"].tokens == found["compressed"].tokens < 600 / 10
    kept, cut = found["compressed, weighed"].dormant, found["newest only"].dormant
    low, _ = intervals.of_mean(study_compression.both(kept, cut))
    assert low > 0


def test_reuse_by_alignment():
    assert study_compression.reuse(19_456, 1, 512, 4096, "newest") == 0
    assert study_compression.reuse(19_456, 1, 512, 4096, "absolute") > 0.98


def test_arms_have_one_budget():
    made = {arm: study_compression.spans(arm, 2000, 32, 256) for arm in study_compression.ARMS}
    full = made.pop("full history")
    assert len({len(p) for p in made.values()}) == 1 and len(full) == 2000
    assert all(p.length == 2000 for p in [*made.values(), full])


PLAN = compression.plan(6, 2, 4)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: compression.plan(-1), "length=-1"),
        (lambda: compression.plan(9, recent=-2), "recent=-2"),
        (lambda: compression.plan(9, widths=(0, 4)), "widths=(0, 4)"),
        (lambda: compression.plan(9, align="oldest"), "align='oldest'"),
        (lambda: compression.plan(9, widths=(3, 4), align="absolute"), "do not nest"),
        (lambda: compression.by_age(np.array([0, 2, 1.0]), 3.0, 1.0, 2.0), "backwards"),
        (lambda: compression.by_age(np.array([0, 2.0]), 1.0, 1.0, 2.0), "backwards"),
        (lambda: compression.by_age(np.array([0, np.nan]), 1.0, 1.0, 2.0), "all finite"),
        (lambda: compression.by_age(np.array([0.0]), 1.0, 3.0, 2.0), "recent=3.0"),
        (lambda: compression.gather(torch.ones(3, 2), [0, 3]), "history[1]=3"),
        (lambda: compression.gather(torch.ones(3, 2), [-1]), "history[0]=-1"),
        (lambda: compression.pool(torch.ones(5, 2), PLAN), "x has shape (5, 2)"),
        (lambda: compression.pool(torch.ones(6, 2), PLAN, torch.ones(2)), "logits has shape"),
        (lambda: transformer.Light(6, heads=4), "heads=4"),
        (lambda: transformer.pad([]), "parts is empty"),
        (
            lambda: transformer.Light(4)(
                torch.zeros(1, 2, 4), *[torch.zeros(1, 2, dtype=torch.long)] * 2,
                torch.zeros(1, 2, dtype=torch.bool),
            ),
            "history is empty",
        ),
        (lambda: synthetic.world(np.random.default_rng(0), topics=1), "topics=1"),
        (lambda: synthetic.user(synthetic.world(np.random.default_rng(0)), None, 0), "length=0"),
        (lambda: study_compression.spans("none", 9, 1, 1), "arm='none'"),
        (lambda: study_compression.reuse(5, 1, 9, 9, "newest"), "no pooled block"),
    ],
)  # fmt: skip
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)


def test_an_empty_history_has_no_tokens():
    made = compression.plan(0)
    assert len(made) == made.length == 0 and made.tokens() == (0, 0, 0)
    assert compression.pool(torch.ones(0, 3), made).shape == (0, 3)
