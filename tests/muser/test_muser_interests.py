"""MuSeR's interests, score, objective and fusion: checks, faults, training, bad input."""

import numpy as np
import pytest
import torch

from repro import intervals
from repro.errors import BadParameter
from repro.muser import compression, interests, model, study_interests, synthetic


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    world = synthetic.world(rng)
    users = [synthetic.user(world, rng, length=600) for _ in range(120)]
    arms = {"one": {"queries": 1}, "six": {}}
    small = model.Settings(queries=6, steps=80, batch=16, negatives=32)
    plan = compression.plan(600, 16, 64)
    return study_interests.compare(world, users, arms, 100, 0, small, plan)


def test_several_interests_find_more_than_one(trained):
    """By a paired interval; with M = 1 in both arms the difference is 0."""
    low, _ = intervals.of_mean(trained["six"].recall - trained["one"].recall)
    assert low > 0


def test_measures_of_the_interests(trained):
    assert np.isnan(trained["one"].alike) and trained["one"].gap < 1e-6
    assert 0 < trained["six"].alike < 1 and trained["six"].gap <= 0.07 * np.log(6) + 1e-6
    assert np.array_equal(trained["one"].recall, trained["one"].soft)


def test_training_is_the_same_for_the_same_seed():
    tokens = [torch.randn(5, 4, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    given = (tokens, np.arange(8).reshape(4, 2), torch.randn(9, 4), 3)
    short = model.Settings(queries=2, steps=3, batch=2, negatives=4)
    assert torch.equal(model.train(*given, short), model.train(*given, short))


def test_recall_and_ranks_by_hand():
    items = torch.eye(3)
    u = torch.tensor([[[1.0, 0.1, 0.0]]])
    ranks = model.ranks(u, items, np.array([[0, 2]]))
    assert ranks.tolist() == [[0, 2]]
    assert model.recall(ranks, 1).tolist() == [0.5]
    assert np.isnan(model.recall(ranks, 1, np.zeros((1, 2), bool)))[0]


def test_dead_queries_are_counted():
    u = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert model.dead(u, torch.tensor([[1.0, 0.1], [1.0, -0.1]]), k=2) == 0.5


Z = torch.zeros


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: interests.attend(Z(2, 3), Z(1, 4, 5)), "same d"),
        (lambda: interests.attend(Z(2, 3), Z(1, 4, 3), Z(1, 3, dtype=torch.bool)), "mask has"),
        (lambda: interests.attend(Z(2, 3), Z(1, 0, 3)), "user 0 is empty"),
        (lambda: interests.cosines(torch.ones(1, 3), torch.ones(2, 4)), "dimension 4"),
        (lambda: interests.cosines(torch.ones(1, 3), Z(2, 3)), "items hold a zero vector"),
        (lambda: interests.score(torch.ones(2, 3), -1.0), "tau=-1.0"),
        (lambda: interests.score(torch.ones(2, 3), float("nan")), "tau=nan"),
        (lambda: interests.next_k(Z(2, 0), Z(2, 3), Z(3)), "positive has shape"),
        (lambda: interests.next_k(Z(2, 1), Z(2, 3), Z(4)), "log_q (4,)"),
        (lambda: interests.next_k(Z(2, 1), Z(2, 3), Z(3), None, "all"), "correction='all'"),
        (lambda: interests.match(torch.ones(2, 3), torch.ones(3, 3)), "for both"),
        (lambda: interests.fuse(torch.ones(1, 2), torch.ones(1, 2), -1.0, 0, Z(6)), "age=-1.0"),
        (lambda: interests.fuse(torch.ones(1, 2), torch.ones(1, 2), 0.0, 0, Z(5)), "w has shape"),
        (lambda: model.Settings(queries=0), "counts of 1"),
        (lambda: model.Settings(tau=0.0), "tau and rate"),
        (lambda: model.train([], np.zeros((0, 1)), Z(2, 2), 0), "as many, not 0"),
    ],
)
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)
