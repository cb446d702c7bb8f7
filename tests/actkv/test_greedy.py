"""Calls written greedily, and drafts that are taken back."""

import numpy as np
import pytest

from repro import digest, notebooks
from repro.actkv import greedy_checks, study_greedy
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import LAYERS, tiny, tokens
from repro.actkv.draft import draft
from repro.actkv.greedy_faults import FAULTS


def test_the_check_against_decoding_alone_has_something_to_find():
    start = greedy_checks.begun()
    calls = greedy_checks.written(start)
    found = study_greedy.follow(tiny(), start, calls, ["random"], greedy_checks.BUDGET)
    assert min(found["random"]) < greedy_checks.MOST


def test_a_draft_neither_grows_nor_evicts():
    small = PagedCache(tiny(), 1, blocks=None)
    tiny()(tokens(8), cache=small)
    with pytest.raises(RuntimeError, match="the pool grew in a draft"), draft(small):
        tiny()(tokens(200), cache=small)
    fixed = PagedCache(tiny(), 1, blocks=4)
    tiny()(tokens(8), cache=fixed)
    with pytest.raises(RuntimeError, match="evicted in a draft"), draft(fixed):
        fixed.evict(np.tile(np.arange(4), (LAYERS, 1)))


def call(at, tokens, true=False):
    return study_greedy.Call(at, np.zeros(tokens, int), true)


def test_what_two_traces_say():
    study = study_greedy.Greedy(
        calls=[[call(0, 4), call(1, 6), call(3, 5)], [call(0, 3), call(1, 3)]],
        agreed={
            "fullkv": [np.array([4, 6, 5]), np.array([3, 3])],
            "actkv": [np.array([4, 2, 5]), np.array([3, 3])],
        },
    )
    assert study.whole("actkv").tolist() == [2 / 3, 1] and study.whole("fullkv").tolist() == [1, 1]
    assert study.steps("actkv").tolist() == [6, 6] and study.steps("fullkv").tolist() == [15, 6]
    assert study.first_round("actkv") == [1, None]


def test_only_the_first_rounds():
    start = greedy_checks.begun()
    calls = study_greedy.write(tiny(), start, lambda s: False, lambda s, ids: True, 3, rounds=2)
    assert [(c.round, len(c.tokens), c.true) for c in calls] == [(0, 3, True), (1, 3, True)]
    found = study_greedy.follow(tiny(), start, calls, ["fullkv"], 4, rounds=2)
    assert found["fullkv"].tolist() == [3, 3]
    calls = study_greedy.write(tiny(), start, lambda s: len(s) == 2, lambda s, ids: True, 3)
    assert [len(c.tokens) for c in calls] == [2, 2, 2]


def test_notebook_rests_on_drafts_and_policies():
    notebook = notebooks.read("actkv/greedy")
    assert notebook.assets == ("smollm2-135m", "bfcl-v4") and len(FAULTS) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert {"repro.actkv.draft", "repro.actkv.policies.actkv"} <= set(modules)
