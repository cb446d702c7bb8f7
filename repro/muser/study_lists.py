"""Lists of items from an index: how near to exact search, and apart from it, whether wanted."""

import numpy as np

from repro.muser import data, retrieval


def lists(index, u: np.ndarray, rows: data.Rows, k: int) -> list[np.ndarray]:
    """The first k items for each user that the history does not hold; u: [B, M, d].

    The search asks for k and as many more as the user has seen, so that none is missing after.
    """
    found = []
    for interests, history in zip(u, rows.history, strict=True):
        met = np.unique(history)
        ask = min(k + len(met), len(index.items))
        items = retrieval.merged(index, interests, ask).items
        found.append(items[~np.isin(items, met)][:k])
    return found


def hits(found: list[np.ndarray], rows: data.Rows) -> np.ndarray:
    """Share of each user's future items that the list holds, [B]: recommendation recall."""
    pairs = zip(rows.future, found, strict=True)
    return np.array([np.isin(items, shown).mean() for items, shown in pairs])


def agreements(found: list[np.ndarray], oracle: list[np.ndarray]) -> np.ndarray:
    """Recall of each list relative to the exact one, [B]."""
    return np.array([retrieval.agreement(a, b) for a, b in zip(found, oracle, strict=True)])


def scattered(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A larger catalogue [n, d] and interests [50, 4, d], all in random directions.

    The hard case for a graph: nothing is near anything. Learned vectors are easier.
    """
    rng = np.random.default_rng(seed)
    items, u = rng.normal(size=(n, d)), rng.normal(size=(50, 4, d))
    return items.astype(np.float32), u.astype(np.float32)
