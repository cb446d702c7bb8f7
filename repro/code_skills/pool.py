"""Episodes in a process of their own: a crash of the engine costs one episode, not the run."""

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from repro.code_skills.episode import Spec, failed
from repro.errors import ReproError
from repro.paths import ROOT

Ask = Callable[[str, list[str]], str]  # (text, menu) -> name
PATIENCE_S = 120
RECYCLE = 400  # episodes a process plays: the engine keeps a little memory at every reset


class Player:
    """Plays specs in a child process, which is started when needed and replaced when it dies.

    table, fault: a deliberate fault to plant in the child. Use as a context manager.
    """

    def __init__(self, table: str = "", fault: str = ""):
        self._arguments, self._process, self._played = (table, fault), None, 0

    def play(self, spec: Spec, ask: Ask | None = None) -> dict[str, Any]:
        """The episode of `spec`. ask(text, menu) answers for the controller "lm"."""
        try:
            self._send(asdict(spec))
            while "ask" in (said := self._hear()):
                self._write({"name": ask(said["ask"]["text"], said["ask"]["menu"])})
            return said["episode"]
        except ProcessEnded as ended:
            self.close()
            return failed(spec, str(ended))

    def prove(
        self, task: str, seed: int, action_set: str = "full", lgen: int | None = None
    ) -> dict:
        """`child.prove` in the child. Raises ReproError where the process dies."""
        try:
            self._send({"prove": dict(task=task, action_set=action_set, seed=seed, lgen=lgen)})
            return self._hear()["proof"]
        except ProcessEnded as ended:
            self.close()
            raise ReproError(f"{task}: {ended}") from ended

    def close(self) -> None:
        if self._process:
            with contextlib.suppress(BrokenPipeError):  # what a dead child did not read
                self._process.stdin.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
            self._process = None

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, job: dict[str, Any]) -> None:
        if self._played >= RECYCLE:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "repro.code_skills.child", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
            self._played = 0
        self._played += 1
        self._write(job)

    def _write(self, value: dict[str, Any]) -> None:
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProcessEnded(self._verdict()) from None

    def _hear(self) -> dict[str, Any]:
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        if not ready:
            self._process.kill()
            raise ProcessEnded(f"no answer within {PATIENCE_S} s")
        if not (line := self._process.stdout.readline()):
            raise ProcessEnded(self._verdict())
        return json.loads(line)

    def _verdict(self) -> str:
        return f"the engine's process ended with code {self._process.wait()}"


class ProcessEnded(Exception):
    """The child died or did not answer."""


def play_all(
    specs: Iterable[Spec],
    ask: Callable[[Spec], Ask] | None = None,
    table: str = "",
    fault: str = "",
) -> list[dict[str, Any]]:
    """All episodes, in order, in one child at a time. ask(spec) gives who answers for that spec."""
    with Player(table, fault) as player:
        return [player.play(spec, ask(spec) if ask else None) for spec in specs]
