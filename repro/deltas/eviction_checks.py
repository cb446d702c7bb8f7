"""What must hold of `repro.deltas.retention` and `runner`: worked values and invariants.

Source: arXiv 2609.27470, Algorithm 1 as its readers report it; vectors worked by hand. Everything
is reached through the modules, so that a planted fault is seen.
"""

from functools import lru_cache

import numpy as np
import torch

from repro.deltas import retention, runner
from repro.deltas.hybrid import SmallHybrid

#: twelve tokens, two a chunk; one sink, a window of two, room for five, two buckets
HAND = {
    "policy": {"budget": 5, "sinks": 1, "window": 2, "buckets": 2},
    "chunk": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    "score": [9, 9, 5, 5, 1, 1, 2, 2, 3, 3, 0, 0],
    # candidates 1 .. 9 of chunks 0 .. 4: bucket 0 holds chunks 0, 1, 2; bucket 1 holds 3, 4
    "prefix": [0, 1, 8, 10, 11],  # the best of each: token 1 of chunk 0, token 8 of chunk 4
    # chunks 0 and 1 died long ago: chunks 2 .. 5 are cached, and 40 to 43 after a gap
    "gap_chunk": [2, 3, 4, 5, 40, 41, 42, 43],
    "gap_score": [0, 1, 2, 3, 9, 8, 7, 6],
    "gap_policy": {"budget": 4, "sinks": 0, "window": 0, "buckets": 4},
    "gap": [3, 4, 5, 6],  # buckets 1 and 2 are empty: their quota goes to the best of the rest
}


def _meta(chunk, score, start: int = 0) -> retention.Meta:
    return retention.Meta(start + np.arange(len(chunk)), np.array(chunk), np.array(score, float))


def _same(found, expected, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert np.array_equal(found, expected), f"{what}: {found.tolist()} != {expected.tolist()}"


def the_best_of_each_bucket() -> None:
    """Sinks, window, and the best of two buckets, worked by hand."""
    policy = retention.RetentionPolicy(**HAND["policy"])
    _same(policy.select(_meta(HAND["chunk"], HAND["score"])), HAND["prefix"], "kept")


def buckets_follow_arrival() -> None:
    """Buckets are cut by original chunk index; what an empty one leaves goes to the best."""
    policy = retention.RetentionPolicy(**HAND["gap_policy"])
    _same(retention.bucket_of(np.array(HAND["gap_chunk"]), 4), [0, 0, 0, 0, 3, 3, 3, 3], "buckets")
    _same(policy.select(_meta(HAND["gap_chunk"], HAND["gap_score"])), HAND["gap"], "kept")


def the_budget_is_used_and_kept() -> None:
    """Exactly B of many tokens stay, rising, sinks and window among them; twice is once."""
    rng = np.random.default_rng(0)
    for buckets in (1, 3, 7):
        for within in ("prefix", "spread", "whole"):
            policy = retention.RetentionPolicy(20, 3, 5, buckets, within)
            chunk = np.repeat(np.sort(rng.choice(90, 12, replace=False)), 4)
            meta = _meta(chunk, np.repeat(rng.random(12), 4))
            kept = policy.select(meta)
            _same(kept[:3], [0, 1, 2], "sinks")
            _same(kept[-5:], np.arange(43, 48), "window")
            assert (np.diff(kept) > 0).all(), f"kept does not rise: {kept}"
            most = len(kept) <= 20 if within == "whole" else len(kept) == 20
            assert most, f"{len(kept)} tokens kept with {buckets} buckets, {within}"
            _same(policy.select(meta.take(kept)), np.arange(len(kept)), "kept of the kept")


def inside_a_chunk() -> None:
    """A chunk that is cut keeps its first tokens, or spread ones, or goes as a whole."""
    chunk, score = np.repeat([0, 1], 8), np.repeat([1.0, 2.0], 8)
    kept = {
        rule: retention.RetentionPolicy(12, 0, 0, 1, rule).select(_meta(chunk, score))
        for rule in retention.WITHIN
    }
    _same(kept["prefix"], [0, 1, 2, 3, *range(8, 16)], "prefix")
    _same(kept["spread"], [0, 2, 4, 6, *range(8, 16)], "spread")
    _same(kept["whole"], range(8, 16), "whole")


@lru_cache
def model() -> SmallHybrid:
    """A tiny random hybrid with two attention layers."""
    torch.manual_seed(0)
    return SmallHybrid(8, 4, 16, 2, 4, "dada").eval().requires_grad_(False)


def _frames(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 1, 4, 8, generator=torch.Generator().manual_seed(seed))


def _read(frames, policy=None, signal="drift") -> runner.StreamRunner:
    found = runner.StreamRunner(model(), policy, signal)
    for frame in frames:
        found.feed(frame)
    return found


def _small(**changes) -> retention.RetentionPolicy:
    return retention.RetentionPolicy(
        **{"budget": 16, "sinks": 2, "window": 4, "buckets": 2} | changes
    )


def positions_stay_original() -> None:
    """After evictions the next position is the number of tokens read, not of those kept."""
    read = _read(_frames(9), _small())
    _same(read.next_position, [36], "next position")
    _same(read.position[0], read.index, "positions of the kept")
    read.feed(_frames(1)[0])
    _same(read.position[0, 0, -4:], [36, 37, 38, 39], "positions of a chunk after evictions")


def evicting_is_masking() -> None:
    """A cache without some entries answers as a full one in which they are masked."""
    read, whole = _read(_frames(4), _small()), _read(_frames(4))
    for frame in _frames(5, 3):
        read.feed(frame)
        whole.feed(frame)
        whole.real = np.isin(whole.index, read.index)
    question = _frames(1, 5)[0]
    gap = (read.ask(question) - whole.ask(question)).abs().max()
    assert gap < 1e-4, f"logits differ by {gap:g}"


def layers_keep_the_same() -> None:
    """All attention layers gather the same list: kept keys are those of the full cache."""
    full, evicted = _read(_frames(5)), _read(_frames(5), _small())  # one eviction, at the end
    whole, cut = full.memory.attended(), evicted.memory.attended()
    index = torch.from_numpy(evicted.index[0])
    for layer, ((keys, values), (kept, held)) in enumerate(zip(whole, cut, strict=True)):
        assert torch.equal(keys[:, :, index], kept), f"keys of attention layer {layer}"
        assert torch.equal(values[:, :, index], held), f"values of attention layer {layer}"


def scores_stay_as_born() -> None:
    """A token keeps the score of its birth through later chunks and evictions."""
    read = _read(_frames(9), _small())
    born = np.concatenate(read.scores, 1)
    _same(read.score[0], born[0, read.index[0]], "scores of the kept")


def asking_changes_nothing() -> None:
    """Asked twice: the same answer, and the stream is bit for bit as if never asked."""
    read, never = _read(_frames(7), _small()), _read(_frames(7), _small())
    question = _frames(1, 5)[0]
    first, second = read.ask(question), read.ask(question)
    assert torch.equal(first, second), "the second answer differs"
    assert runner.same(read.state(), never.state()), "the stream differs from one never asked"
    one, other = read.feed(_frames(1, 6)[0]), never.feed(_frames(1, 6)[0])
    assert torch.equal(one, other), "the next chunk differs from one never asked"


def pieces_are_one_shot() -> None:
    """Without a budget, a stream in pieces gives the logits of one pass."""
    frames = _frames(5)
    whole = runner.StreamRunner(model(), None).feed(frames.permute(1, 0, 2, 3).flatten(1, 2))
    read = runner.StreamRunner(model(), None)
    parts = torch.cat([read.feed(frame) for frame in frames], 1)
    gap = (whole - parts).abs().max()
    assert gap < 1e-4, f"logits differ by {gap:g}"


CHECKS = {
    check.__name__: check
    for check in (
        the_best_of_each_bucket,
        buckets_follow_arrival,
        the_budget_is_used_and_kept,
        inside_a_chunk,
        positions_stay_original,
        evicting_is_masking,
        layers_keep_the_same,
        scores_stay_as_born,
        asking_changes_nothing,
        pieces_are_one_shot,
    )
}
