"""What the actions of recorded traces read, and in which rounds (arXiv 2609.31395, Fig. 6)."""

import numpy as np

from repro.actkv import access, eviction
from repro.actkv.study_eviction import Recorded

PARTS = ("first token", "rest of the prefix", "earlier rounds", "open round")
READ = access.CLASSES[1:]  # the paper discards entries that no action reads


def where(recorded: Recorded) -> np.ndarray:
    """Share of the action attention [T, L, 4] that falls on each of `PARTS`."""
    shares = []
    begins = [recorded.protected, *recorded.lengths[:-1]]
    for row, begin in zip(recorded.action, begins, strict=True):
        edges = (0, 1, recorded.protected, begin, row.shape[1])
        parts = [row[:, a:b].sum(1) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        shares.append(np.stack(parts, axis=1) / row.sum(1)[:, None])
    return np.stack(shares)


def hit_shares(recorded: Recorded, mass: float, prefix_in_mass: bool = False) -> np.ndarray:
    """Hits as a share of the unprotected entries that the action could see [T, L]."""
    first = recorded.protected
    counts = [
        [len(eviction.hit_set(a, mass, first, prefix_in_mass)) for a in row]
        for row in recorded.action
    ]
    return np.array(counts) / (recorded.spans[:, 1:] - first)


def accesses(recorded: Recorded, mass: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One value for each layer and unprotected entry that an action could read.

    `class` (see `repro.actkv.access`), `shuffled` (the class after the bits of each vector have
    been put in random order), `chances` (actions that could read it), and the number and the summed
    attention of its accesses: `hits`, `read`, and without the first chance `later`, `read_later`.
    """
    stop, first = recorded.spans[-1, 1], recorded.protected
    born = np.searchsorted(recorded.spans[:, 1], np.arange(first, stop), side="right")
    columns: list[dict[str, np.ndarray]] = []
    for layer in range(len(recorded.action[0])):
        rows = [row[layer] for row in recorded.action]
        hits = [eviction.hit_set(row, mass, first) for row in rows]
        vectors = access.access_vectors(hits, stop)[first:]
        padded = np.stack([np.pad(row, (0, stop - row.size)) for row in rows], axis=1)[first:]
        weight = np.where(vectors, padded, 0)
        later = np.arange(len(rows)) > born[:, None]
        columns.append(
            {
                "class": access.access_classes(vectors, born),
                "shuffled": access.access_classes(_shuffled(vectors, born, rng), born),
                "chances": len(rows) - born,
                "hits": vectors.sum(1),
                "read": weight.sum(1),
                "later": (vectors & later).sum(1),
                "read_later": (weight * later).sum(1),
            }
        )
    return {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}


def by_class(table: dict[str, np.ndarray], chances: int) -> dict[str, np.ndarray]:
    """`accesses`, of entries with so many chances, summed up for each class of `READ` [3].

    `entries`; `share` of the entries read, and `shuffled`, the same in the control; `attention`,
    the share of all that accesses read; mean attention of an access, `strength`, and of one after
    the first chance, `later`. NaN where there is nothing to divide by.
    """
    enough = table["chances"] >= chances
    table = {name: values[enough] for name, values in table.items()}
    of = [table["class"] == name for name in READ]
    entries = np.array([c.sum() for c in of])
    names = ("hits", "read", "later", "read_later")
    total = {name: np.array([table[name][c].sum() for c in of]) for name in names}
    with np.errstate(invalid="ignore"):
        return {
            "entries": entries,
            "share": entries / entries.sum(),
            "shuffled": np.array([(table["shuffled"] == n).sum() for n in READ]) / entries.sum(),
            "attention": total["read"] / total["read"].sum(),
            "strength": total["read"] / total["hits"],
            "later": total["read_later"] / total["later"],
        }


def _shuffled(vectors: np.ndarray, born: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each vector with its bits from `born` on in random order."""
    keys = rng.random(vectors.shape)
    keys[np.arange(vectors.shape[1]) < born[:, None]] = -1  # those stay in front, all False
    return np.take_along_axis(vectors, np.argsort(keys, axis=1, kind="stable"), axis=1)
