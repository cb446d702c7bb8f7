"""The process that holds the game: reads jobs, plays, answers. Run by `repro.code_skills.pool`.

Lines of JSON on standard input: a `Spec`, or {"prove": task, …}. Lines on the original standard
output: {"ask": …} (answered by {"name": …}), {"episode": …} or {"proof": …}. What libraries print
goes to standard error.
"""

import json
import os
import sys
from typing import Any

from repro import faults
from repro.code_skills.action_spaces_faults import FAULTS as ACTION_SPACES
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.episode import Spec, failed, play
from repro.code_skills.skills_faults import FAULTS as SKILLS

TABLES = {"": {}, "skills": SKILLS, "action_spaces": ACTION_SPACES}


class Child:
    """Engines are kept, one for each task and set of keys."""

    def __init__(self, source: Any, sink: Any):
        self._source, self._sink = source, sink
        self._engines: dict[Any, Any] = {}

    def serve(self) -> None:
        for line in self._source:
            job = json.loads(line)
            if "prove" in job:
                self._say({"proof": self._prove(**job["prove"])})
            else:
                spec = Spec(**job | {k: tuple(job[k]) for k in ("without", "names")})
                self._say({"episode": self._play(spec)})

    def _play(self, spec: Spec) -> dict[str, Any]:
        """The episode; whatever goes wrong here is its error, not a lost run."""
        try:
            return play(self._engine(spec.task, spec.action_set), spec, self._ask)
        except Exception as error:
            return failed(spec, f"{type(error).__name__}: {error}")

    def _engine(self, task: str, action_set: str) -> Engine:
        if (task, action_set) not in self._engines:
            for old in self._engines.values():  # each live one holds a folder and megabytes
                old.close()
            self._engines = {(task, action_set): Engine(task, 1, action_set)}
        return self._engines[task, action_set]

    def _prove(self, task: str, action_set: str, seed: int, lgen: int | None) -> dict[str, str]:
        return prove(self._engine(task, action_set), seed, lgen)

    def _ask(self, text: str, menu: list[str]) -> str:
        self._say({"ask": {"text": text, "menu": menu}})
        return json.loads(self._source.readline())["name"]

    def _say(self, value: dict[str, Any]) -> None:
        self._sink.write(json.dumps(value) + "\n")
        self._sink.flush()


def prove(engine: Engine, seed: int, lgen: int | None = None) -> dict[str, Any]:
    """First observations of two resets with `seed` and of one with another, by hash.

    `applied`: the first two are equal and the third is not; `limit`: the task's own step limit.
    """
    far = 1_000_003  # with `lgen` the whole first picture is that of `lgen`
    elsewhere = Seed(seed + far, seed + far, lgen + far if lgen else None)
    seeds = (Seed(seed, seed, lgen), Seed(seed, seed, lgen), elsewhere)
    first, again, other = (engine.reset(s).hash().hex() for s in seeds)
    return {
        "first": first, "again": again, "other": other,
        "applied": first == again != other, "limit": engine.limit,
    }  # fmt: skip


def main(table: str = "", fault: str = "") -> None:
    sink = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with faults.plant(TABLES[table], fault):
        Child(sys.stdin, sink).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
