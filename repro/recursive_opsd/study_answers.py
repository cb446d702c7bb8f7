r"""The table of answers that the notebook judges, and what the library says of it when left alone.

Rows from the project's notes, section 12.2 (math-verify 0.9.0 as tried): what is wanted, and which
checker of the chapter the row is for. ``undone``: a sum left for the reader, not to be rewarded.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from repro.recursive_opsd import answers
from repro.recursive_opsd.problems import Problem
from repro.recursive_opsd.verifier import Verifier

# (prediction, gold, wanted, by)
TABLE = (
    ("1,000", "1000", "right", "lenient"),
    ("$1,000", "1000", "right", "lenient"),
    (r"\boxed{\$1{,}000}", "1000", "right", "strict"),
    ("70 000", "70000", "right", "lenient"),
    ("18.00", "18", "right", "lenient"),
    ("#### 18 dollars", "18", "right", "strict"),
    (r"\boxed{18\text{ dollars}}", "18", "right", "strict"),
    ("**18**", "18", "right", "lenient"),
    (r"\boxed{18 dollars}", "18", "right", "strict"),
    ("So 18. Check: 18 is more than 3", "18", "right", "lenient"),
    (r"\boxed{17}, wait, \boxed{18}", "18", "right", "strict"),
    (r"\boxed{17=18}", "18", "wrong", "strict"),
    ("18%", "18", "wrong", "lenient"),
    ("5:00", "5", "wrong", "lenient"),
    (r"\boxed{3 1/2}", "3.5", "right", "boxed"),
    ("eighteen", "18", "arguable", "lenient"),
    (r"\boxed{18", "18", "arguable", "lenient"),
    ("20-2", "18", "undone", "lenient"),
    (r"\boxed{9\times 2}", "18", "undone", "strict"),
    ("A", "A", "right", "boxed"),
    (r"\boxed{2:3}", "2:3", "right", "boxed"),
    ("1/2^{98}", "1/2^{99}", "wrong", "boxed"),
    ("1/2006!", "1/2004!", "wrong", "boxed"),
    ("3x + 4y + 14=0", "3*x-1*y+13=0", "wrong", "boxed"),
)
# Ways in which a model may write a right integer on its answer line.
SPELLINGS = {
    "as it is": "{0}",
    "with commas": "{0:,}",
    "with a dollar sign": "${0:,}",
    "with two decimals": "{0}.00",
    "bold, with a full stop": "**{0}**.",
    "in a box": r"\boxed{{{0}}}",
    "with a unit": "{0} apples",
}


def library(prediction: str, gold: str) -> bool:
    """What `math-verify` says by itself; no time limit, so for harmless rows only."""
    from math_verify import parse, verify

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # it warns that its time limits are off
    try:
        wanted, given = (parse(text, parsing_timeout=None) for text in (gold, prediction))
        return bool(verify(wanted, given, timeout_seconds=None))
    finally:
        logging.disable(before)


def verdict(prediction: str, gold: str, by: str, checker: Verifier) -> str:
    """Verdict of the checker `by`: ``strict``, ``lenient`` (both for numbers) or ``boxed``."""
    if by != "boxed":
        return answers.judge(prediction, gold, lenient=by == "lenient").verdict
    text = prediction if "boxed" in prediction else rf"\boxed{{{prediction}}}"
    return checker.judge(text, gold)


def as_wanted(found: str, wanted: str) -> bool:
    """Whether a verdict gives what is wanted; an arguable row may go either way."""
    return wanted == "arguable" or (found == "right") == (wanted == "right")


def golds(problems: Iterable[Problem]) -> dict[str, Counter]:
    """Verdicts on every gold solution, on each spelling of its answer, and on a wrong number."""
    found: dict[str, Counter] = {"the solution itself": Counter()}
    found |= {name: Counter() for name in (*SPELLINGS, "one more than the answer")}
    for problem in problems:
        value = int(Decimal(problem.answer))
        found["the solution itself"][answers.judge(problem.solution, problem.answer).verdict] += 1
        texts = {name: form.format(value) for name, form in SPELLINGS.items()}
        texts["one more than the answer"] = str(value + 1)
        for name, text in texts.items():
            found[name][answers.judge(f"Answer: {text}", problem.answer).verdict] += 1
    return found


def brief(value: object, most: int = 36) -> str:
    """`value` for a table cell: on one line, a long text by its beginning and end."""
    line = " ".join(str(value).split()) or "blank"
    return line if len(line) <= 2 * most else f"{line[:most]} … {line[-most:]}"
