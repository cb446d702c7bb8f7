"""Is the number right? The rule for GSM8K: one announced place, exact decimals.

Strict, for training: the last ``Answer:`` line, else the last closed box, else the last ``####``.
Lenient, a second score that is reported apart: where nothing is announced, a sentence that is only
a conclusion and a number, else the last number. The prompt is never read, only the answer's text.
Not `math-verify`: it lets ``18%``, ``5:00`` and ``17=18`` pass (see `verifier`).
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from repro.errors import BadParameter

VERDICTS = ("right", "wrong", "missing", "invalid")
PLACES = ("line", "box", "hashes")
_LINE = re.compile(r"^[\s*_>#-]*(?:final )?answer[\s*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
_HASHES = re.compile(r"####(.*)$", re.MULTILINE)
_SPACED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,])")
_NUMBER = re.compile(r"-?(?:[0-9](?:[0-9,]*[0-9])?(?:\.[0-9]+)?|\.[0-9]+)")
_GROUPED = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?$")
_UNDONE = re.compile(r"\d\s*(?:[-+*/^:×÷]|\\(?:times|cdot|div))\s*[-(\d]|\\d?frac|\d\s*%|\d\s*\\%")
_CONCLUSION = re.compile(
    r"\b(?:so|thus|hence|therefore|answer is|total is)\b[\s:,*$]*"
    rf"({_NUMBER.pattern})(?:\s+[A-Za-z]+)?\s*(?:[.!*]|\n|$)(?!\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Judgement:
    """verdict: one of `VERDICTS`; value: the number as read, or None; place: where it stood."""

    verdict: str
    value: Decimal | None
    place: str

    @property
    def right(self) -> bool:
        return self.verdict == "right"


def judge(text: str, gold: str, lenient: bool = False) -> Judgement:
    """`text`: what the model wrote, without the prompt. `gold`: a number, commas allowed.

    ``missing``: no announced place or no number in it. ``invalid``: several different numbers, a
    sum left undone, a fraction, ``%``, commas in the wrong place. Both count as not right.
    """
    target = gold_number(gold)
    place, inside = announced(after_thinking(text))
    if place:
        value, verdict = _read(inside)
    elif lenient:
        place, value = _fallback(after_thinking(text))
        verdict = "" if value is not None else "missing"
    else:
        value, verdict = None, "missing"
    return Judgement(verdict or ("right" if value == target else "wrong"), value, place)


def gold_number(gold: str) -> Decimal:
    """`gold` as an exact decimal; raises BadParameter when it is no single number."""
    value, _ = _read(gold)
    if value is None:
        raise BadParameter(f"gold={gold!r} is refused; accepted: one number.")
    return value


def after_thinking(text: str) -> str:
    """What follows the last ``</think>``; everything, when there is none."""
    return text.rpartition("</think>")[2]


def judge_place(inside: str, gold: str) -> str:
    """Verdict on the text of one answer place."""
    value, verdict = _read(inside)
    return verdict or ("right" if value == gold_number(gold) else "wrong")


def announced(text: str) -> tuple[str, str]:
    """(place, text in it) of the last announced answer, or ("", "")."""
    if found := lines(text):
        return "line", found[-1][1]
    if inside := boxes(text):
        return "box", inside[-1]
    if marks := _HASHES.findall(text):
        return "hashes", marks[-1]
    return "", ""


def lines(text: str) -> list[tuple[int, str]]:
    """(end position, text after the colon) of every ``Answer:`` line."""
    return [(m.end(), m[1]) for m in _LINE.finditer(text)]


def boxes(text: str) -> list[str]:
    r"""The insides of all balanced ``\boxed{...}``, in order; an unclosed box is none."""
    return [inside for _, inside in boxes_at(text)]


def boxes_at(text: str) -> list[tuple[int, str]]:
    """(end position, inside) of every balanced box."""
    found = []
    for start in re.finditer(r"\\boxed\s*\{", text):
        depth = 1
        for at in range(start.end(), len(text)):
            escaped = text[at - 1] == "\\"
            depth += (text[at] == "{" and not escaped) - (text[at] == "}" and not escaped)
            if depth == 0:
                found.append((at + 1, text[start.end() : at]))
                break
    return found


def _read(inside: str) -> tuple[Decimal | None, str]:
    """(number, "") or (None, ``missing`` or ``invalid``) of an answer place."""
    if nested := boxes(inside):
        inside = nested[-1]
    plain = re.sub(r"-\s+(?=[\d.])", "-", _stripped(inside))  # "- 18" is minus 18
    numbers = _NUMBER.findall(plain)
    if not numbers:
        return None, "missing"
    if _UNDONE.search(plain) or not all(map(_well_grouped, numbers)):
        return None, "invalid"
    values = {Decimal(n.replace(",", "")) for n in numbers}
    return (values.pop(), "") if len(values) == 1 else (None, "invalid")


def _fallback(text: str) -> tuple[str, Decimal | None]:
    """Lenient: the last bare conclusion, else the last number that stands for itself."""
    plain = _stripped(text)
    for place, found in (
        ("conclusion", [m[1] for m in _CONCLUSION.finditer(plain)]),
        ("last number", [m[0] for m in _NUMBER.finditer(plain) if not _part(plain, m)]),
    ):
        if found:
            number = found[-1]
            return place, Decimal(number.replace(",", "")) if _well_grouped(number) else None
    return "", None


def _part(text: str, match: re.Match) -> bool:
    """Whether a number is a piece of a percentage or a clock time."""
    return bool(re.match(r"\s*\\?%|:\d", text[match.end() :])) or text[: match.start()].endswith(
        ":"
    )


def _stripped(text: str) -> str:
    """Without currency, bold marks, TeX spacing and text commands; grouping made plain."""
    text = text.replace("{,}", ",").replace("\u2212", "-").replace("\u00a0", " ")
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1", text)
    text = re.sub(r"\\[$]|[$€£]|\*\*|__|\\[,;!() ]", "", text)
    text = re.sub(r"[\u2009\u202f]", " ", text)
    return _SPACED.sub(lambda m: m[0].replace(" ", ""), text)


def _well_grouped(number: str) -> bool:
    return "," not in number or bool(_GROUPED.match(number))
