"""Sums of two whole numbers: a task that the small model partly solves, made without any data.

A pair belongs to one split by its hash, whatever the order of its terms, so no sum of the test was
ever trained on. GSM8K's training split is divided by hash too. Source: none; made for this book.
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd import answers, gates, problems, prompts
from repro.recursive_opsd.problems import Problem

SPLITS = ("train", "validation", "test")
NAMES = ("sums", "gsm8k")
# "In my own way" makes the teacher write prose, which the cap cuts off; so it is asked for a line.
WORDING = prompts.Wording(
    version="sums-1",
    instruction="Reply with the sum only.",
    introduction="Here is the solution.\n",
    transition="\nThe same again in one line:\n",
    ask_own_way="Read the solution, then answer in one line.",
    ask_concise="Write this as short as possible.",
)
_BORDERS = (5, 7)  # of ten parts: five train, two validate, three test


@dataclass(frozen=True)
class Task:
    """Problems of each split; the words around them; places: gold -> answer places for gates."""

    name: str
    splits: dict[str, list[Problem]]
    wording: prompts.Wording
    places: Callable[[str], gates.Places]


def task(name: str, sizes: Sequence[int], largest: int = 30) -> Task:
    """The first sizes[i] problems of each of `SPLITS` in the order of their hashes.

    name: one of `NAMES`. largest: greatest term of a sum. The same problems for every seed.
    Raises BadParameter when a split has fewer, MissingAsset without GSM8K where it is asked for.
    """
    accept.one_of("task", name, NAMES)
    pools = _gsm8k() if name == "gsm8k" else _sums(accept.count("largest", largest, least=2))
    found = {}
    for split, size in zip(SPLITS, sizes, strict=True):
        pool = sorted(pools[split], key=lambda p: _hash(p.question))
        if not 1 <= size <= len(pool):
            raise BadParameter(f"{split}={size} is refused; accepted: 1 to {len(pool)} problems.")
        found[split] = pool[:size]
    if name == "gsm8k":
        return Task(name, found, prompts.WORDING, gates.line_places)
    return Task(name, found, WORDING, last_number)


def one(a: int, b: int) -> Problem:
    """The problem a + b with its solution."""
    return Problem(f"{a}+{b}", f"What is {a} + {b}?", f"{a} + {b} = {a + b}", str(a + b))


def split_of(a: int, b: int) -> str:
    """The split of a pair of terms, in whichever order."""
    return _part(f"{min(a, b)}+{max(a, b)}")


def last_number(gold: str) -> gates.Places:
    """Answer places of a text whose answer is its last number: the end of the text."""

    def places(text: str) -> list[tuple[int, str]]:
        return [(len(text.rstrip()), answers.judge(text, gold, lenient=True).verdict)]

    return places


def _sums(largest: int) -> dict[str, list[Problem]]:
    pools: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    for a in range(2, largest + 1):
        for b in range(a, largest + 1):
            flip = random.Random(f"{a}+{b}").random() < 0.5  # which term comes first
            pools[split_of(a, b)].append(one(b, a) if flip else one(a, b))
    return pools


def _gsm8k() -> dict[str, list[Problem]]:
    """The official training split in two by the hash of the question; the official test split."""
    pools: dict[str, list[Problem]] = {"train": [], "validation": []}
    for problem in problems.gsm8k("train"):
        pools["validation" if _hash(problem.question) % 10 == 0 else "train"].append(problem)
    return pools | {"test": problems.gsm8k("test")}


def _part(text: str) -> str:
    at = _hash(text) % 10
    return SPLITS[sum(at >= border for border in _BORDERS)]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
