"""Action access vectors of recorded traces, with a control (arXiv 2609.31395, Fig. 6)."""

import numpy as np

from repro.actkv import access, eviction
from repro.actkv.study_eviction import Recorded


def accesses(recorded: Recorded, mass: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One row for each layer and unprotected entry that an action could read.

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


def _shuffled(vectors: np.ndarray, born: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each vector with its bits from `born` on in random order."""
    keys = rng.random(vectors.shape)
    keys[np.arange(vectors.shape[1]) < born[:, None]] = -1  # those stay in front, all False
    return np.take_along_axis(vectors, np.argsort(keys, axis=1, kind="stable"), axis=1)
