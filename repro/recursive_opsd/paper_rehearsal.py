"""The wiring of the paper's run on a tiny random model: many ranks against one.

Shared must equal one process, step by step; reductions that are broken on purpose must not; a run
that was stopped and resumed must equal one that was not. Nothing here shows an effect of training.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from repro import files
from repro.recursive_opsd import arms, checkpoint, gates, paper_run, prompts, toy
from repro.recursive_opsd.paper_group import Group
from repro.recursive_opsd.paper_step import Shared
from repro.recursive_opsd.problems import Problem

WORDING = prompts.Wording("toy", "Go.", "See: ", "\nMy way: ", "Own way.", "Shorter.")
SETTINGS = arms.Settings(rate=1e-2, batch=4, micro=1, most=4, cap=0.5, least=1, seed=3)
JOBS = {"shared": "", "unreduced": "unreduced", "unweighted": "unweighted"}  # name: its fault
UPDATES = 4
LIMIT = 1e-5
CONTEXT = 160
FOUND = "verdicts.json"


@dataclass(frozen=True)
class Verdict:
    """Largest differences to one process, of weights and of logged numbers; good: as expected."""

    name: str
    weights: float
    logs: float
    good: bool


def problems() -> list[Problem]:
    """Sums; the solution of one is too long for the context, so that ranks count unequally."""
    made = [Problem(f"p{a}", f"{a}+7?", f"{a} + 7 = {a + 7}", str(a + 7)) for a in range(1, 8)]
    return [*made, Problem("long", "8+7?", "8 + 7 = 15" + "." * CONTEXT, "15")]


def training(group: Group, fault: str = "", kind: type[Shared] = Shared) -> Shared:
    """A fresh run of this rank, the same from every call."""
    model = checkpoint.with_lora(
        toy.model(context=CONTEXT).requires_grad_(False), rank=2, alpha=4, seed=1
    ).to(group.device)
    arm = arms.arm("dce_srcl")
    return kind(
        model, toy.Tokenizer(), arm, SETTINGS, problems(), WORDING, gates.line_places, group, fault
    )


class Failing(Shared):
    """A run whose last rank breaks off at its second update."""

    def update(self) -> dict[str, Any]:
        if self.step == 1 and self.group.rank == self.group.size - 1:
            raise RuntimeError("planted: this rank was asked to fail")
        return super().update()


@contextmanager
def all_accepted() -> Iterator[None]:
    """Let every rewrite pass: no random model would earn it, and SRCL would stay untested."""
    with mock.patch.object(gates, "book", lambda *_: gates.ACCEPTED):
        yield


def play(group: Group, out: Path, fail: bool = False) -> None:
    """All jobs as this rank's part; rank 0 compares. With `fail`, one more, which a rank ends."""
    with all_accepted():
        for name, fault in JOBS.items():
            run = training(group, fault)
            agree = Group.agree if fault != "unreduced" else (lambda *_: None)
            with mock.patch.object(Group, "agree", agree):  # the comparison is to find it
                paper_run.train(run, UPDATES, out / name, UPDATES)
        half = training(group)
        paper_run.train(half, UPDATES // 2, out / "resumed", UPDATES)
        paper_run.train(training(group), UPDATES, out / "resumed", UPDATES)
        if group.rank == 0:
            found = [asdict(each) for each in verdicts(out, alone())]
            files.write_atomic(out / FOUND, json.dumps(found, indent=1) + "\n")
        group.every(None)
        if fail:
            paper_run.train(training(group, kind=Failing), UPDATES, out / "failing", 1)


def alone() -> dict[str, Any]:
    """The checkpoint of the same run as one rank, without any group."""
    with all_accepted(), tempfile.TemporaryDirectory(prefix="repro-") as folder:
        paper_run.train(training(Group()), UPDATES, Path(folder), UPDATES)
        return checkpoint.load(Path(folder) / paper_run.LAST)


def verdicts(out: Path, reference: dict[str, Any]) -> list[Verdict]:
    """What became of each job in `out`, against one process."""
    found = []
    for name in (*JOBS, "resumed"):
        state = checkpoint.load(out / name / paper_run.LAST)
        weights = max(
            float((tensor - state["run"]["weights"][key]).abs().max())
            for key, tensor in reference["run"]["weights"].items()
        )
        pairs = zip(reference["history"], state["history"], strict=True)
        logs = max(_apart(one, other) for one, other in pairs)
        equal = max(weights, logs) <= LIMIT
        found.append(Verdict(name, weights, logs, equal == (not JOBS.get(name))))
    return found


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Largest difference of two logs' numbers."""
    assert one.keys() == other.keys()
    numbers = [k for k, v in one.items() if isinstance(v, (int, float)) and k != "forward_passes"]
    return max(abs(one[k] - other[k]) for k in numbers)
