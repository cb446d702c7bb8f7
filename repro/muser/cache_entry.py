"""One entry of the user cache, and how it lies in a store: a hash, a line of JSON, the vectors."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter, ReproError


class Damaged(ReproError):
    """Bytes in a store that do not agree with their hash."""


@dataclass(frozen=True, eq=False)
class Entry:
    """U^L [M, d] float32 of the first `covered` actions, the newest at `newest`; made at `made`.

    Times are seconds. Raises BadParameter for vectors that are not finite, for an empty history,
    and for a clock that ran backwards (`made` before `newest`).
    """

    user: str
    revision: str
    made: float
    covered: int
    newest: float
    vectors: np.ndarray
    writer: str = ""

    def __post_init__(self):
        if self.vectors.ndim != 2 or not np.isfinite(self.vectors).all():
            raise BadParameter(f"vectors has shape {self.vectors.shape}; accepted: [M, d], finite.")
        if self.covered < 1:
            raise BadParameter(f"covered={self.covered}: an empty history; accepted: 1 or more.")
        if not self.newest <= self.made:
            raise BadParameter(
                f"newest={self.newest} lies after made={self.made}: the clock ran backwards, or an "
                "action of the future got in; accepted: newest <= made."
            )


def pack(entry: Entry) -> bytes:
    """The bytes of an entry; its key and all of its content are under one hash."""
    head = {
        "made": float(entry.made),
        "covered": int(entry.covered),
        "newest": float(entry.newest),
        "shape": list(entry.vectors.shape),
        "writer": entry.writer,
    }
    body = json.dumps(head).encode() + b"\n" + np.ascontiguousarray(entry.vectors, "<f4").tobytes()
    return _sha(entry.user, entry.revision, body) + body


def unpack(user: str, revision: str, value: bytes) -> Entry:
    """The entry of this very key; raises `Damaged` where hash and bytes disagree."""
    sha256, body = value[:64], value[64:]
    if _sha(user, revision, body) != sha256:
        raise Damaged(
            f"The cache entry of user {user!r}, revision {revision!r}, is damaged; refresh it."
        )
    head, blob = body.split(b"\n", 1)
    head = json.loads(head)
    vectors = np.frombuffer(blob, "<f4").reshape(head.pop("shape"))
    return Entry(user, revision, vectors=vectors, **head)


def _sha(user: str, revision: str, body: bytes) -> bytes:
    return hashlib.sha256(json.dumps([user, revision]).encode() + body).hexdigest().encode()
