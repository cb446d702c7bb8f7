"""Which rewrites may teach: four gates, booked under the first that fails (2609.30652, App. M).

1 it ends and is shorter; 2 it shows no second thoughts; 3 its answer is right; 4 it stands alone.
The full phrase list and the thresholds of repetition are not public, so they are arguments here.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro import accept
from repro.recursive_opsd import answers

ACCEPTED = "accepted"
REASONS = {
    "unfinished": 1,
    "empty": 1,
    "over the limit": 1,
    "not shorter": 1,
    "second thoughts": 2,
    "under the minimum": 3,
    "no answer near the end": 3,
    "wrong answer": 3,
    "wrong earlier answer": 3,
    "answer unknown": 3,
    "continuation": 4,
    "omitted material": 4,
    "repetition": 4,
}
REFLECTIONS = (
    r"wait",
    r"actually",
    r"correction",
    r"double[- ]?check(?:s|ed|ing)?",
    r"start(?:ing)? over",
)
CONTINUATIONS = ("continuing", "as before", "so, as", "and then", "again,", "next,", "...", "…")
OMITTED = (
    r"as (?:shown|stated|computed|found|explained|described) (?:above|before|earlier)",
    r"(?:the|my) (?:previous|original|earlier|above) (?:solution|answer|steps?|reasoning)",
    r"(?:reference|given|verified) solution",
)


@dataclass(frozen=True)
class Limits:
    """Thresholds: longest and least (paper: 12K and 32 tokens); the others are ours.

    tail: characters allowed after the last answer place. phrase: words of a phrase that may not
    come more than `phrases` times. lines: how often one line may come.
    """

    longest: int = 12_000
    least: int = 32
    tail: int = 120
    phrase: int = 6
    phrases: int = 2
    lines: int = 2

    def __post_init__(self) -> None:
        for name in ("longest", "least", "tail", "phrase", "phrases", "lines"):
            accept.count(name, getattr(self, name), least=0 if name in ("least", "tail") else 1)


@dataclass(frozen=True)
class Candidate:
    """A rewrite: its ids with the end token if it `ended`, and its text without special tokens."""

    ids: tuple[int, ...]
    ended: bool
    text: str


LIMITS = Limits()
Places = Callable[[str], Sequence[tuple[int, str]]]


def book(candidate: Candidate, source: int, places: Places, limits: Limits = LIMITS) -> str:
    """`ACCEPTED`, or the reason (a key of `REASONS`) of the first gate that fails.

    source: tokens of the answer that was rewritten, counted alike, end token included.
    places: text -> (end position, verdict) of each answer place in order; verdicts ``right``,
    ``wrong``, ``invalid``, ``missing`` or ``unknown``. See `line_places`, `box_places`.
    """
    return (
        length_gate(candidate, source, limits)
        or reflection_gate(candidate.text)
        or answer_gate(candidate, places, limits)
        or alone_gate(candidate.text, limits)
        or ACCEPTED
    )


def length_gate(candidate: Candidate, source: int, limits: Limits) -> str:
    """Gate 1: a natural end, some text, at most `longest` tokens, fewer than the source."""
    if not candidate.ended:
        return "unfinished"
    if not candidate.text.strip():
        return "empty"
    if len(candidate.ids) > limits.longest:
        return "over the limit"
    return "" if len(candidate.ids) < source else "not shorter"


def reflection_gate(text: str) -> str:
    """Gate 2: whole words only, so that "await" is no "wait"."""
    found = re.search(rf"\b(?:{'|'.join(REFLECTIONS)})\b", text, re.IGNORECASE)
    return "second thoughts" if found else ""


def answer_gate(candidate: Candidate, places: Places, limits: Limits) -> str:
    """Gate 3: long enough; the last answer near the end and right; no earlier one wrong."""
    if len(candidate.ids) < limits.least:
        return "under the minimum"
    found = places(candidate.text)
    if not found or len(candidate.text.rstrip()) - found[-1][0] > limits.tail:
        return "no answer near the end"
    *earlier, last = [verdict for _, verdict in found]
    if last == "unknown" or (last == "right" and "unknown" in earlier):
        return "answer unknown"
    if last != "right":
        return "wrong answer"
    return "wrong earlier answer" if set(earlier) - {"right"} else ""


def alone_gate(text: str, limits: Limits) -> str:
    """Gate 4: no continuation, nothing omitted, no repetition."""
    start = text.lstrip(" *#>-\n").casefold()
    if start.startswith(CONTINUATIONS):
        return "continuation"
    if re.search("|".join(OMITTED), text, re.IGNORECASE):
        return "omitted material"
    lines = Counter(line.strip() for line in text.splitlines() if line.strip())
    words = text.casefold().split()
    size = limits.phrase
    phrases = Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
    most_lines, most_phrases = (max(c.values(), default=0) for c in (lines, phrases))
    repeats = most_lines > limits.lines or most_phrases > limits.phrases
    return "repetition" if repeats else ""


def line_places(gold: str) -> Places:
    """Answer places of tasks whose answer is a line ``Answer: n``: every such line."""

    def places(text: str) -> list[tuple[int, str]]:
        found = answers.lines(text)
        return [(end, answers.judge_place(inside, gold)) for end, inside in found]

    return places


def box_places(judge: Callable[[str], str]) -> Places:
    """Answer places of boxed mathematics; `judge`: inside of a box -> verdict."""

    def places(text: str) -> list[tuple[int, str]]:
        return [(end, judge(inside)) for end, inside in answers.boxes_at(text)]

    return places
