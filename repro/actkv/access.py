"""Action access vectors (arXiv 2609.31395, Fig. 6 by the readers' numbering [P2]): analysis only.

Bit t of an entry's vector: was it in the hit set of round t's action? Only rounds that could see
the entry count, so its first bit is that of the round in which it was appended (`born`): the
action of round t comes after the observation and reasoning of round t and sees both. An action
token sees itself and is born in its own round too. Classes, tested in this order, so that they
exclude one another:

    never         no bit set (the paper discards these)
    cold-start    the first bit is 0
    continuous    no 0 between the first and the last 1
    intermittent  some 0 in between
"""

from collections.abc import Sequence

import numpy as np

from repro.actkv.accept import count

CLASSES = ("never", "cold-start", "continuous", "intermittent")


def access_vectors(hits_per_round: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Bool [S, rounds] from the hit slots of each round, in uncompacted numbering 0..length-1."""
    vectors = np.zeros((count("length", length), len(hits_per_round)), dtype=bool)
    for column, hits in enumerate(hits_per_round):
        hits = np.asarray(hits, dtype=int)
        if hits.size and not (0 <= hits.min() and hits.max() < length):
            raise ValueError(
                f"hits_per_round[{column}] spans {hits.min()}..{hits.max()}; "
                f"accepted: 0..length-1 = 0..{length - 1}."
            )
        vectors[hits, column] = True
    return vectors


def access_class(vector: np.ndarray, born: int = 0) -> str:
    """Class of one entry from its `vector` [rounds]; `born` is the first round that could see it.

    Raises ValueError when a bit is set before `born`, or `born` is outside 0..rounds-1.
    """
    vector = np.asarray(vector, dtype=bool)
    if not 0 <= born < vector.size:
        raise ValueError(f"born={born!r} is refused; accepted: 0..rounds-1 = 0..{vector.size - 1}.")
    if vector[:born].any():
        raise ValueError(
            f"born={born} is refused; accepted: at most {vector.argmax()}, its first read."
        )
    seen = np.flatnonzero(vector[born:])
    if not seen.size:
        return "never"
    if seen[0] > 0:
        return "cold-start"
    return "continuous" if seen.size == seen[-1] + 1 else "intermittent"


def access_classes(vectors: np.ndarray, born: np.ndarray) -> np.ndarray:
    """Class of each entry: `vectors` [S, rounds], `born` [S] -> names [S]."""
    return np.array([access_class(v, int(b)) for v, b in zip(vectors, born, strict=True)])
