"""Vector indexes on disk: named by revision, written whole, then switched to in one step.

Our specification (project's notes, section 4): vectors of two encoder revisions never share an
index. A folder holds ``<name>.npz`` files and one pointer file, ``CURRENT``. Readers follow the
pointer; it is replaced only after the new file has been read back and found full.
"""

import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from repro import files
from repro.errors import BadParameter, ReproError
from repro.muser import semantics

POINTER = "CURRENT"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """name: file name without its end. items: ids. vectors: [n, d] float32.

    encoder: the identity of what made the vectors.
    """

    name: str
    items: tuple[str, ...]
    vectors: np.ndarray
    encoder: str


def name(prefix: str, encoder: str, items: Sequence[str], vectors: np.ndarray) -> str:
    """`prefix`, then a hash of the encoder's identity, the ids and the vectors."""
    parts = [encoder.encode(), *(item.encode() for item in items)]
    content = b"\0".join([*parts, np.ascontiguousarray(vectors, np.float32).tobytes()])
    return f"{prefix}@{semantics.sha256(content)[:16]}"


def write(
    folder: Path, base: str, items: Sequence[str], vectors: np.ndarray, encoder: semantics.Encoder
) -> str:
    """Write an index of items with vectors [n, d]; its name. Readers do not see it yet.

    Raises BadParameter for doubled ids and for vectors of another dimension than the encoder's.
    """
    if vectors.shape != (len(items), encoder.dimension) or not len(items):
        raise BadParameter(
            f"vectors has shape {vectors.shape}; accepted: {(len(items), encoder.dimension)}, one "
            f"a row for each of the items, in the dimension of {encoder.label}."
        )
    if len(set(items)) != len(items):
        raise BadParameter("items name one id twice; accepted: each id once.")
    if not re.fullmatch(r"[\w.-]+", base):
        raise BadParameter(f"base={base!r} is refused; accepted: letters, digits, and . _ -")
    prefix = f"{base}@{re.sub(r'[^0-9A-Za-z.-]', '_', encoder.label)}"
    called = name(prefix, encoder.identity, items, vectors)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        items=np.array(items, dtype=np.str_),
        vectors=np.asarray(vectors, np.float32),
        encoder=np.array(encoder.identity),
    )
    files.write_atomic(folder / f"{called}.npz", buffer.getvalue())
    return called


def load(folder: Path, called: str) -> Snapshot:
    """The index `called`. Raises ReproError where the file is absent, torn or not what it says."""
    try:
        with np.load(folder / f"{called}.npz", allow_pickle=False) as data:
            items, vectors = tuple(map(str, data["items"])), data["vectors"]
            encoder = str(data["encoder"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise ReproError(f"Index {called} cannot be read ({type(error).__name__}).") from error
    if name(called.rpartition("@")[0], encoder, items, vectors) != called:
        raise ReproError(f"Index {called} does not hold what its name says.")
    return Snapshot(called, items, vectors, encoder)


def publish(folder: Path, called: str, wanted: Sequence[str]) -> None:
    """Point readers to the index `called`, in one step, once it is found to hold every `wanted` id.

    Raises ReproError and changes nothing where the index is not full, torn or absent.
    """
    held = load(folder, called)
    if lacking := set(wanted) - set(held.items):
        raise ReproError(
            f"Index {called} lacks {len(lacking)} of {len(set(wanted))} items, such as "
            f"{min(lacking)!r}; readers stay on the one before."
        )
    files.write_atomic(folder / POINTER, called.encode())


def current(folder: Path, encoder: semantics.Encoder) -> Snapshot:
    """The index that readers use, if it is of `encoder`.

    Raises ReproError where nothing is published, or where the index in use is of another encoder
    or revision than the one whose vectors are going to be compared with it.
    """
    try:
        called = (folder / POINTER).read_text()
    except OSError as error:
        raise ReproError("No index is published yet; write one and publish it.") from error
    held = load(folder, called)
    if held.encoder != encoder.identity:
        raise ReproError(
            f"Index {called} is of {held.encoder}, not of {encoder.identity}; vectors of two "
            "revisions are never compared."
        )
    return held
