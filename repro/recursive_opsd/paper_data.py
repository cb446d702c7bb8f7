"""Problems and contests of the paper's run from files that the reader brings, and its tokenizer.

Both are JSON lines in UTF-8. Training: ``problem``, ``solution`` and, where the solution has no
box, ``answer``. Contests: ``contest``, ``problem``, ``answer``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import BadParameter, ReproError
from repro.recursive_opsd import answers, prompts
from repro.recursive_opsd.problems import Problem

WORDING = prompts.Wording(
    version="paper-1",
    instruction="Think step by step. Put the final answer into \\boxed{}.",
)
NO_SOLUTION = "(A contest problem: no solution is given to anyone.)"


@dataclass(frozen=True)
class Training:
    """problems: those that can be used; refused: how many lines could not; nothing is cut."""

    problems: list[Problem]
    refused: int


def training(path: Path, expected: int) -> Training:
    """The problems in `path`, which must hold `expected` lines.

    Refused and counted: a problem without an answer, and one that `Problem` does not accept.
    Raises ReproError for a file that is not there or not in this form, BadParameter for a count.
    """
    found, refused = [], 0
    rows = list(_rows(path, ("problem", "solution")))
    _counted("problems", expected, len(rows), path)
    for at, row in enumerate(rows):
        boxed = answers.boxes(row["solution"])
        answer = row.get("answer") or (boxed[-1] if boxed else "")
        try:
            found.append(Problem(f"train-{at}", row["problem"], row["solution"], str(answer)))
        except BadParameter:
            refused += 1
    return Training(found, refused)


def contests(path: Path, expected: int) -> list[tuple[str, Problem]]:
    """(contest, problem) of every line; the same errors as `training`."""
    rows = list(_rows(path, ("contest", "problem", "answer")))
    _counted("contests", expected, len(rows), path)
    return [
        (row["contest"], Problem(f"test-{at}", row["problem"], NO_SOLUTION, row["answer"]))
        for at, row in enumerate(rows)
    ]


class ThinkingOff:
    """A tokenizer whose chat template always has thinking mode off; else it is `inner`."""

    def __init__(self, inner: Any):
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._inner(*args, **options)

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> Any:
        return self._inner.apply_chat_template(messages, enable_thinking=False, **options)


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise ReproError(f"{path.name} does not exist; it holds JSON lines with {needed}.")
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ReproError(f"line {number} of {path.name} is not JSON: {error.msg}.") from error
        given = row if isinstance(row, dict) else {}
        if lacking := [name for name in needed if not isinstance(given.get(name), str)]:
            raise ReproError(f"line {number} of {path.name} lacks the text {', '.join(lacking)}.")
        yield given


def _counted(name: str, expected: int, found: int, path: Path) -> None:
    if found != expected:
        raise BadParameter(
            f"{name}={expected} is refused with {path.name}; accepted: its {found} lines."
        )
