"""Bytes of the user cache in one SQLite file, shared by threads and processes.

Every change is one transaction, so a process that is killed leaves what was there before it.
"""

import sqlite3
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from repro.errors import ReproError

SCHEMA = """
create table if not exists kept (
  kind text, user text, revision text, value blob, primary key (kind, user, revision));
"""
WHERE = "where kind = ? and user = ? and revision = ?"


class SqliteStore:
    """The store in the file `path`. wait: seconds to wait for another writer.

    Raises ReproError for a file that cannot be opened, is none of ours, or stays locked.
    """

    def __init__(self, path: Path | str, wait: float = 10.0):
        self._path, self._wait = str(path), wait
        with self._open() as db:
            db.executescript(SCHEMA)

    @contextmanager
    def _open(self):
        try:
            db = sqlite3.connect(self._path, timeout=self._wait, isolation_level=None)
        except sqlite3.Error as error:
            raise ReproError(f"The user cache cannot be opened ({error}).") from error
        try:
            yield db
        except sqlite3.Error as error:
            raise ReproError(f"The user cache cannot be used ({error}).") from error
        finally:
            db.close()

    def load(self, kind: str, user: str, revision: str) -> bytes | None:
        """What is kept under this key; None where there is nothing."""
        with self._open() as db:
            row = db.execute(f"select value from kept {WHERE}", (kind, user, revision)).fetchone()
        return row and row[0]

    def change(
        self,
        kind: str,
        user: str,
        revision: str,
        step: Callable[[bytes | None], bytes | None],
        lasts: float | None = None,
    ) -> bool:
        """Replace the value by ``step(value)`` in one go; False where `step` returns None.

        lasts: seconds after which a store may forget the value; this one keeps it.
        """
        key = (kind, user, revision)
        with self._open() as db:
            db.execute("begin immediate")  # one writer at a time, from the first read on
            try:
                row = db.execute(f"select value from kept {WHERE}", key).fetchone()
                value = step(row and row[0])
                if value is not None:
                    db.execute("insert or replace into kept values (?, ?, ?, ?)", (*key, value))
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")
        return value is not None

    def revisions(self, user: str) -> set[str]:
        """The revisions that hold an entry of this user."""
        with self._open() as db:
            found = db.execute(
                "select revision from kept where kind = 'entry' and user = ?", (user,)
            ).fetchall()
        return {revision for (revision,) in found}
