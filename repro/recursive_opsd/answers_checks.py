r"""What must hold of `answers`, `verifier`, `gates`, `srcl` and `balance`.

Sources: arXiv 2609.30652, section 3.2 and Appendix M; the table of answers is the project's notes,
section 12: what is wanted, not what the library says. No worker is started here; the notebook and
the tests compare with the library itself.
"""

import io

import torch

from repro.errors import BadParameter
from repro.recursive_opsd import answers, balance, gates, srcl, verifier

# (text, gold, strict verdict, lenient verdict)
NUMBERS = (
    ("Answer: 1,000", "1000", "right", "right"),
    ("1,000", "1000", "missing", "right"),
    ("$1,000", "1000", "missing", "right"),
    (r"\boxed{\$1{,}000}", "1000", "right", "right"),
    ("70 000", "70000", "missing", "right"),
    ("18.00", "18", "missing", "right"),
    ("Answer: 18.", "18", "right", "right"),
    ("#### 18 dollars", "18", "right", "right"),
    (r"\boxed{18\text{ dollars}}", "18", "right", "right"),
    (r"\boxed{18 dollars}", "18", "right", "right"),
    ("**18**", "18", "missing", "right"),
    ("**Answer:** $18.50", "18.5", "right", "right"),
    ("So 18. Check: 18 is more than 3", "18", "missing", "right"),
    (r"\boxed{17}, wait, \boxed{18}", "18", "right", "right"),
    (r"\boxed{17=18}", "18", "invalid", "invalid"),
    ("Answer: 18%", "18", "invalid", "invalid"),
    ("18%", "18", "missing", "missing"),
    ("5:00", "5", "missing", "missing"),
    ("Answer: 5:00", "5", "invalid", "invalid"),
    ("eighteen", "18", "missing", "missing"),
    (r"\boxed{18", "18", "missing", "right"),
    ("Answer: 20-2", "18", "invalid", "invalid"),
    (r"\boxed{9\times 2}", "18", "invalid", "invalid"),
    ("Answer: 18 or 19", "18", "invalid", "invalid"),
    ("Answer: 1,80", "180", "invalid", "invalid"),
    ("Answer: ,", "0", "missing", "missing"),
    ("Answer: -4", "4", "wrong", "wrong"),
    ("Answer: - 4", "-4", "right", "right"),
    ("Answer: .5", "5", "wrong", "wrong"),
    ("Answer: 17\nAnswer: 18", "18", "right", "right"),
    ("Answer: 3</think>Answer: 18", "18", "right", "right"),
)
# (prediction, gold, verdict by rule; "" asks the library)
RULES = (
    ("18 dollars", "18", ""),
    ("17=18", "18", "wrong"),
    ("x=18", "18", ""),
    ("18%", "18", "wrong"),
    ("5:00", "5", "wrong"),
    ("20-2", "18", "wrong"),
    (r"9\times 2", "18", "wrong"),
    ("A", "A", "right"),
    (r"\text{(b)}", "B", "right"),
    ("C", "A", "wrong"),
    ("-18", "18", ""),
)
TIDY = (
    ("18 dollars", "18"),
    (r"18\text{ dollars}", "18"),
    (r"\$1{,}000", "1,000"),
    ("3 1/2", "7/2"),
    ("70 000", "70000"),
    ("2:3", "2/3"),
    ("5:00", "5:00"),
    ("$x^2$.", "x^2"),
)
GOOD = "There are 4 trays with 12 rolls each, 48 rolls. Of these 30 are sold. Answer: 18"
GOOD = GOOD.replace(" Answer", "\nAnswer")
SOURCE = 200
# One rewrite for each reason, in the order of the gates.
REJECTED = {
    "unfinished": dict(ended=False),
    "empty": dict(text=" \n"),
    "over the limit": dict(size=12_001, source=13_000),
    "not shorter": dict(size=SOURCE),
    "second thoughts": dict(text="Wait, that is 48.\n" + GOOD),
    "under the minimum": dict(size=31),
    "no answer near the end": dict(text=GOOD + "\n" + "More words. " * 12),
    "wrong answer": dict(text=GOOD.replace("Answer: 18", "Answer: 19")),
    "wrong earlier answer": dict(text="Answer: 17\n" + GOOD),
    "continuation": dict(text="And then there are 48.\n" + GOOD),
    "omitted material": dict(text="As shown above, 48.\n" + GOOD),
    "repetition": dict(text="Add them.\nAdd them.\nAdd them.\n" + GOOD),
}


def outcome(text=GOOD, size=60, ended=True, source=SOURCE, judge=None) -> str:
    """What the gates book for a rewrite of `size` tokens."""
    places = gates.line_places("18") if judge is None else gates.box_places(judge)
    return gates.book(gates.Candidate(tuple(range(size)), ended, text), source, places)


def strict_rule() -> None:
    """The strict score: one announced place, exact decimals, nothing else."""
    for text, gold, expected, _ in NUMBERS:
        found = answers.judge(text, gold).verdict
        assert found == expected, f"{text!r} against {gold}: {found}, not {expected}"


def lenient_rule() -> None:
    """The lenient score differs only where nothing is announced."""
    for text, gold, strict, expected in NUMBERS:
        found = answers.judge(text, gold, lenient=True).verdict
        assert found == expected, f"{text!r} against {gold}: {found}, not {expected}"
        assert strict == expected or strict == "missing", text


def last_place_wins() -> None:
    """Line before box before hashes; among equals the last."""
    text = r"\boxed{3} Answer: 1" + "\n#### 2\nAnswer: 4\n" + r"\boxed{5}"
    assert answers.announced(text)[0] == "line" and answers.judge(text, "4").right
    assert answers.announced(r"#### 2 \boxed{5}") == ("box", "5")


def boxes_are_balanced() -> None:
    """Nested braces stay inside, an unclosed box is none."""
    found = answers.boxes(r"\boxed{\frac{1}{2}} and \boxed{18")
    assert found == [r"\frac{1}{2}"], found


def gold_must_be_one_number() -> None:
    """A gold that is no single number is an error, not a wrong answer."""
    for gold in ("eighteen", "18 or 19", ""):
        try:
            answers.judge("Answer: 18", gold)
        except BadParameter:
            continue
        raise AssertionError(f"gold {gold!r} was accepted")


def rules_around_the_library() -> None:
    """Where the library errs, a rule speaks first."""
    for given, gold, expected in RULES:
        found = verifier.by_rule(verifier.tidy(given), verifier.tidy(gold))
        assert found == expected, f"{given!r} against {gold}: {found!r}, not {expected!r}"


def answers_are_tidied() -> None:
    """Units, currency, ratios and mixed numbers become what the library reads rightly."""
    for given, expected in TIDY:
        assert verifier.tidy(given) == expected, f"{given!r}: {verifier.tidy(given)!r}"


class _Silent:
    """A worker that never answers."""

    def __init__(self) -> None:
        self.stdin, self.stdout = io.StringIO(), io.StringIO()

    def kill(self) -> None:
        pass

    wait = kill


def time_out_is_unknown() -> None:
    """No answer in time is "unknown", counted, and never "wrong"."""
    asked = verifier.Verifier()
    asked._worker, asked._line = _Silent(), lambda limit_s: None
    found = asked.judge(r"\boxed{x+1}", "1+x")
    assert found == "unknown" and dict(asked.counts) == {"unknown": 1}, (found, asked.counts)
    assert asked._worker is None, "the silent worker is still in use"


def unknown_answer_does_not_teach() -> None:
    """A rewrite whose answer could not be checked is booked as unknown, not as wrong."""
    text = GOOD.replace("Answer: 18", r"So \boxed{18}.")
    for verdict, expected in (
        ("right", gates.ACCEPTED),
        ("unknown", "answer unknown"),
        ("wrong", "wrong answer"),
    ):
        found = outcome(text, judge=lambda inside, verdict=verdict: verdict)
        assert found == expected, f"{verdict}: {found}"


def each_reason_is_booked() -> None:
    """One rewrite for every reason, and one that passes."""
    assert outcome() == gates.ACCEPTED, outcome()
    for reason, change in REJECTED.items():
        assert outcome(**change) == reason, f"{reason}: booked as {outcome(**change)}"


def first_failure_is_booked() -> None:
    """A rewrite with every fault is booked under the first gate; mend it, and the next speaks."""
    bad = dict(text="Wait, as shown above, 1.\nAnswer: 19", size=SOURCE, ended=False)
    mends = (
        ("unfinished", dict(ended=True)),
        ("not shorter", dict(size=31)),
        ("second thoughts", dict(text="As shown above, 1.\nAnswer: 19")),
        ("under the minimum", dict(size=60)),
        ("wrong answer", dict(text="As shown above, 1.\nAnswer: 18")),
        ("omitted material", dict(text=GOOD)),
    )
    for reason, mend in mends:
        assert outcome(**bad) == reason, f"{outcome(**bad)}, not {reason}"
        bad |= mend
    assert outcome(**bad) == gates.ACCEPTED


def whole_words_only() -> None:
    """ "await" is no "wait"; "double-check" and "double check" are both second thoughts."""
    assert outcome("Rolls await sale, in actuality.\n" + GOOD) == gates.ACCEPTED
    for phrase in ("double-check", "double check", "ACTUALLY", "start over", "Correction:"):
        found = outcome(f"Let me {phrase} it.\n{GOOD}")
        assert found == "second thoughts", f"{phrase}: {found}"


def ledger_counts_tokens_and_reasons() -> None:
    """N_k counts the tokens of accepted rewrites; rejections are counted by gate."""
    outcomes = [gates.ACCEPTED, "not shorter", "answer unknown", gates.ACCEPTED]
    found = srcl.ledger(outcomes, [5, 7, 9, 2])
    assert found.accepted == (0, 3) and found.tokens == 7, found
    assert found.by_gate == {1: 1, 2: 0, 3: 1, 4: 0}, found.by_gate


def rewrites_have_one_token_mean() -> None:
    """SRCL divides by all accepted tokens: a long rewrite weighs more. Uniform p gives log V."""
    long, short = torch.zeros(6, 8), torch.zeros(2, 8)
    short[:, 1] = 50.0  # the two targets of the short one are certain
    found = srcl.loss([long, short], [(0,) * 6, (1, 1)], 8)
    expected = torch.tensor(8.0).log() * 6 / 8
    assert torch.allclose(found, expected, atol=1e-6), f"{found} != {expected}"


def end_token_is_a_target() -> None:
    """The last target of a rewrite is its end token, with a loss of its own."""
    logits = torch.zeros(3, 8)
    logits[:2, 5] = 50.0
    found = srcl.token_losses(logits, (5, 5, 2))
    assert found.shape == (3,) and found[2] > 2, found.tolist()


def no_rewrite_drops_the_term() -> None:
    """N_k = 0: no term at all, no NaN."""
    assert srcl.loss([], [], 0) is None
    assert srcl.ledger(["unfinished"], [9]).tokens == 0


def weight_gives_the_share() -> None:
    """With the chosen weight, SRCL's share of the summed norms is the stated one."""
    w = balance.weight(2.0, 5.0, 0.1)
    assert abs(w * 5 / (2 + w * 5) - 0.1) < 1e-12, w
    gradients = [torch.tensor([3.0, 0.0]), None, torch.tensor([4.0])]
    assert balance.norm(gradients) == 5.0
    total = balance.combined([torch.ones(2), None], [None, torch.ones(1)], (1.0, 0.5))
    assert total[0].tolist() == [1, 1] and total[1].tolist() == [0.5], total


CHECKS = {
    check.__name__: check
    for check in (
        strict_rule,
        lenient_rule,
        last_place_wins,
        boxes_are_balanced,
        gold_must_be_one_number,
        rules_around_the_library,
        answers_are_tidied,
        time_out_is_unknown,
        unknown_answer_does_not_teach,
        each_reason_is_booked,
        first_failure_is_booked,
        whole_words_only,
        ledger_counts_tokens_and_reasons,
        rewrites_have_one_token_mean,
        end_token_is_a_target,
        no_rewrite_drops_the_term,
        weight_gives_the_share,
    )
}
