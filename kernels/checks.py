"""Checks of plan, references and counts that take milliseconds and need no GPU and no simulator."""

import numpy as np

from kernels import compaction, paged_decode, paged_scores, plan, traffic

CASES = [(100, 40, 16), (17, 10, 16), (64, 64, 16), (200, 3, 8), (33, 16, 16), (6144, 4096, 16)]


def _keep(rng, length: int, survivors: int, prefix: int = 0) -> np.ndarray:
    keep = np.zeros(length, bool)
    keep[:prefix] = True
    keep[prefix + rng.choice(length - prefix, survivors - prefix, replace=False)] = True
    return keep


def golden_plan() -> None:
    """By hand: 9 slots in blocks of 4, slots 0, 5, 6, 8 survive and fit into the third block."""
    found = plan.plan(np.isin(np.arange(9), [0, 5, 6, 8]), 9, 4)
    assert found.src.tolist() == [0, 5, 6], f"src {found.src}"
    assert found.dst.tolist() == [9, 10, 11], f"dst {found.dst}"
    assert found.perm.tolist() == [8, 0, 5, 6], f"perm {found.perm}"
    assert found.freed_blocks.tolist() == [0, 1], f"freed {found.freed_blocks}"


def plan_invariants() -> None:
    """Disjoint sources and destinations, a permutation of the survivors, whole blocks freed."""
    rng = np.random.default_rng(0)
    for length, survivors, size in CASES:
        keep = _keep(rng, length, survivors)
        found = plan.plan(keep, length, size)
        assert not np.intersect1d(found.src, found.dst).size, "a destination is still read"
        assert len(found.src) == len(found.dst), "sources and destinations differ in number"
        assert (np.sort(found.perm) == np.flatnonzero(keep)).all(), "perm is no permutation"
        freed = -(-length // size) - -(-survivors // size)
        assert len(found.freed_blocks) == freed, (
            f"{len(found.freed_blocks)} blocks freed, not {freed}"
        )
        most = min(survivors, -(-length // size) * size - survivors)
        assert len(found.src) <= most, f"{len(found.src)} moves, {most} are enough"


def rounds_equal_gather() -> None:
    """Fifty rounds of append and compact leave what a list of survivors says, in any move order."""
    rng = np.random.default_rng(1)
    size, pool, prefix = 4, 16, 1
    cache = np.zeros((1, 2, pool, size, 1, 1))
    table, free = np.arange(0), list(rng.permutation(pool))
    names, told = np.zeros(0), 0
    for _ in range(50):
        new = told + 1 + np.arange(rng.integers(3, 12))
        told = new[-1]
        names = np.concatenate([names, new])
        while len(table) * size < len(names):
            table = np.append(table, free.pop())
        for slot, name in enumerate(names[-len(new) :], len(names) - len(new)):
            cache[0, :, table[slot // size], slot % size] = name
        keep = rng.random(len(names)) < 0.5
        keep[: prefix * size] = True
        found = plan.plan(keep, len(names), size, min(prefix, len(names) // size))
        assert len(found.src) == len(found.dst), "sources and destinations differ in number"
        order = rng.permutation(len(found.src))
        found = type(found)(
            found.src[order], found.dst[order], found.perm, found.freed_blocks, size
        )
        compaction.compact_reference(cache, table[None], [found])
        names = names[found.perm]
        table, back = plan.shorten(table, found)
        free.extend(back)
        assert len(set(free)) == len(free), "a block was given back twice"
        slot = np.arange(len(names))
        stored = cache[0, :, table[slot // size], slot % size, 0, 0]
        assert (stored == names[:, None]).all(), "the cache does not hold what perm says"


def shared_blocks_unwritten() -> None:
    """A shared block is a source or given back; to fill its holes is refused."""
    keep = np.isin(np.arange(9), [0, 5, 6, 8])
    plan.plan(keep, 9, 4, shared=np.array([True, True, False]))
    try:
        found = plan.plan(keep, 9, 4, shared=np.array([False, False, True]))
    except ValueError:
        return
    raise AssertionError(f"destinations {found.dst} lie in a shared block")


def prefix_stays() -> None:
    """Full prefix blocks are neither moved nor given back."""
    rng = np.random.default_rng(2)
    found = plan.plan(_keep(rng, 100, 60, prefix=32), 100, 16, prefix_blocks=2)
    assert min(found.src.min(), found.dst.min()) >= 32, "a prefix slot is moved"
    assert found.freed_blocks.min() >= 2, "a prefix block is given back"
    assert (found.perm[:32] == np.arange(32)).all(), "the prefix changes its order"


def _attention(group: int, tokens: int):
    rng = np.random.default_rng(group)
    keys, values = rng.normal(size=(2, 6, 4, 2, 8))
    queries = rng.normal(size=(1, tokens, 2 * group, 8))
    return queries, keys, values, np.array([[4, 1, 3, 0, 2]]), 17


def _recovered(group: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores by Algorithm 3, token after token, and from dense attention. Both [H, 20]."""
    queries, keys, values, table, length = _attention(group, tokens)
    out, dense = np.zeros((1, 2, 20)), np.zeros((tokens, 2, 20))
    for token in range(tokens):
        q = queries[:, token]
        seen = np.array([length - tokens + 1 + token])
        _, lse = paged_decode.decode_reference(q, keys, values, table, seen)
        out = paged_scores.recover_reference(
            out, q[:, None], lse[:, None], keys, table, seen[:, None], np.array([token])
        )
        k = keys[table[0]].reshape(20, 2, 8)[: seen[0]]
        z = np.exp(np.einsum("hgd,shd->hgs", q[0].reshape(2, group, 8), k) / 8**0.5)
        dense[token, :, : seen[0]] = (z / z.sum(-1, keepdims=True)).max(1)
    return out[0], dense.mean(0)


def scores_sum_to_one() -> None:
    """Without grouping, the scores of a token are its attention: sum 1, nothing behind the end."""
    found, _ = _recovered(1, 1)
    assert np.abs(found.sum(-1) - 1).max() < 1e-12, f"sums {found.sum(-1)}"
    assert not found[:, 17:].any(), "slots behind the end have a score"


def scores_equal_dense() -> None:
    """For any group and several tokens, the scores are the mean of the dense group maximum."""
    for group, tokens in ((1, 3), (4, 1), (3, 4)):
        found, dense = _recovered(group, tokens)
        worst = np.abs(found - dense).max()
        assert worst < 1e-12, f"G = {group}, {tokens} tokens: off by {worst:.2g}"


def one_pass_equals_steps() -> None:
    """All queries of a round in one pass give what one token after the other gives."""
    queries, keys, values, table, length = _attention(2, 4)
    seen = length - 3 + np.arange(4)
    lse = np.stack(
        [
            paged_decode.decode_reference(queries[:, i], keys, values, table, seen[i : i + 1])[1]
            for i in range(4)
        ],
        axis=1,
    )
    out = paged_scores.recover_reference(
        np.zeros((1, 2, 20)), queries, lse, keys, table, seen[None], np.array([0])
    )
    worst = np.abs(out[0] - _recovered(2, 4)[0]).max()
    assert worst < 1e-12, f"off by {worst:.2g}"


def order_of_slots_is_free() -> None:
    """Attention over a permuted cache is the same."""
    queries, keys, values, table, length = _attention(2, 1)
    order = np.random.default_rng(3).permutation(length)
    slot, place = np.arange(length), (table[0][order // 4], order % 4)
    moved_keys, moved_values = keys.copy(), values.copy()
    moved_keys[table[0][slot // 4], slot % 4] = keys[place]
    moved_values[table[0][slot // 4], slot % 4] = values[place]
    lengths = np.array([length])
    here = paged_decode.decode_reference(queries[:, 0], keys, values, table, lengths)
    there = paged_decode.decode_reference(queries[:, 0], moved_keys, moved_values, table, lengths)
    worst = max(np.abs(a - b).max() for a, b in zip(here, there, strict=True))
    assert worst < 1e-12, f"off by {worst:.2g}"


def golden_traffic() -> None:
    """By hand, ρ = 4096: 256 rows moved are 2 · 256 · 4096 + 16 · 256 bytes, 0.4 µs on an H200."""
    g = traffic.GEOMETRIES["Qwen3-8B"]
    moved = traffic.compaction(256, g)
    assert moved == 2101248, f"{moved} bytes"
    assert traffic.score_recovery(1024, g) == 2097152 + 8192 + 128 + 65536
    assert f"{traffic.lower_bound(moved, 'H200') * 1e6:.1f}" == "0.4"


CHECKS = {
    check.__name__: check
    for check in (
        golden_plan,
        plan_invariants,
        rounds_equal_gather,
        shared_blocks_unwritten,
        prefix_stays,
        scores_sum_to_one,
        scores_equal_dense,
        one_pass_equals_steps,
        order_of_slots_is_free,
        golden_traffic,
    )
}
