r"""Boxed mathematics: `math-verify` in a process of its own, with rules around it.

The library limits its time by a signal that works in a main thread only, and it can hang or eat
memory. Here a worker answers over a pipe and is ended at the limit; then the verdict is
``unknown``, which is not ``wrong``, and is counted. The rules catch what the library lets pass or
misses: several boxes, ``17=18``, ``18%``, ``5:00``, ``3 1/2``, a unit without ``\text``.
"""

import json
import re
import selectors
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from repro import accept
from repro.paths import ROOT
from repro.recursive_opsd import answers, verifier_worker

VERDICTS = ("right", "wrong", "missing", "unknown")
BOXES = ("last", "first")
START_S = 120  # to import the library on a busy machine; no part of an item's limit
_NUMBER = r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_MIXED = re.compile(r"^(-?)(\d+) (\d+)\s*/\s*(\d+)$")
_UNIT = re.compile(rf"^(\\?\$?\s*{_NUMBER})\s+[A-Za-z][A-Za-z .]*$")
_PLAIN = re.compile(rf"^{_NUMBER}$")
_SPACED = re.compile(r"^-?\d{1,3}(?: \d{3})+(?:\.\d+)?$")
_RATIO = re.compile(r"^(\d+)\s*:\s*(\d+)$")
_UNDONE = re.compile(r"[\d)]\s*(?:[-+*]|\\times|\\cdot)\s*[\d(]")


class Verifier:
    """Use as a context manager; `counts` holds how often each verdict fell.

    limit_s: wall time of one comparison. undone: whether a sum left undone (``20-2``) may count as
    the number it makes.
    """

    def __init__(self, limit_s: float = 5.0, undone: bool = False):
        self.limit_s = accept.positive("limit_s", limit_s)
        self.undone = undone
        self.counts: Counter[str] = Counter()
        self._worker: subprocess.Popen | None = None

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge(self, text: str, gold: str, box: str = "last") -> str:
        """Verdict on one box of `text`, after the last ``</think>``; ``missing`` without a box.

        box: ``last``, or ``first`` as in the paper's check.
        """
        accept.one_of("box", box, BOXES)
        found = answers.boxes(answers.after_thinking(text))
        verdict = self.compare(found[-1 if box == "last" else 0], gold) if found else "missing"
        self.counts[verdict] += 1
        return verdict

    def every(self, text: str, gold: str) -> list[str]:
        """Verdict on each box in order: SRCL wants the last right and no earlier one wrong."""
        found = answers.boxes(answers.after_thinking(text))
        verdicts = [self.compare(inside, gold) for inside in found]
        self.counts.update(verdicts)
        return verdicts

    def compare(self, prediction: str, gold: str) -> str:
        """``right``, ``wrong`` or ``unknown`` for two bare answers. Their order matters."""
        given, wanted = tidy(prediction), tidy(gold)
        ruled = by_rule(given, wanted, self.undone)
        return ruled or self._ask(given, wanted)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            for pipe in (self._worker.stdin, self._worker.stdout):
                with suppress(OSError):  # what was not sent before it died
                    pipe.close()
            self._worker = None

    def _ask(self, given: str, wanted: str) -> str:
        if self._worker is None:
            self._start()
        try:
            self._worker.stdin.write(json.dumps([given, wanted]) + "\n")
            self._worker.stdin.flush()
            answer = self._line(self.limit_s)
        except OSError:  # it died before
            answer = None
        if answer is None:
            self.close()
            return "unknown"
        if not answer["parsed"]:
            return "right" if bare(given) == bare(wanted) else "wrong"
        return "right" if answer["equal"] else "wrong"

    def _start(self) -> None:
        self._worker = subprocess.Popen(
            [sys.executable, "-m", verifier_worker.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            cwd=ROOT,
        )
        if self._line(START_S) is None:
            self.close()
            raise RuntimeError(f"the verifier's worker did not start within {START_S} s.")

    def _line(self, limit_s: float) -> Any:
        """The worker's next line, or None at the time limit or when it has died."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._worker.stdout, selectors.EVENT_READ)
            if not ready.select(limit_s):
                return None
        line = self._worker.stdout.readline()
        return json.loads(line) if line else None


def tidy(answer: str) -> str:
    r"""An answer as the library reads it rightly: one box's inside, ``a:b`` as ``a/b``, no unit.

    A clock time such as ``5:00`` is no ratio and stays; a mixed number becomes one fraction.
    """
    text = answer.strip().removesuffix(".").strip()
    if nested := answers.boxes(text):
        text = nested[-1].strip()
    while len(text) > 1 and text[0] == text[-1] == "$":
        text = text[1:-1].strip()
    text = text.replace("{,}", ",").replace("**", "").replace("\\!", "")
    text = re.sub(r"^(?:\\?[$€£])\s*", "", text)
    if unit := _UNIT.match(text):
        text = unit[1]
    text = re.sub(r"\s*\\text\s*\{[^{}]*\}$", "", text) or text
    if _SPACED.match(text):
        text = text.replace(" ", "")
    if mixed := _MIXED.match(text):
        whole, over, under = (int(part) for part in mixed.groups()[1:])
        return f"{mixed[1]}{whole * under + over}/{under}"
    ratio = _RATIO.match(text)
    if ratio and not ratio[2].startswith("0"):
        return f"{ratio[1]}/{ratio[2]}"
    return text


def by_rule(given: str, wanted: str, undone: bool = False) -> str:
    """A verdict where the library's would be wrong, or "" to ask it. Arguments are tidied."""
    if ("%" in given) != ("%" in wanted) or (":" in given) != (":" in wanted):
        return "wrong"
    if ":" in given:
        return "right" if bare(given) == bare(wanted) else "wrong"
    if re.fullmatch(r"[A-Za-z]+", bare(wanted)) and len(bare(wanted)) == 1:
        return "right" if bare(given).strip("()") == bare(wanted) else "wrong"
    if _PLAIN.match(wanted):
        sides = [side.strip() for side in given.split("=")]
        if len(sides) > 1 and not re.fullmatch(r"\\?[A-Za-z]\w*", sides[0]):
            return "wrong"  # 17=18: only the right side would count
        if not undone and _UNDONE.search(given):
            return "wrong"
    return ""


def bare(text: str) -> str:
    r"""For comparing as text: no case, no spaces, no ``\text``."""
    return re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).replace(" ", "").casefold()
