"""What must hold of byte counts, of attention on pages, and of scores in one pass."""

import numpy as np
import torch
from transformers import DynamicCache

from repro.actkv import decode, roofline, study_throughput
from repro.actkv.cache import PagedCache
from repro.actkv.cache_checks import BLOCK, GROUPS, HEADS, WIDTH, tiny, tokens
from repro.actkv.policies.base import attention


def counted_bytes_are_the_cache_s() -> None:
    """The formula's bytes of keys and values are those that a real cache holds."""
    cache = PagedCache(tiny(), 2, block_size=BLOCK)
    with torch.inference_mode():
        tiny()(tokens(37).expand(2, -1), cache=cache)
    expected = roofline.cache_bytes(roofline.of(tiny()), 37, 2, BLOCK)
    assert cache.counters()["bytes"] == expected, f"{cache.counters()['bytes']} and {expected}"


def gain_by_hand() -> None:
    """10 bytes an entry, 100 of weights: 100 entries kept to 26 give 1100 / 360 alone."""
    load = roofline.Load(entry=10, weights=100.0)
    few = roofline.kept_entries(100, 0.26)
    assert few == 26, f"26 % of 100 are {few} entries"
    found = roofline.gain(load, (1, 100), (1, few))
    assert abs(found - 1100 / 360) < 1e-9, f"gain {found}"
    fit = [roofline.admitted(load, n, 2000, block=10) for n in (100, few)]
    assert fit == [2, 6], f"{fit} requests fit into 2000 bytes"  # 26 entries take 3 blocks of 10


def pages_give_the_stock_answer() -> None:
    """Decoding on the pages gives the logits of transformers' own cache and attention."""
    ids, stock, paged = tokens(24).expand(2, -1), DynamicCache(), PagedCache(tiny(), 2)
    with torch.inference_mode():
        tiny()(ids, cache=stock), tiny()(ids, cache=paged)
        for step in range(3):
            token = tokens(2, seed=step + 1).T
            expected = tiny()(token, cache=stock).logits
            with decode.decoding(tiny(), paged):
                found = tiny()(token, cache=paged).logits
            assert torch.allclose(found, expected, atol=1e-4), f"step {step} differs"


def one_pass_is_token_by_token() -> None:
    """Stored queries with their log-sum-exps give the action attention of the time."""
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(GROUPS, 30, WIDTH, generator=draw)
    queries = torch.randn(HEADS, 5, WIDTH, generator=draw)
    seen = attention(queries, keys)  # [H_k, G, A, S], each query blind to what comes later
    expected = seen.amax(1).mean((0, 1))
    logit = torch.einsum("kgad,ksd->kgas", queries.view(GROUPS, -1, 5, WIDTH), keys) / WIDTH**0.5
    later = torch.ones(5, 30, dtype=torch.bool).triu(26)
    lse = logit.masked_fill(later, -torch.inf).logsumexp(-1).view(HEADS, 5).T
    found = decode.recover(queries.transpose(0, 1), lse, keys, tile=7)
    assert torch.allclose(found, expected, atol=1e-6), "scores differ"


def an_evicted_cache_holds_its_share() -> None:
    """The cache that is timed at a share holds that share, at the positions of the whole."""
    arm = study_throughput.Arm("paged", 2, 26, 100)
    cache = study_throughput.filled(tiny(), arm, new=3, seed=0)
    assert cache.physical == [26, 26], f"{cache.physical} entries"
    assert cache.counters()["logical"] == [100, 100], "the next token stands elsewhere"
    assert (np.diff(cache.positions()) > 0).all(), "positions do not rise"


CHECKS = {
    check.__name__: check
    for check in (
        counted_bytes_are_the_cache_s,
        gain_by_hand,
        pages_give_the_stock_answer,
        one_pass_is_token_by_token,
        an_evicted_cache_holds_its_share,
    )
}
