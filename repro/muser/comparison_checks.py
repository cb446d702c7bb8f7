"""What must hold of split, fused items, controls and retrieval, and of item semantics.

Sources: arXiv 2609.23677 as the project's notes give it, sections 3.1, 4, 5 and 9. Values are
worked by hand. Everything is reached through its module, so that a planted fault is seen.
"""

from functools import cache

import numpy as np
import torch

from repro.muser import (
    cold,
    compression,
    controls,
    data,
    fused,
    retrieval,
    semantics,
    semantics_checks,
    study_comparison,
)
from repro.muser.semantics_checks import near

# Split and ranking -----------------------------------------------------------------------------


def _log() -> data.Log:
    """Two users; item 3 is met after time 4 only, by user 1."""
    rows = [(0, 0, 1.0), (1, 1, 2.0), (0, 1, 3.0), (0, 0, 4.0), (0, 2, 5.0), (1, 3, 6.0), (1, 3, 7)]
    return data.log("hand", *zip(*rows, strict=True), ("w", "x", "y", "z"))


def split_by_hand() -> None:
    """At time 4: user 0 knows items 0, 1 and wants 2; user 1 knows 1 and wants 3, once."""
    rows = data.at(_log(), 4.0)
    assert [h.tolist() for h in rows.history] == [[0, 1], [1]], rows.history
    assert [f.tolist() for f in rows.future] == [[2], [3]], rows.future


def nothing_after_the_cut_is_known() -> None:
    """No history of anybody reaches the cut, and nothing that is wanted lies before it."""
    for rows in cold.parts(_world()):
        known = max(t.max() for t in rows.times)
        first = min(t.min() for t in rows.later)
        assert known < rows.cut <= first, f"cut {rows.cut}: known to {known}, wanted from {first}"


def popularity_ends_at_the_cut() -> None:
    """Counts at time 4 by hand: items 0, 1, 2, 3 have 1, 2, 0, 0 actions before it."""
    found = controls.popularity(data.at(_log(), 4.0))
    near(found, [[1, 2, 0, 0]] * 2, "counts")


def ranks_by_hand() -> None:
    """Seen items make no rank; a tie counts half, so that equal scores are no advantage."""
    rows = data.at(_log(), 4.0)
    found = data.ranks(np.array([[9.0, 8.0, 1.0, 2.0], [1.0, 9.0, 1.0, 1.0]]), rows)
    near(np.concatenate(found), [1.0, 1.0], "ranks")


# Fused items, training, controls -----------------------------------------------------------------


def fusion_by_hand() -> None:
    """W_g = 0: g = 1/2, so ids (3, 0) and semantics (0, 8) fuse to (3, 4) / 5; the sum to 73."""
    for parts, expected in (("gate", [0.6, 0.8]), ("sum", [3 / 73**0.5, 8 / 73**0.5])):
        tower = fused.Tower(torch.tensor([[0.0, 1.0]]), 2, parts)
        with torch.no_grad():
            tower.b.copy_(torch.tensor([[3.0, 0.0]]))
            tower.W_b.copy_(torch.eye(2))
            tower.W_z.copy_(8 * torch.eye(2))
            if parts == "gate":
                tower.W_g.zero_()
        near(tower(torch.tensor([7])).detach()[0], expected, parts)


def alignment_by_hand() -> None:
    """Two pairs at right angles: log(1 + e^(-1/tau)); all alike: log 2."""
    eye = torch.eye(2, dtype=torch.float64)
    near(fused.alignment(eye, 3 * eye, 0.5), np.log1p(np.exp(-2.0)), "apart")
    near(fused.alignment(eye[[0, 0]], eye[[0, 0]], 0.5), np.log(2), "alike")


def batches_are_pooled_as_one_by_one() -> None:
    """Tokens of a batch of histories of unequal length equal the pooling of each alone."""
    rows = data.at(_world().log, cold.CUTS[0])
    plans = [compression.plan(len(h) - at, 4, 32) for at, h in enumerate(rows.history[:3])]
    short = [h[: p.length] for h, p in zip(rows.history, plans, strict=False)]
    few = data.Rows(rows.cut, rows.users[:3], tuple(short), (), (), (), rows.counts)
    e = torch.randn(len(rows.counts), 5, generator=torch.Generator().manual_seed(0))
    found, mask, sizes = fused.Tokens(few, plans).of(e, np.arange(3))
    for at, (history, plan) in enumerate(zip(short, plans, strict=True)):
        alone = compression.pool(compression.gather(e, history), plan)
        near(found[at, : len(plan)], alone, "tokens", 1e-5)
        assert int(mask[at].sum()) == len(plan) and int(sizes[at].sum()) == plan.length


def future_items_are_no_negatives() -> None:
    """Negatives come from items that were met in training; those of the last cut are not there."""
    world = _world()
    early = world.catalogue.arrives < cold.CUTS[-1]
    drawn = fused.pool(cold.parts(world)[:-1])
    assert early[drawn].all(), f"{(~early[drawn]).sum()} items have not arrived yet"


@cache
def _world() -> cold.World:
    shelf = cold.catalogue(np.random.default_rng(0), per_topic=30, topics=4)
    return cold.draw(np.random.default_rng(1), shelf, people=30, length=40, after=8)


def semantics_find_cold_items() -> None:
    """Ids with semantics find more cold items, by intervals, than ids alone or others' texts.

    The second part is what shows meaning: a gate that sees counts alone can favour new items.
    """
    few = fused.Settings(d=8, queries=2, steps=30, batch=16, negatives=32, rate=0.05)
    names = ("ids and semantics", "ids only", "texts of other items")
    arms = {name: study_comparison.ARMS[name] for name in names}
    z = study_comparison.semantic(_world().catalogue.texts, semantics.hashed(64))
    study = study_comparison.compare(cold.parts(_world()), z, arms, 3, few, 4, 16)
    ours, *others = (study.recall(arm, 15, "cold") for arm in arms)
    for name, theirs in zip(names[1:], others, strict=True):
        word, low, high = study_comparison.verdict(ours, theirs)
        assert word == "above", f"{word} {name}, interval {low:.3f} to {high:.3f}"


def neighbours_by_hand() -> None:
    """Users know {0, 1} and {1}: items 0 and 1 are similar by 1 / sqrt(1 x 2)."""
    found = controls.item_knn(data.at(_log(), 4.0))
    s = 2**-0.5
    near(found, [[s, s, 0, 0], [s, 0, 0, 0]], "item-kNN")


def routing_by_hand() -> None:
    """One interest takes all: squash of the sum. |(0, 2)| = 2 becomes 4/5, along the sum."""
    tokens = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [5.0, 5.0]]])
    mask = torch.tensor([[True, True, False]])
    near(controls.routing(tokens, torch.zeros(1, 3), mask), [[[0, 0.8]]], "interest")


# Retrieval -------------------------------------------------------------------------------------


def _vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 12)).astype(np.float32)


def merging_loses_nothing() -> None:
    """Exact search for each interest and a merge give the first k by largest cosine, in order."""
    index, u = retrieval.Exact(_vectors(300, 0)), _vectors(4, 1)
    found = retrieval.merged(index, u, 20)
    best = (retrieval.unit(u, "u") @ index.items.T).max(0)
    assert found.items.tolist() == np.argsort(-best, kind="stable")[:20].tolist(), "other items"


def lengths_do_not_matter() -> None:
    """Longer items and shorter interests give the same list."""
    items, u = _vectors(60, 0), _vectors(3, 1)
    scale = np.linspace(0.1, 9.0, 60)[:, None]
    plain = retrieval.merged(retrieval.Exact(items), u, 10)
    other = retrieval.merged(retrieval.Exact(scale * items), 0.2 * u, 10)
    assert other.items.tolist() == plain.items.tolist(), "lengths changed the list"


def the_graph_finds_what_is_there() -> None:
    """At its defaults, HNSW finds 0.99 of what exact search finds, mean over 20 users."""
    items = _vectors(800, 2)
    graph, exact = retrieval.Hnsw(items), retrieval.Exact(items)
    users = [_vectors(4, 10 + at) for at in range(20)]
    lists = [[retrieval.merged(index, u, 30).items for index in (graph, exact)] for u in users]
    mean = np.mean([retrieval.agreement(*pair) for pair in lists])
    assert mean >= 0.99, f"agreement {mean:.3f}"


def rescoring_by_hand() -> None:
    """Item 0 has cosines 0.8 and 0.6, item 1 has 0.85 and 0: max prefers 1, a soft score 0."""
    u = np.eye(3)[:2]
    items = np.array([[0.8, 0.6, 0.0], [0.85, 0.0, (1 - 0.85**2) ** 0.5]])
    found = retrieval.merged(retrieval.Exact(items), u, 2)
    assert found.items.tolist() == [1, 0], f"by max {found.items}"
    soft = retrieval.rescored(found, items, u, 10.0, 2)
    assert soft.items.tolist() == [0, 1], f"soft {soft.items}"
    near(soft.scores, [0.701, 0.443], "soft scores", 2e-3)


CHECKS = semantics_checks.CHECKS | {
    check.__name__: check
    for check in (
        split_by_hand, nothing_after_the_cut_is_known, popularity_ends_at_the_cut, ranks_by_hand,
        fusion_by_hand, alignment_by_hand, batches_are_pooled_as_one_by_one,
        future_items_are_no_negatives, semantics_find_cold_items, neighbours_by_hand,
        routing_by_hand, merging_loses_nothing, lengths_do_not_matter,
        the_graph_finds_what_is_there, rescoring_by_hand,
    )
}  # fmt: skip
