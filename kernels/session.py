"""A session on one GPU: stages that fail alone, a time budget for each, one file of results.

A stage is a function of a `Bench` (the device and what is known of it) and a `Log` (what the stage
finds). Stages that measure are skipped where there is no device; nothing is ever made up. After
each stage the whole report is handed to `save`, so that a crash later loses nothing.

No stage of a session has run on a GPU yet: without one, all that is checked is what the simulator
can execute and the book-keeping here.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NAME = re.compile(r"^[a-z0-9][a-z0-9_.-]*$")
PATH = re.compile(r"(?<![\w.])~?/[\w.@+-]+(?:/[\w.@+-]*)*")
DIRECTIONS = ("higher", "lower", "none")


@dataclass(frozen=True)
class Bench:
    """Where a session runs.

    where: torch device. simulated: True in Numba's simulator, where only correctness can be had.
    name: of the device class. nominal: bytes/s of the data sheet, None if unknown. cache: bytes of
    L2. memory: bytes of main memory. clock: cycles/s.
    """

    where: Any
    simulated: bool
    name: str
    nominal: float | None = None
    cache: int = 0
    memory: int = 0
    clock: float = 0.0


class Skipped(Exception):
    """A stage has nothing to do here; the text says why."""


@dataclass
class Log:
    """What one stage finds. seconds: its budget; a case that comes later is left out, and named.

    known: what an earlier stage found and a later one needs, such as the streaming ceiling.
    """

    seconds: float = math.inf
    known: dict[str, float] = field(default_factory=dict)
    metrics: list[dict] = field(default_factory=list)
    checks: list[dict] = field(default_factory=list)
    timings: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[dict] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        self._started = time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._started

    def metric(
        self, name: str, value: float, *, unit: str, direction: str, split: str, n: int
    ) -> None:
        """Note a number, in the format of the book's records (evidence/schema/record.json).

        Raises ValueError for a name used before or spelt otherwise, and for NaN or infinity.
        """
        if not NAME.match(name) or name in {m["name"] for m in self.metrics}:
            raise ValueError(f"metric {name!r}; accepted: a new name of a-z, 0-9, '.', '_', '-'.")
        if not math.isfinite(value):
            raise ValueError(f"metric {name}={value} is not finite; accepted: a finite number.")
        if direction not in DIRECTIONS or n < 1:
            raise ValueError(f"direction={direction!r}, n={n}; accepted: {DIRECTIONS}, n >= 1.")
        row = dict(name=name, value=float(value), unit=unit, direction=direction)
        self.metrics.append(row | dict(split=split, n=int(n)))

    def check(self, name: str, passed: bool, sentence: str) -> None:
        self.checks.append({"name": name, "passed": bool(passed), "sentence": sentence})

    def leave(self, case: str, reason: str) -> None:
        """Say that a case or a comparison was not done, and why."""
        self.left_out.append({"case": case, "reason": public(reason)})

    def until(self, cases: Iterable[Any], label: Callable[[Any], str] = str) -> Iterator[Any]:
        """Yield `cases` while there is time; the others are left out. The first always runs."""
        for number, case in enumerate(cases):
            if number and self.spent > self.seconds:
                self.leave(label(case), f"the stage's {self.seconds:g} s were spent")
            else:
                yield case

    def attempt(
        self, case: str, work: Callable[[], Any], errors: tuple[type[Exception], ...] = (Exception,)
    ) -> Any:
        """`work()`, or None if it raises one of `errors`: `case` is then left out, and says why."""
        try:
            return work()
        except errors as error:
            self.leave(case, f"{type(error).__name__}: {error}")
            return None


@dataclass(frozen=True)
class Stage:
    """needs_device: measures time, so it is skipped in the simulator."""

    name: str
    work: Callable[[Bench, Log], None]
    needs_device: bool = False


def public(text: str) -> str:
    """`text` on one line of at most 400 characters, without paths of this machine."""
    return PATH.sub("<path>", " ".join(str(text).split()))[:400]


def run(
    stages: Sequence[Stage],
    bench: Bench,
    seconds: float,
    save: Callable[[dict], None] = lambda report: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict:
    """Run `stages` in order and return the report; `save` gets it after each of them.

    seconds: the budget of each stage, looked at between its cases (a case is never cut short).
    """
    began, known = time.monotonic(), {}
    report: dict[str, Any] = {
        "schema": 1,
        "kind": "gpu-session",
        "device": bench.name,
        "simulated": bench.simulated,
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds_per_stage": seconds,
        "stages": [],
        "metrics": [],
    }
    for stage in stages:
        entry, log = run_stage(stage, bench, seconds, known)
        report["stages"].append(entry)
        report["metrics"] += log.metrics
        report["wall_s"] = round(time.monotonic() - began, 1)
        report["ok"] = good(report)
        save(report)
        say(f"{stage.name}: {entry['state']}, {entry['wall_s']} s {entry['error']}".strip())
    return report


def run_stage(
    stage: Stage, bench: Bench, seconds: float, known: dict[str, float]
) -> tuple[dict, Log]:
    """Run one stage: its entry of the report, and the log. No exception leaves this function.

    The state is ``done``, ``partial`` (something was left out), ``failed`` or ``skipped``.
    """
    log, error = Log(seconds, known), ""
    if stage.needs_device and bench.simulated:
        state, error = "skipped", "no device: the simulator says nothing about time"
    else:
        try:
            stage.work(bench, log)
            state = "partial" if log.left_out else "done"
        except Skipped as reason:
            state, error = "skipped", public(str(reason))
        except Exception as problem:  # a stage must not take the others with it
            state, error = "failed", public(f"{type(problem).__name__}: {problem}")
    entry = {"name": stage.name, "state": state, "error": error, "wall_s": round(log.spent, 1)}
    for part in ("checks", "timings", "notes", "left_out", "facts"):
        if found := getattr(log, part):
            entry[part] = found
    return entry, log


def good(report: dict) -> bool:
    """No stage failed and no check is red."""
    stages = report["stages"]
    red = [c["name"] for s in stages for c in s.get("checks", []) if not c["passed"]]
    return not red and all(s["state"] != "failed" for s in stages)
