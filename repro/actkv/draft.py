"""Tokens on trial: written into a paged cache, looked at, and taken back.

    with draft(cache):
        model(ids, cache=cache)     # what the model would say
    model(recorded, cache=cache)    # the cache is as before

Pages beyond the entries of before are written over later; nothing before is touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from repro.actkv.cache import PagedCache


@contextmanager
def draft(cache: PagedCache) -> Iterator[None]:
    """Take back everything that is appended to `cache` inside the block.

    Raises RuntimeError for an eviction in the block, which moves entries, and for a pool that had
    to grow: give it blocks for the draft.
    """
    before = _state(cache)
    pages, survivors = cache.pool.pages, [one.survivors for one in cache.requests]
    yield
    if cache.pool.pages is not pages:
        raise RuntimeError("the pool grew in a draft; accepted: a pool with blocks for it.")
    if any(one.survivors is not old for one, old in zip(cache.requests, survivors, strict=True)):
        raise RuntimeError("evicted in a draft; accepted: evict before or after it.")
    _restore(cache, before)


def _state(cache: PagedCache) -> dict[str, Any]:
    """All counters of a cache: lengths, tables, free blocks, peaks."""
    return {
        "requests": [replace(one) for one in cache.requests],
        "tables": [list(table) for table in cache.pool.tables],
        "free": cache.pool.blocks.free.copy(),
        "peaks": (cache.peak_entries, cache.pool.peak_blocks),
        "columns": cache.columns,
    }


def _restore(cache: PagedCache, state: dict[str, Any]) -> None:
    cache.requests[:] = state["requests"]
    cache.pool.tables[:] = state["tables"]
    cache.pool.blocks.free[:] = state["free"]
    cache.peak_entries, cache.pool.peak_blocks = state["peaks"]
    cache.columns = state["columns"]
