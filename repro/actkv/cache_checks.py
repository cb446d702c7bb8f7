"""What must hold of the paged cache and of the policies: invariants on tiny tensors, milliseconds.

The invariants are the notes', section 7.2 (arXiv 2609.31395). The model is a random Llama with
two layers. Everything is reached through its module, so that a planted fault is seen.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import torch

from repro.actkv import cache, paging, policies
from repro.actkv.policies import base

LAYERS, HEADS, GROUPS, WIDTH, BLOCK = 2, 4, 2, 8, 4


@lru_cache(maxsize=1)
def tiny() -> Any:
    """A random Llama in float32: 2 layers, 4 query and 2 KV heads, d = 8, 61 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=61,
            hidden_size=HEADS * WIDTH,
            intermediate_size=48,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=GROUPS,
            max_position_embeddings=4096,
        )
        return LlamaForCausalLM(config).eval().requires_grad_(False)


def tokens(number: int, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).integers(1, 61, (1, number)))


def masked(ids: torch.Tensor, length: int, kept: np.ndarray) -> torch.Tensor:
    """Logits of `ids` [1, L] without a cache; from `length` on, only `kept` of what was before."""
    total = ids.shape[1]
    hidden = np.triu(np.ones((total, total), dtype=bool), 1)
    hidden[length:, np.setdiff1d(np.arange(length), kept)] = True
    mask = torch.as_tensor(hidden, dtype=torch.float32) * torch.finfo(torch.float32).min
    return tiny()(ids, attention_mask=mask[None, None], use_cache=False).logits


class Gathered:
    """The oracle: the entries [layers, 2, H_k, S, d] and positions that a plain gather leaves."""

    def __init__(self, one: cache.PagedCache, seed: int):
        self.cache, self.rng, self.seen = one, np.random.default_rng(seed), 0
        self.entries = np.zeros((LAYERS, 2, GROUPS, 0, WIDTH), dtype=np.float32)
        self.positions = np.zeros((LAYERS, 0), dtype=int)

    def append(self, number: int) -> None:
        shape = (LAYERS, 2, 1, GROUPS, number, WIDTH)
        new = self.rng.standard_normal(shape).astype(np.float32)
        self.cache.prepare(np.ones((1, number), dtype=bool))
        for layer, (keys, values) in enumerate(torch.as_tensor(new)):
            self.cache.append(keys, values, layer)
        self.entries = np.concatenate([self.entries, new[:, :, 0]], axis=3)
        coming = np.tile(self.seen + np.arange(number), (LAYERS, 1))
        self.positions, self.seen = np.hstack([self.positions, coming]), self.seen + number

    def evict(self, number: int) -> None:
        length = self.positions.shape[1]
        kept = np.stack([self.rng.permutation(length)[:number] for _ in range(LAYERS)])
        self.cache.evict(kept)
        kept = np.sort(kept, axis=1)
        self.positions = np.take_along_axis(self.positions, kept, 1)
        self.entries = np.stack([e[:, :, k] for e, k in zip(self.entries, kept, strict=True)])

    def compare(self) -> None:
        assert (self.cache.positions() == self.positions).all(), "positions went astray"
        for layer, (keys, values) in enumerate(torch.as_tensor(self.entries)):
            same = self.cache.keys(layer).equal(keys) and self.cache.values(layer).equal(values)
            assert same, f"layer {layer} holds other entries than a gather leaves"
        used, needed = self.cache.pool.blocks.in_use, -(-self.positions.shape[1] // BLOCK)
        assert used == needed, f"{used} blocks in use, {needed} needed"


def eviction_is_a_mask() -> None:
    ids, kept = tokens(30), np.array([0, 1, 2, 9, 13, 17, 18, 19])
    one = cache.PagedCache(tiny(), block_size=BLOCK)
    tiny()(ids[:, :20], cache=one)
    one.evict(np.tile(kept, (LAYERS, 1)))
    rest = [tiny()(part, cache=one).logits for part in (ids[:, 20:29], ids[:, 29:])]
    off = (torch.cat(rest, 1) - masked(ids, 20, kept)[:, 20:]).abs().max().item()
    assert off < 1e-4, f"logits differ by {off:.2g} from full attention with a mask"


def rounds_are_a_gather() -> None:
    oracle = Gathered(cache.PagedCache(tiny(), block_size=BLOCK), seed=0)
    for _ in range(8):
        oracle.append(int(oracle.rng.integers(1, 12)))
        oracle.evict(int(oracle.rng.integers(1, oracle.positions.shape[1] + 1)))
        oracle.compare()


def padding_is_not_cached() -> None:
    ids = tokens(9)
    batch = torch.cat([ids, torch.nn.functional.pad(ids[:, :5], (4, 0))])
    one = cache.PagedCache(tiny(), requests=2, block_size=BLOCK)
    found = tiny()(batch, attention_mask=(batch > 0).long(), cache=one).logits
    assert one.physical == [9, 5], f"{one.physical} entries cached, of 9 and 5 tokens"
    off = (found[1, 4:] - tiny()(ids[:, :5], use_cache=False).logits[0]).abs().max().item()
    assert off < 1e-4, f"a padded request differs by {off:.2g} from the same one alone"


def a_block_is_freed_once() -> None:
    blocks = paging.Blocks(3)
    taken = [blocks.take(0) for _ in range(3)]
    blocks.release(taken[1:])
    try:
        blocks.release(taken[1:2])
    except ValueError as error:
        assert "freed twice" in str(error), error
    else:
        raise AssertionError("a block was freed twice and nobody noticed")
    assert blocks.in_use == 1, f"{blocks.in_use} blocks in use, 1 expected"


def _filled(name: str, protected: int, length: int = 40) -> tuple[base.Policy, torch.Tensor]:
    options = {"window": 4} if name in ("snapkv", "rkv") else {}
    options |= {"start": 10} if name == "actkv-adaptive" else {}
    policy = policies.POLICIES[name](layers=LAYERS, protected=protected, **options)
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(LAYERS, GROUPS, length, WIDTH, generator=draw)
    for layer in range(LAYERS):
        queries = torch.randn(HEADS, length, WIDTH, generator=draw)
        policy.observe(layer, queries, keys[layer], "action")
    return policy, keys


def prefix_and_budget_are_the_same_for_all() -> None:
    for name in policies.POLICIES:
        policy, keys = _filled(name, protected=6)
        kept = policy.select(40, 10, keys.__getitem__)
        size = 40 if name == "fullkv" else 16
        assert kept.shape == (LAYERS, size), f"{name} keeps {kept.shape}, not {(LAYERS, size)}"
        assert (kept[:, :6] == np.arange(6)).all(), f"{name} evicts the prefix"


def scores_move_with_their_entries() -> None:
    policy, keys = _filled("h2o", protected=2)
    before = [sums.clone() for sums in policy.sums]
    for layer, kept in enumerate(policy.select(40, 10, keys.__getitem__)):
        assert policy.sums[layer].equal(before[layer][:, kept]), "a score went astray"


def equal_scores_keep_the_newer() -> None:
    found = base.keep(torch.zeros(1, 8), protected=2, budget=3)
    assert found.tolist() == [[0, 1, 5, 6, 7]], f"kept {found.tolist()} among equals"


def rkv_keeps_the_newest_copy() -> None:
    keys = torch.randn(1, 40, WIDTH, generator=torch.Generator().manual_seed(0))
    copies = np.arange(3, 25, 2)  # 11 of them
    keys[:, copies] = keys[:, copies[:1]]
    policy = policies.RKV(layers=1, window=4)
    policy.observe(0, torch.zeros(2, 4, WIDTH), keys, "reasoning")
    gone = [
        np.setdiff1d(np.arange(40), policy.select(40, budget, lambda layer: keys)[0]).tolist()
        for budget in (30, 29)
    ]
    assert gone[0] == copies[:-1].tolist(), f"R-KV drops {gone[0]}, not the ten older copies"
    assert copies[-1] not in gone[1], "R-KV punishes the newest copy for the older ones"


def _one_thread(check: Callable[[], None]) -> Callable[[], None]:
    """Tensors this small gain nothing from threads, and on a busy machine lose a second."""

    @wraps(check)
    def alone() -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            check()
        finally:
            torch.set_num_threads(threads)

    return alone


CHECKS = {
    check.__name__: _one_thread(check)
    for check in (
        eviction_is_a_mask,
        rounds_are_a_gather,
        padding_is_not_cached,
        a_block_is_freed_once,
        prefix_and_budget_are_the_same_for_all,
        scores_move_with_their_entries,
        equal_scores_keep_the_newer,
        rkv_keeps_the_newest_copy,
    )
}
