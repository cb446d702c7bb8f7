"""One problem with its verified solution, and GSM8K made fit for it.

GSM8K solutions hold calculator marks ``<<48/2=24>>`` and end in ``#### 72``. Left as they are, the
teacher teaches those marks; so they go, and the last line becomes the answer line that the student
is asked for.
"""

import json
import re
from dataclasses import dataclass

from repro import assets
from repro.errors import BadParameter, MissingAsset

_MARKS = re.compile(r"<<[^<>]*>>")
_LAST = re.compile(r"^#### *(.+?) *$", re.MULTILINE)
MISSING = (
    "GSM8K is not here, so a problem written for this book stands in for it; it says nothing of "
    "GSM8K. Fetch the data with `repro fetch gsm8k`."
)


@dataclass(frozen=True)
class Problem:
    """question x, solution g with its reasoning, answer: the checked result, as text.

    Raises BadParameter for an empty part, and where the question already holds the solution: then
    no prompt could keep the two apart.
    """

    name: str
    question: str
    solution: str
    answer: str

    def __post_init__(self) -> None:
        for part in ("question", "solution", "answer"):
            if not getattr(self, part).strip():
                raise BadParameter(f"{part}='' of {self.name} is refused; accepted: some text.")
        if self.solution.strip() in self.question:
            raise BadParameter(
                f"question of {self.name} contains its solution; accepted: one that does not."
            )


EXAMPLE = Problem(
    "written-for-the-book",
    "A baker fills 4 trays with 12 rolls each and sells 30 rolls. How many rolls are left?",
    "The baker makes 4 * 12 = 48 rolls.\nAfter selling 30, 48 - 30 = 18 are left.\nAnswer: 18",
    "18",
)


def gsm8k(split: str = "train") -> list[Problem]:
    """All problems of GSM8K's `split` (``train`` or ``test``), cleaned.

    Raises MissingAsset without the data, BadParameter for another split.
    """
    if split not in ("train", "test"):
        raise BadParameter(f"split={split!r} is refused; accepted: train, test.")
    lines = (assets.path("gsm8k") / f"{split}.jsonl").read_text("utf-8").splitlines()
    return [from_gsm8k(f"{split}-{at}", **json.loads(line)) for at, line in enumerate(lines)]


def gsm8k_or_example(split: str = "train") -> tuple[list[Problem], str]:
    """GSM8K and "", or where it is missing one made-up problem and the sentence that says so."""
    try:
        return gsm8k(split), ""
    except MissingAsset:
        return [EXAMPLE], MISSING


def from_gsm8k(name: str, question: str, answer: str) -> Problem:
    """A problem from one GSM8K line; its `answer` field is solution and ``#### n`` in one."""
    return Problem(name, question, clean_solution(answer), gold_answer(answer))


def gold_answer(solution: str) -> str:
    """The text after the last ``####``, without commas."""
    found = _LAST.findall(solution)
    if not found:
        raise BadParameter("solution without '#### n' is refused; accepted: GSM8K's format.")
    return found[-1].replace(",", "")


def clean_solution(solution: str, form: str = "Answer: {}") -> str:
    """`solution` without calculator marks, its ``#### n`` line written as `form`."""
    plain = _MARKS.sub("", solution)
    return _LAST.sub(lambda _: form.format(gold_answer(solution)), plain)
