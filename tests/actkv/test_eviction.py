import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from repro.actkv import access, eviction
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/actkv.json").read_text())
ROWS = arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1, allow_subnormal=False))
MASS = st.floats(0.05, 1.0)
TIES = st.sampled_from(["newer", "older"])


# The notes' reference code (section 6.1), written again as an oracle: no prefix, ties newer.
class Oracle:
    def __init__(self, decay, mass):
        self.decay, self.mass, self.score = decay, mass, []

    def round(self, rows, length, budget):
        mean = [sum(r[i] for r in rows if i < len(r)) / len(rows) for i in range(length)]
        order, total, hits = sorted(range(length), key=lambda i: (-mean[i], -i)), 0.0, set()
        for i in order:
            if mean[i] > 0 and total < (self.mass - 1e-6) * sum(mean):
                hits.add(i)
                total += mean[i]
        old = list(self.score) + [0.0] * (length - len(self.score))
        new = [self.decay * old[i] + (mean[i] if i in hits else 0.0) for i in range(length)]
        kept = sorted(sorted(range(length), key=lambda i: (-new[i], -i))[:budget])
        self.score = [new[i] for i in kept]
        return kept


def test_recurrence_against_the_notes():
    golden = GOLDEN["recurrence"]
    policy = eviction.ActionLRFU(golden["decay"], golden["mass"])
    for row in golden["rounds"]:
        policy.observe(row["a"])
        policy.step(len(row["a"]), 100)
        assert policy.last_hits.tolist() == row["hits"]
        assert policy.score == pytest.approx(row["score"])
    nucleus = GOLDEN["nucleus"]
    assert eviction.hit_set(nucleus["a"]).tolist() == nucleus["hits"]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 12))
def test_rounds_are_the_oracle(seed, decay, budget):
    rng = np.random.default_rng(seed)
    policy, oracle, length = eviction.ActionLRFU(decay, 0.8), Oracle(decay, 0.8), 0
    for _ in range(6):
        known, length = max(1, length), length + int(rng.integers(1, 8))
        sizes = sorted(rng.integers(known, length + 1, 3))  # the cache grows during the action
        rows = [rng.dirichlet(np.full(n, 0.3)) for n in sizes]
        for row in rows:
            policy.observe(row)
        kept = policy.step(length, budget)
        assert kept.tolist() == oracle.round(rows, length, budget)
        assert policy.score == pytest.approx(oracle.score, abs=1e-12)
        length = kept.size


@given(ROWS, MASS, TIES, st.integers(0, 5))
def test_hit_set_reaches_the_mass_and_is_minimal(row, mass, ties, protected):
    hits = eviction.hit_set(row, mass, protected, ties=ties)
    free = row[protected:]
    assert (np.diff(hits) > 0).all() and (hits >= protected).all()
    assert (row[hits] > 0).all()
    assert row[hits].sum() >= (mass - 2e-6) * free.sum()
    if hits.size:
        assert row[hits].sum() - row[hits].min() < mass * free.sum()
        out = np.setdiff1d(np.arange(protected, row.size), hits)
        assert not out.size or row[out].max() <= row[hits].min()


@given(st.permutations(range(12)), MASS)
def test_hit_set_follows_a_permutation(order, mass):
    row = np.random.default_rng(1).dirichlet(np.ones(12))
    hits = eviction.hit_set(row, mass)
    assert sorted(np.array(order)[eviction.hit_set(row[order], mass)]) == hits.tolist()


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(0, 4),
    st.booleans(),
)
def test_kept_size_and_prefix(added, budget, protected, counted):
    budget += protected * counted
    policy = eviction.ActionLRFU(protected=protected, prefix_in_budget=counted)
    rng, length, limit = np.random.default_rng(0), protected, budget + protected * (not counted)
    for more in added:
        length += more
        policy.observe(rng.dirichlet(np.ones(length)))
        kept = policy.step(length, budget)
        assert kept.size == min(limit, length) == policy.score.size
        assert kept[:protected].tolist() == list(range(protected))
        assert (np.diff(kept) > 0).all()
        length = kept.size


def test_group_and_head_reductions():
    attn = np.random.default_rng(0).dirichlet(np.ones(7), size=(2, 3, 4))
    for group, head in (("max", "mean"), ("max", "max"), ("mean", "mean"), ("mean", "max")):
        expected = getattr(getattr(attn, group)(1), head)(0).mean(0)
        assert eviction.action_attention(attn, group, head) == pytest.approx(expected)
    assert eviction.action_attention(attn[:, :1]).sum() == pytest.approx(1)  # G = 1


def test_a_reduced_row_counts_for_its_tokens():
    rng = np.random.default_rng(0)
    attn = rng.dirichlet(np.ones(5), size=(1, 1, 6))
    whole, pieces = (eviction.ActionLRFU(mass=1.0) for _ in range(2))
    whole.observe(attn)
    for part in (attn[:, :, :5], attn[:, :, 5:]):
        pieces.observe(eviction.action_attention(part), tokens=part.shape[2])
    for policy in (whole, pieces):
        policy.step(5, 5)
    assert pieces.score == pytest.approx(whole.score)


def test_prefix_in_mass_leaves_less_of_the_nucleus():
    row = [0.85, 0.08, 0.04, 0.03]
    assert eviction.hit_set(row, protected=1).tolist() == [1, 2, 3]
    assert eviction.hit_set(row, protected=1, prefix_in_mass=True).tolist() == [1]


def test_round_without_action():
    for rule, score, kept in (("skip", [0, 1, 0, 0], [0, 1, 2, 3]), ("decay", [0.5, 0], [1, 3])):
        policy = eviction.ActionLRFU(no_action=rule)
        policy.observe([0, 1, 0])
        policy.step(3, 3)
        assert policy.step(4, 2).tolist() == kept
        assert policy.score.tolist() == score
        assert policy.last_hits.size == 0


def test_replay_follows_positions_through_evictions():
    rows = [np.array([0, 0.1, 0.9, 0]), None, np.array([0, 0, 0.2, 0, 0, 0.8, 0])]
    cached = eviction.replay(eviction.ActionLRFU(), rows, [4, 6, 8], [2, 2, 3])
    assert [c.tolist() for c in cached] == [[2, 3], [2, 3, 4, 5], [2, 5, 7]]


def test_access_classes():
    for bits, name in GOLDEN["access"]["classes"].items():
        vector = [b == "1" for b in bits]
        assert access.access_class(vector) == name
        assert access.access_class([False, *vector], born=1) == name  # not visible before birth
    vectors = access.access_vectors([np.array([0, 2]), np.array([], int), np.array([0, 1])], 4)
    assert vectors.shape == (4, 3)
    found = access.access_classes(vectors, np.array([0, 2, 0, 1]))
    assert found.tolist() == ["intermittent", "continuous", "continuous", "never"]


LRFU = eviction.ActionLRFU
BAD = [
    (lambda: LRFU(decay=1.5), "decay=1.5", "[0, 1]"),
    (lambda: LRFU(decay=float("nan")), "decay=nan", "[0, 1]"),
    (lambda: LRFU(mass=0), "mass=0", "(0, 1]"),
    (lambda: LRFU(protected=-1), "protected=-1", ">= 0"),
    (lambda: LRFU(ties="random"), "ties='random'", "newer"),
    (lambda: LRFU(no_action="stop"), "no_action='stop'", "skip"),
    (lambda: LRFU(group_reduce="sum"), "group_reduce='sum'", "max"),
    (lambda: LRFU(head_reduce="sum"), "head_reduce='sum'", "mean"),
    (lambda: eviction.hit_set([0.5, -0.1]), "attention", ">= 0"),
    (lambda: eviction.hit_set([0.5, np.nan]), "attention", "NaN"),
    (lambda: eviction.hit_set([[0.5]]), "(1, 1)", "[S]"),
    (lambda: eviction.hit_set([0.5], mass=1.1), "mass=1.1", "(0, 1]"),
    (lambda: eviction.hit_set([0.5], ties="old"), "ties='old'", "older"),
    (lambda: eviction.action_attention(np.ones((2, 3))), "(2, 3)", "[H_k, G, A, S]"),
    (lambda: eviction.action_attention(-np.ones((1, 1, 1, 1))), "attn", ">= 0"),
    (lambda: LRFU().step(4, 0), "budget=0", ">= 1"),
    (lambda: LRFU().step(0, 4), "length=0", ">= 1"),
    (lambda: LRFU(protected=5).step(4, 4), "length=4", "at least the 5"),
    (lambda: LRFU(protected=5, prefix_in_budget=True).step(6, 4), "budget=4", ">= 5"),
    (lambda: LRFU().observe([0.5], tokens=0), "tokens=0", ">= 1"),
    (lambda: access.access_vectors([np.array([4])], 4), "hits_per_round[0]", "0..3"),
    (lambda: access.access_class([True, False], born=1), "born=1", "at most 0"),
    (lambda: access.access_class([True], born=1), "born=1", "0..0"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)


def test_a_shorter_cache_than_known_is_refused():
    policy = LRFU()
    policy.observe([0.2, 0.8])
    with pytest.raises(ValueError, match="attn covers 1 slots; accepted: at least the 2"):
        policy.observe([1.0])
    with pytest.raises(ValueError, match="length=1 is refused; accepted: at least the 2"):
        policy.step(1, 1)
    policy.step(2, 2)  # the refused calls left the round as it was
    assert policy.score.tolist() == [0.2, 0.8]
