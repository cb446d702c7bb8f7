"""What the notebooks call around the mechanism, and what they rest on."""

import pytest
import torch

from repro import digest, notebooks
from repro.recursive_opsd import packing, problems, prompts, study_answers, study_prompts, toy
from repro.recursive_opsd.verifier import Verifier

TOKENS = toy.Tokenizer()


@pytest.mark.parametrize(
    ("subject", "assets"),
    [("divergences", ()), ("prompts", ("smollm2-135m", "gsm8k")), ("answers", ("gsm8k",))],
)
def test_contract_and_closure(subject, assets):
    notebook = notebooks.read(f"recursive_opsd/{subject}")
    assert notebook.assets == assets
    found = digest.inputs(notebook, notebook.values())
    ours = {m for m in found["modules"] if m.startswith("repro.recursive_opsd.")}
    assert f"repro.recursive_opsd.{subject}_checks" in ours
    assert not any(m.startswith("repro.actkv") for m in found["modules"])
    if subject == "answers":
        assert "repro.recursive_opsd.verifier_worker" in ours and "math_verify" in found["packages"]


def test_greedy_answers_in_a_batch_are_those_alone():
    model = toy.model()
    rows = [(1, 9, 8, 7), (5,), (4, 4, 6, 9, 30)]
    together = study_prompts.greedy(model, TOKENS, rows, 6)
    alone = [study_prompts.greedy(model, TOKENS, [row], 6)[0] for row in rows]
    assert together == alone and all(1 <= len(a) <= 6 for a in together)


def test_signal_by_hand_and_zero_at_equal_prefixes():
    model, answer = toy.model(), (20, 21, 2)
    student, teacher = (
        study_prompts.scored(model, prefix, answer, toy.END) for prefix in ((1, 9), (1, 9, 60))
    )
    found = study_prompts.signal(student, teacher, answer)
    with torch.no_grad():
        p, q = (
            model(torch.tensor([[*x, *answer]])).logits[0, len(x) - 1 : -1].log_softmax(-1)
            for x in ((1, 9), (1, 9, 60))
        )
    each = (q.exp() * (q - p)).sum(-1)
    assert found.positions == pytest.approx(each.numpy(), abs=1e-5)
    gain = sum((q - p)[t, answer[t]].item() for t in range(3)) / 3
    assert found.delta == pytest.approx(gain, abs=1e-5)
    same = study_prompts.signal(student, student, answer)
    assert same.kl == 0 and same.delta == 0


def test_placebo_keeps_the_question_and_takes_another_solution():
    other = problems.Problem("o", "Other?", "other words here", "1")
    found = study_prompts.given([problems.EXAMPLE, other], 0, True)
    assert (found.question, found.solution) == (problems.EXAMPLE.question, other.solution)
    assert study_prompts.given([problems.EXAMPLE, other], 0, False) is problems.EXAMPLE


def test_stretches_excerpts_and_refusals():
    assert study_prompts.stretches("aabba") == [("a", 0, 2), ("b", 2, 2), ("a", 4, 1)]
    assert study_prompts.order("aabba") == ["a", "b", "a"]
    assert study_prompts.excerpt("a  `b`\nc", 10) == "a 'b' c"
    assert study_prompts.excerpt("x" * 30, 10) == "xxxxx … xxxxx"
    assert study_prompts.refusal(lambda: None) == "accepted"
    assert "an empty prefix" in study_prompts.refusal(lambda: packing.pack([()], [()], 2))
    leaky = prompts.Prompt((5,), ("solution",))
    said = study_prompts.refusal(
        lambda: prompts.assert_no_solution(TOKENS, leaky, problems.EXAMPLE, "student")
    )
    assert "solution tokens in the prompt of the student" in said


def test_golds_count_every_spelling():
    found = study_answers.golds([problems.EXAMPLE])
    assert found.pop("one more than the answer") == {"wrong": 1}
    assert all(counted == {"right": 1} for counted in found.values()), found


def test_wanted_is_compared_by_right_and_not_right():
    assert study_answers.as_wanted("missing", "wrong") and study_answers.as_wanted("right", "right")
    assert not study_answers.as_wanted("right", "undone")
    assert study_answers.as_wanted("wrong", "arguable")
    assert study_answers.verdict("18", "18", "lenient", Verifier()) == "right"
    assert study_answers.brief("a\n" * 60).count("…") == 1
