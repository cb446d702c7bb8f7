"""Two paged caches that are told the same things, one with Algorithm 4 and one without."""

from types import SimpleNamespace

import numpy as np
import torch

from repro.actkv.cache import PagedCache

LAYERS, GROUPS, WIDTH, BLOCK = 2, 2, 8, 4


def stub():
    """As much of a model as a cache asks for: its sizes, and where its hook goes."""
    config = SimpleNamespace(
        num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=GROUPS, head_dim=WIDTH
    )
    return SimpleNamespace(
        config=config,
        base_model=torch.nn.Identity(),
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def fill(caches, rng, number: int) -> None:
    """Append `number` random entries to each request of all `caches`."""
    for one in caches:
        one.prepare(np.ones((len(one.requests), number), bool))
    for layer in range(LAYERS):
        shape = (len(caches[0].requests), GROUPS, number, WIDTH)
        keys, values = torch.from_numpy(rng.standard_normal((2, *shape), np.float32))
        for one in caches:
            one.append(keys, values, layer)


def kept(rng, length: int, prefix: int, number: int) -> np.ndarray:
    """Each layer's own choice [LAYERS, number]: the prefix, and others at random."""
    sets = [prefix + rng.choice(length - prefix, number - prefix, replace=False) for _ in "ab"]
    return np.stack([np.r_[np.arange(prefix), np.sort(s)] for s in sets])


def equal(left: PagedCache, right: PagedCache) -> None:
    """Keys, values and positions by age are the same in both, and so is the number of blocks."""
    assert left.pool.blocks.in_use == right.pool.blocks.in_use
    for request in range(len(left.requests)):
        np.testing.assert_array_equal(left.positions(request), right.positions(request))
        for layer in range(LAYERS):
            assert torch.equal(left.keys(layer, request), right.keys(layer, request))
            assert torch.equal(left.values(layer, request), right.values(layer, request))


def rounds(compact, number: int, seed: int, most: int = 11, requests: int = 2) -> int:
    """`number` rounds of append and evict, compared after each; returns how many slots moved."""
    rng, moved, prefix = np.random.default_rng(seed), 0, BLOCK + 1
    ours = PagedCache(stub(), requests, block_size=BLOCK, compact=compact)
    theirs = PagedCache(stub(), requests, block_size=BLOCK)
    fill((ours, theirs), rng, prefix + 3)
    for _ in range(number):
        fill((ours, theirs), rng, int(rng.integers(1, most)))
        equal(ours, theirs)
        for request in range(requests):
            length = ours.physical[request]
            left = int(rng.integers(prefix + 1, min(length, 3 * most) + 1))
            choice = kept(rng, length, prefix, left)
            before = [list(one.pool.tables[request]) for one in (ours, theirs)]
            ours.evict(choice, request), theirs.evict(choice, request)
            after = ours.pool.tables[request]
            assert len(before[0]) - len(after) == -(-length // BLOCK) - -(-left // BLOCK)
            assert after[0] == before[0][0]  # the full block of the prefix stays where it is
            assert set(after) <= set(before[0])
            moved += int(ours.requests[request].order is not None)
        equal(ours, theirs)
    return moved
