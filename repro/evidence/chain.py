"""Hash-chained lists: every line of the file names the SHA-256 of the line before it.

An edited, removed or moved line breaks the next one. The last lines are held by what they name on
disk and by what git has committed. Whoever rewrites the files, the list and git's history together
leaves no trace here.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from filelock import FileLock

from repro import files, paths
from repro.errors import ReproError
from repro.evidence import source

FIRST = "0" * 64


@contextmanager
def lock() -> Iterator[None]:
    """One writer at a time on this machine, for all lists and for what they name."""
    path = paths.BUILD / "locks" / "evidence.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


@dataclass(frozen=True)
class Chain:
    """A list in the file `name` (relative to the repository), whose lines hold `fields`."""

    name: str
    fields: tuple[str, ...]

    def entries(self) -> list[dict[str, Any]]:
        """The lines, oldest first. Raises ReproError where the chain is broken."""
        text = self._text()
        if broken := self._broken(text):
            raise ReproError(f"{broken[0]}. Nothing is built on a broken list.")
        return [json.loads(line) for line in text.splitlines()]

    def append(self, *entries: dict[str, Any]) -> None:
        """Add lines, in one step; the caller holds `lock`. Raises ReproError, see `entries`."""
        self.entries()
        text = self._text()
        for entry in entries:
            if entry.keys() != set(self.fields):
                raise ValueError(f"entry={sorted(entry)}; accepted: {sorted(self.fields)}.")
            last = text.splitlines()[-1:]
            text += files.canonical(entry | {"previous": _sha(last[0]) if last else FIRST}) + "\n"
        files.write_atomic(paths.ROOT / self.name, text)

    def problems(self) -> list[str]:
        """What is wrong with the lines themselves, and with what git has of them."""
        text = self._text()
        found = self._broken(text)
        if not text.startswith(source.committed(self.name)):
            found.append(f"{self.name}: lines that are committed were removed or changed")
        return found

    def _text(self) -> str:
        path = paths.ROOT / self.name
        try:
            return path.read_bytes().decode() if path.exists() else ""
        except UnicodeDecodeError:
            return "\0"  # no line of ours: reported as such

    def _broken(self, text: str) -> list[str]:
        found, previous = [], FIRST
        for number, line in enumerate(text.split("\n")[:-1], 1):
            where = f"{self.name}, line {number}"
            try:
                entry = json.loads(line)
                whole = files.canonical(entry) == line
                whole = whole and entry.keys() == {*self.fields, "previous"}
                whole = whole and all(isinstance(v, str | None) for v in entry.values())
            except (ValueError, AttributeError, RecursionError):
                whole = False
            if not whole:
                found.append(f"{where}: not as it was written")
            elif entry["previous"] != previous:
                found.append(f"{where}: does not follow from the line before it")
            previous = _sha(line)
        if text and not text.endswith("\n"):
            found.append(f"{self.name}: the last line is cut off")
        return found


def _sha(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
