import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.deltas import retention
from repro.deltas.retention import Meta, RetentionPolicy
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/deltas.json").read_text())


def meta_of(vector):
    return Meta(np.arange(len(vector["chunk"])), vector["chunk"], np.array(vector["score"], float))


@pytest.mark.parametrize("name", ["selection", "spill"])
def test_selection_by_hand(name):
    vector = GOLDEN[name]
    names = ("budget", "sinks", "window", "buckets")
    policy = RetentionPolicy(**{n: vector[n] for n in names})
    assert policy.select(meta_of(vector)).tolist() == vector["kept"]


def test_quotas_and_buckets_by_hand():
    want = GOLDEN["quotas"]
    assert retention.quotas(want["quota"], want["buckets"]).tolist() == want["shares"]
    spill = GOLDEN["spill"]
    assert retention.bucket_of(np.array(spill["chunk"]), 4).tolist() == spill["bucket"]
    assert retention.bucket_of(np.zeros(0, int), 4).size == 0


class Oracle:
    """Algorithm 1 as the notes write it, token by token, for the rule "prefix"."""

    def __init__(self, budget, sinks, window, buckets):
        self.args = budget, sinks, window, buckets

    def select(self, meta):
        budget, sinks, window, buckets = self.args
        size = len(meta.position)
        if size <= budget:
            return list(range(size))
        free = list(range(sinks, size - window))
        cap = budget - sinks - window
        if not cap:
            return [*range(sinks), *range(size - window, size)]
        low, high = min(meta.chunk[i] for i in free), max(meta.chunk[i] for i in free)
        order = sorted(free, key=lambda i: (-meta.score[i], meta.position[i]))
        chosen = []
        for j in range(buckets):
            quota = cap // buckets + (j < cap % buckets)
            mine = [
                i
                for i in order
                if min(buckets - 1, (meta.chunk[i] - low) * buckets // (high - low + 1)) == j
            ]
            chosen += mine[:quota]
        chosen += [i for i in order if i not in chosen][: cap - len(chosen)]
        return sorted([*range(sinks), *chosen, *range(size - window, size)])


@st.composite
def cases(draw):
    sinks, window, cap = (draw(st.integers(0, 4)) for _ in range(3))
    buckets = draw(st.integers(1, 5))
    counts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=10))
    gaps = draw(st.lists(st.integers(1, 9), min_size=len(counts), max_size=len(counts)))
    values = draw(st.lists(st.integers(0, 5), min_size=len(counts), max_size=len(counts)))
    chunk = np.repeat(np.cumsum(gaps), counts)
    meta = Meta(3 * np.arange(len(chunk)), chunk, np.repeat(values, counts).astype(float))
    return (max(1, sinks + window + cap), sinks, window, buckets), meta


@settings(max_examples=150, deadline=None)
@given(cases())
def test_selection_is_the_oracle_s(drawn):
    arguments, meta = drawn
    assert RetentionPolicy(*arguments).select(meta).tolist() == Oracle(*arguments).select(meta)


@settings(max_examples=80, deadline=None)
@given(cases(), st.sampled_from(retention.WITHIN))
def test_invariants(drawn, within):
    (budget, sinks, window, buckets), meta = drawn
    policy = RetentionPolicy(budget, sinks, window, buckets, within)
    kept = policy.select(meta)
    assert (np.diff(kept) > 0).all() and len(kept) <= budget
    if within != "whole":
        assert len(kept) == min(budget, len(meta))
    assert set(range(min(sinks, len(meta)))) <= set(kept.tolist())
    assert set(range(max(0, len(meta) - window), len(meta))) <= set(kept.tolist())
    again = policy.select(meta.take(kept))
    assert again.tolist() == list(range(len(kept)))


def test_whole_chunks_go_or_stay():
    chunk, score = np.repeat(np.arange(6), 4), np.repeat([5.0, 1, 4, 2, 3, 0], 4)
    meta = Meta(np.arange(24), chunk, score)
    kept = RetentionPolicy(14, 0, 4, 2, "whole").select(meta)
    assert sorted(set(chunk[kept])) == [0, 4, 5]  # the best of each bucket, and the window
    assert len(kept) == 12  # two entries stay unused


def test_spread_takes_every_other_token_first():
    meta = Meta(np.arange(8), np.zeros(8, int), np.zeros(8))
    assert RetentionPolicy(4, 0, 0, 1, "spread").select(meta).tolist() == [0, 2, 4, 6]
    assert RetentionPolicy(4, 0, 0, 1).select(meta).tolist() == [0, 1, 2, 3]


ONES = np.ones(3)
BAD = [
    (lambda: RetentionPolicy(11, 4, 8), "budget=11", "at least 12"),
    (lambda: RetentionPolicy(0, 0, 0), "budget=0", "at least 1"),
    (lambda: RetentionPolicy(20, -1), "sinks=-1", "at least 0"),
    (lambda: RetentionPolicy(20, 1.5), "sinks=1.5", "integer"),
    (lambda: RetentionPolicy(20, buckets=0), "buckets=0", "at least 1"),
    (lambda: RetentionPolicy(20, within_chunk="last"), "within_chunk='last'", "prefix"),
    (lambda: Meta([0, 1, 2], [0, 0], ONES), "chunk (2,)", "[S] both"),
    (lambda: Meta([0, 2, 1], [0, 0, 0], ONES), "position does not rise", "original"),
    (lambda: Meta([0, 1, 2], [0, 1, 0], ONES), "chunk falls", "in order"),
    (lambda: Meta([0, 1, 2], [0, 0, 0], [0, np.nan, 1]), "1 NaN", "none of them NaN"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
