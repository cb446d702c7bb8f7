"""Answers: the notes' table with what is wanted, the library itself, time-outs, and the gates."""

import json
import logging
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro import assets
from repro.errors import BadParameter
from repro.paths import ROOT
from repro.recursive_opsd import (
    answers,
    answers_checks,
    balance,
    gates,
    problems,
    srcl,
    study_answers,
    verifier,
)

TABLE = json.loads((ROOT / "tests/golden/recursive_opsd.json").read_text())["answers"]["rows"]
GSM8K = assets.status("gsm8k") in ("ready", "mirror")


@pytest.fixture(scope="module")
def checker():
    with verifier.Verifier(limit_s=30) as made:
        made.compare("x+1", "1+x")  # start it here, where a slow start disturbs no test
        yield made


@pytest.mark.parametrize(("text", "gold", "library", "wanted", "by"), TABLE)
def test_table_gives_what_is_wanted(checker, text, gold, library, wanted, by):
    if by == "boxed":
        boxed = text if "boxed" in text else rf"\boxed{{{text}}}"
        found = checker.judge(boxed, gold)
    else:
        found = answers.judge(text, gold, lenient=by == "lenient").verdict
    if wanted == "right":
        assert found == "right"
    elif wanted == "arguable":
        assert found == {"eighteen": "missing"}.get(text, "right")
    else:
        assert found != "right"


@pytest.mark.parametrize(("text", "gold", "library", "wanted", "by"), TABLE)
def test_bug_13_strict_never_rewards_what_is_not_wanted(text, gold, library, wanted, by):
    if by != "boxed" and wanted != "right":
        assert not answers.judge(text, gold).right
        assert not answers.judge(f"Answer: {text}", gold).right or wanted == "arguable"


def test_notebook_shows_the_golden_table():
    shown = [[text, gold, wanted, by] for text, gold, wanted, by in study_answers.TABLE]
    assert shown == [[text, gold, wanted, by] for text, gold, _, wanted, by in TABLE]


def test_library_says_what_the_table_says():
    for text, gold, library, *_ in TABLE:
        assert study_answers.library(text, gold) is library, text
    assert logging.root.manager.disable == logging.NOTSET


NUMBERS = [
    ("Answer: 8,000", "8000", "right"),
    ("Answer: $8,000.", "8000", "right"),
    ("Answer: 8000.", "8000", "right"),
    ("Answer: ,", "8000", "missing"),
    ("Answer:", "8000", "missing"),
    ("Answer: €1,234.50", "1234.5", "right"),
    ("answer : 12 apples", "12", "right"),
    ("Final answer: 12", "12", "right"),
    (r"Answer: \boxed{12}", "12", "right"),
    ("The answer is 12", "12", "missing"),
    ("", "12", "missing"),
    ("Answer: 1e3", "1000", "invalid"),
    ("Answer: 1/2", "1", "invalid"),
    (r"\boxed{\frac{2}{2}}", "2", "invalid"),
    ("Answer: 12 - 12", "12", "invalid"),
    ("Answer: 12 = 12", "12", "right"),
    ("Answer: \u2212" + "4", "-4", "right"),
]


@pytest.mark.parametrize(("text", "gold", "verdict"), NUMBERS)
def test_bug_13_number_patterns(text, gold, verdict):
    assert answers.judge(text, gold).verdict == verdict


@settings(max_examples=40)
@given(st.integers(-(10**9), 10**9), st.integers(0, 3))
def test_spellings_of_one_number_agree(value, zeros):
    tail = "." + "0" * zeros if zeros else ""
    for text in (f"{value}{tail}", f"{value:,}{tail}", f"${value:,}{tail}", f"**{value}**"):
        assert answers.judge(f"So it is.\nAnswer: {text}", str(value)).right, text
        assert not answers.judge(f"Answer: {text}", str(value + 1)).right
    assert answers.judge(f"Answer: {value}", f"{value:,}").value == Decimal(value)


def test_prompt_part_is_not_the_checkers_business():
    """Only what the model wrote is judged; thinking does not count."""
    assert answers.judge("Answer: 18</think>I do not know.", "18").verdict == "missing"
    with pytest.raises(BadParameter, match="gold='x' is refused; accepted: one number"):
        answers.judge("Answer: 18", "x")


@pytest.mark.skipif(not GSM8K, reason="GSM8K is not here")
def test_every_gold_solution_is_right_and_its_neighbour_wrong():
    for problem in problems.gsm8k("test"):
        assert answers.judge(problem.solution, problem.answer).right, problem.name
        other = str(Decimal(problem.answer) + 1)
        assert answers.judge(problem.solution, other).verdict == "wrong", problem.name


@pytest.mark.parametrize(
    ("given_", "gold", "verdict"),
    [
        (r"\frac{1}{2}", "0.5", "right"),
        (r"3\frac{1}{2}", "3.5", "right"),
        ("x = 18", "18", "right"),
        ("17=18", "18", "wrong"),
        ("9+9=18", "18", "wrong"),
        ("1+x", "x+1", "right"),
        ("18%", "18%", "right"),
        ("5:00", "5:00", "right"),
        ("4:6", "2:3", "right"),
        ("(2,1)", "(1,2)", "wrong"),
        ("B", "A", "wrong"),
        ("text", "other", "wrong"),
        ("1/2004!", "1/2004!", "right"),
        ("0", "0", "right"),
        ("-18", "18", "wrong"),
    ],
)
def test_boxed_mathematics(checker, given_, gold, verdict):
    assert checker.compare(given_, gold) == verdict


def test_first_and_last_and_every_box(checker):
    text = r"\boxed{17}, wait, \boxed{18}"
    assert checker.judge(text, "18") == "right"
    assert checker.judge(text, "18", box="first") == "wrong"
    assert checker.every(text, "18") == ["wrong", "right"]
    assert checker.judge("no box", "18") == "missing"
    with pytest.raises(BadParameter, match="box='middle' is refused; accepted: last, first"):
        checker.judge(text, "18", box="middle")
    assert verifier.Verifier(undone=True).undone
    with pytest.raises(BadParameter, match="limit_s=0 is refused"):
        verifier.Verifier(limit_s=0)


def test_bug_14_time_out_is_unknown_and_the_next_is_judged():
    hangs = r"\boxed{9^{9^{9^{9}}}}"
    with verifier.Verifier(limit_s=1.0) as checker:
        start = time.monotonic()
        assert checker.judge(hangs, "18") == "unknown"
        assert time.monotonic() - start < verifier.START_S
        checker.limit_s = 30
        assert checker.judge(r"\boxed{x+1}", "1+x") == "right"
        assert dict(checker.counts) == {"unknown": 1, "right": 1}
        worker = checker._worker
        worker.kill()
        worker.wait()
        assert checker.compare("x+1", "1+x") == "unknown"  # it died: nothing is known
        assert checker.compare("x+1", "1+x") == "right"
    assert worker.poll() is not None and checker._worker is None


@pytest.mark.parametrize("reason", gates.REASONS)
def test_one_rewrite_for_each_reason(reason):
    if reason == "answer unknown":
        answers_checks.unknown_answer_does_not_teach()
    else:
        assert answers_checks.outcome(**answers_checks.REJECTED[reason]) == reason
    assert gates.REASONS[reason] in (1, 2, 3, 4)


def test_gate_3_on_boxes(checker):
    places = gates.box_places(lambda inside: checker.compare(inside, "18"))
    good = "There are 48 rolls and 30 of them are sold, so that leaves " + r"\boxed{18}."
    for text, expected in (
        (good, gates.ACCEPTED),
        (good.replace("{18}", "{18"), "no answer near the end"),
        (good.replace("There", r"\boxed{17} There"), "wrong earlier answer"),
        (good.replace("{18}", "{9+9}"), "wrong answer"),
    ):
        candidate = gates.Candidate(tuple(range(40)), True, text)
        assert gates.book(candidate, 99, places) == expected
    with pytest.raises(BadParameter, match="least=-1 is refused"):
        gates.Limits(least=-1)


def test_batch_without_an_accepted_rewrite():
    outcomes = ["unfinished", "not shorter"]
    booked = srcl.ledger(outcomes, [9, 9])
    assert booked.accepted == () and booked.tokens == 0
    assert srcl.loss([], [], booked.tokens) is None
    with pytest.raises(BadParameter, match="concise norm=0.0 is refused"):
        balance.weight(1.0, 0.0, 0.1)
    for share in (0, 1, -0.5):
        with pytest.raises(BadParameter, match="share="):
            balance.weight(1.0, 1.0, share)
