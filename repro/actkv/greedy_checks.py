"""What must hold of drafts and of greedy calls, on a tiny random model; see `cache_checks.tiny`."""

from copy import deepcopy
from functools import cache
from typing import ClassVar

import numpy as np
import torch

from repro.actkv import draft, study_baselines, study_greedy
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import LAYERS, tiny, tokens
from repro.actkv.policies.fullkv import FullKV
from repro.actkv.policies.random_keep import RandomKeep
from repro.traces import Trace

PREFIX, BUDGET, MOST = 5, 4, 6


class Counting(RandomKeep):
    """Random keep that counts the tokens it was shown, in all copies together."""

    shown: ClassVar[list[int]] = []

    def observe(self, layer, queries, keys, phase):
        if layer == 0:
            self.shown.append(queries.shape[1])


@cache
def trace() -> Trace:
    """Three rounds of 9, 8 and 7 tokens after a prefix of 5; ids by lot."""
    regions = [(0, -1, PREFIX)]
    for at, seen in enumerate((4, 3, 2)):
        regions += [(1, at, seen), (2, at, 1), (3, at, 3), (2, at, 1)]
    labels = np.array([label for label, _, n in regions for _ in range(n)], np.int8)
    rounds = np.array([at for _, at, n in regions for _ in range(n)], np.int32)
    ids = np.random.default_rng(4).integers(1, 61, labels.size)
    return Trace(ids, labels, rounds, np.zeros((labels.size, 2), np.int32), "", ("tiny",))


def begun() -> study_baselines.Start:
    made = {
        "fullkv": FullKV(layers=LAYERS, protected=PREFIX),
        "random": Counting(layers=LAYERS, protected=PREFIX, seed=3),
    }
    return study_baselines.start(tiny(), trace(), made)


def written(start: study_baselines.Start) -> list[study_greedy.Call]:
    return study_greedy.write(tiny(), start, lambda said: False, lambda said, ids: False, MOST)


def draft_leaves_no_trace() -> None:
    """After a draft the cache is as it was, and later tokens are read as without it."""
    found = []
    for drafting in (False, True):
        one = PagedCache(tiny(), 1, blocks=8)
        tiny()(tokens(20), cache=one)
        one.evict(np.tile(np.arange(0, 20, 2), (LAYERS, 1)))
        if drafting:
            with draft.draft(one):
                tiny()(tokens(9, seed=1), cache=one)
        logits = tiny()(tokens(6, seed=2), cache=one).logits
        found.append((logits, one.counters(), one.positions()))
    (plain, counted, at), (after, recounted, place) = found
    assert torch.equal(plain, after), "later tokens see what a draft has left"
    assert counted == recounted and (at == place).all(), "counters remember the draft"


def full_cache_follows_itself() -> None:
    """The full cache never parts from the calls that it wrote itself."""
    start = begun()
    calls = written(start)
    found = study_greedy.follow(tiny(), start, calls, ["fullkv"], BUDGET)["fullkv"]
    assert found.tolist() == [MOST] * 3, f"agreed on {found.tolist()} of {MOST} tokens"


def parts_where_its_own_call_does() -> None:
    """An arm parts at the token at which a call that it decodes alone first differs."""
    start = begun()
    calls = written(start)
    found = study_greedy.follow(tiny(), start, calls, ["random"], BUDGET)["random"]
    assert found.tolist() == _alone(start, calls), "another token than in decoding alone"


def _alone(start: study_baselines.Start, calls: list[study_greedy.Call]) -> list[int]:
    """The same from step-by-step decoding on deep copies of the cache, without drafts."""

    model, policy = tiny(), RandomKeep(layers=LAYERS, protected=PREFIX, seed=3)
    one, tail, waiting, found = PagedCache(model), None, iter(calls), []
    regions = [("prefix", 0, PREFIX, False), *study_baselines.passes(start)]
    with torch.inference_mode():
        for phase, first, stop, over in regions:
            if phase == "action":
                trial, step, said = deepcopy(one), tail, []
                for _ in range(MOST):
                    said.append(int(step.argmax()))
                    step = model(torch.tensor([said[-1:]]), cache=trial).logits[0, -1]
                agree = np.array(said) == next(waiting).tokens
                found.append(MOST if agree.all() else int((~agree).argmax()))
            ids = torch.as_tensor(trace().ids[first:stop])[None]
            tail = model(ids, cache=one).logits[0, -1]
            held = one.physical[0]
            if study_baselines.due(policy, held, BUDGET, start.slack, over):
                one.evict(policy.select(held, BUDGET, one.keys))
    return found


def drafts_are_not_watched() -> None:
    """A policy is shown the recorded tokens and no drafted one."""
    start = begun()
    Counting.shown.clear()
    study_greedy.follow(tiny(), start, written(start), ["random"], BUDGET)
    seen, there = sum(Counting.shown), len(trace()) - PREFIX
    assert seen == there, f"shown {seen} tokens; the trace has {there}"


def first_difference_by_hand() -> None:
    """Of calls that differ twice, at once, or never, the first difference counts."""
    choices = np.array([[7, 8, 0, 0], [0, 8, 9, 6], [7, 8, 9, 6]])
    found = study_greedy._parts(choices, np.array([7, 8, 9, 6]))
    assert found.tolist() == [2, 0, 4], f"found {found.tolist()}"


CHECKS = {
    check.__name__: check
    for check in (
        draft_leaves_no_trace,
        full_cache_follows_itself,
        parts_where_its_own_call_does,
        drafts_are_not_watched,
        first_difference_by_hand,
    )
}
