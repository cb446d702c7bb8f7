"""MuSeR's retrieval: the merge against the oracle, the graph against exact search, bad input."""

import builtins
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter, ReproError
from repro.muser import data, retrieval, study_lists

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "muser_comparison.json").read_text("utf-8")
)["by_hand"]


@pytest.fixture(scope="module")
def large():
    items, u = study_lists.scattered(4000, 24, 0)
    return retrieval.Exact(items), retrieval.Hnsw(items), u


def _agreement(index, exact, u, k=50, each=None):
    pairs = [(retrieval.merged(index, x, k, each), retrieval.merged(exact, x, k)) for x in u]
    return np.mean([retrieval.agreement(a.items, b.items) for a, b in pairs])


def test_the_graph_at_its_defaults(large):
    exact, graph, u = large
    assert _agreement(graph.search_with(retrieval.EXPANSION_SEARCH), exact, u) >= 0.99


def test_a_narrow_search_loses_items_so_that_the_measure_can_fail(large):
    exact, graph, u = large
    narrow = _agreement(graph.search_with(1), exact, u, 10)
    wide = _agreement(graph.search_with(retrieval.EXPANSION_SEARCH), exact, u, 10)
    assert narrow < 0.97 < wide


def test_the_graph_gives_the_same_twice(large):
    items, u = study_lists.scattered(500, 8, 1)
    one, two = (
        [retrieval.merged(retrieval.Hnsw(items), x, 20).items for x in u[:5]] for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 10_000))
def test_merging_each_interests_first_k_is_exact(m, k, seed):
    rng = np.random.default_rng(seed)
    index, u = retrieval.Exact(rng.normal(size=(40, 5))), rng.normal(size=(m, 5))
    best = (retrieval.unit(u, "u") @ index.items.T).max(0)
    found = retrieval.merged(index, u, k)
    assert np.allclose(found.scores, np.sort(best)[::-1][:k], atol=1e-6)
    assert len(set(found.items)) == k <= found.searched <= m * k


def test_fewer_for_each_interest_can_lose_items():
    """Two items belong to the first interest; with one kept for each, the second is lost."""
    items = np.array([[1.0, 0.0], [0.99, 0.1], [0.3, 1.0]])
    index = retrieval.Exact(items)
    assert retrieval.merged(index, np.eye(2), 2).items.tolist() == [0, 1]
    assert retrieval.merged(index, np.eye(2), 2, each=1).items.tolist() == [0, 2]


def test_golden_soft_score():
    case = GOLDEN["soft_score"]
    first, second = case["cosines"]
    items = np.array([[first, second, max(0.0, 1 - first**2 - second**2) ** 0.5]])
    found = retrieval.merged(retrieval.Exact(items), np.eye(3)[:2], 1)
    soft = retrieval.rescored(found, items, np.eye(3)[:2], case["tau"], 1)
    assert soft.scores[0] == pytest.approx(case["score"], abs=1e-5)


def test_agreement_is_apart_from_what_users_want():
    """A list equal to the oracle's can hold nothing that is wanted."""
    log = data.log("hand", [0, 0, 1], [0, 3, 1], [1.0, 3.0, 1.0], list("wxyz"))
    rows = data.at(log, 2.0)
    items = np.eye(4)
    u = np.array([[[0.0, 1.0, 0.5, 0.0]]])
    lists = [study_lists.lists(i, u, rows, 2) for i in (retrieval.Exact(items),) * 2]
    assert study_lists.agreements(*lists).tolist() == [1.0]
    assert lists[0][0].tolist() == [1, 2] and study_lists.hits(lists[0], rows).tolist() == [0.0]


def test_seen_items_leave_a_full_list():
    log = data.log("hand", [0] * 5 + [0], [0, 1, 2, 3, 4, 9], [1.0] * 5 + [3.0], ["t"] * 10)
    rows = data.at(log, 2.0)
    items = np.random.default_rng(0).normal(size=(10, 4))
    (found,) = study_lists.lists(retrieval.Exact(items), items[None, :2], rows, 5)
    assert sorted(found) == [5, 6, 7, 8, 9]


INDEX = retrieval.Exact(np.eye(3))


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: retrieval.Exact(np.ones(3)), "items has shape (3,)"),
        (lambda: retrieval.Exact(np.ones((0, 3))), "items has shape (0, 3)"),
        (lambda: retrieval.Exact(np.array([[1.0, np.nan]])), "items hold a zero vector or NaN"),
        (lambda: retrieval.Hnsw(np.zeros((2, 3))), "items hold a zero vector"),
        (lambda: retrieval.Hnsw(np.eye(3), connectivity=1), "connectivity=1"),
        (lambda: retrieval.Hnsw(np.eye(3)).search_with(0), "expansion_search=0"),
        (lambda: retrieval.merged(INDEX, np.ones((1, 4)), 1), "u has dimension 4"),
        (lambda: retrieval.merged(INDEX, np.ones((1, 3)), 4), "k=4"),
        (lambda: retrieval.merged(INDEX, np.ones((1, 3)), 0), "k=0"),
        (lambda: retrieval.merged(INDEX, np.ones((1, 3)), 1, 1.5), "each=1.5"),
        (lambda: retrieval.agreement(np.array([1]), np.array([])), "oracle is empty"),
    ],
)
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)


def test_without_usearch_the_message_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.startswith("usearch"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ReproError, match="pip install usearch"):
        retrieval.Hnsw(np.eye(3))
