"""What must hold of `prompts`, `problems`, `packing` and `scoring`.

Sources: arXiv 2609.30652, sections 3 and N, and the bugs of public code listed in the project's
notes, section 11. The tokenizer and the model are toys (`toy`): a character a token, pad = end.
"""

import torch

from repro.errors import BadParameter
from repro.recursive_opsd import packing, problems, prompts, scoring, toy

PROBLEM = problems.Problem("toy", "What is 67 + 75?", "67 + 75 = 142\nAnswer: 142", "142")
TOKENS = toy.Tokenizer()
HEADER = "<|im_start|>assistant\n"
PREFIXES = ((1, 9, 8, 7), (5,), (4, 4, 6, 9, 30, 31, 12))
ANSWERS = ((20, 21, 22, 2), (40, 2), (50, 51, 52, 53, 54))
_MODELS: list = []


def model():
    """The random model, made once."""
    if not _MODELS:
        _MODELS.append(toy.model())
    return _MODELS[0]


def text(prompt: prompts.Prompt) -> str:
    return TOKENS.decode(prompt.ids)


def scores(prefixes, answers, **options) -> list[torch.Tensor]:
    with torch.no_grad():
        return scoring.answer_logits(model(), prefixes, answers, toy.END, **options)


def close(found, expected, what: str) -> None:
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        good = one.shape == other.shape and torch.allclose(one, other, atol=2e-5)
        assert good, f"{what}: answer {at} differs"


def _refused(call, kind=BadParameter) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def student_sees_no_solution() -> None:
    """The student's prompt is question and instruction; no token of the solution is in it."""
    prompt = prompts.student(TOKENS, PROBLEM)
    assert PROBLEM.solution not in text(prompt) and not prompt.of("solution")
    assert TOKENS.decode(prompt.of("question")) == PROBLEM.question


def rewriter_sees_no_solution() -> None:
    """The rewriter gets the question and the model's own ids, unchanged, and no solution."""
    own = tuple(TOKENS("First 60 + 70 = 130.")["input_ids"])
    prompt = prompts.rewrite(TOKENS, PROBLEM, (*own, toy.END))
    assert PROBLEM.solution not in text(prompt) and not prompt.of("solution")
    assert prompt.of("own answer") == own, "the own answer's ids changed"
    assert text(prompt).endswith(HEADER), "the assistant turn is not open"


def leak_is_found_by_ids() -> None:
    """A solution that slips in under another role is found by its ids."""
    ids = tuple(TOKENS(f"{PROBLEM.question} {PROBLEM.solution}")["input_ids"])
    leaky = prompts.Prompt(ids, ("question",) * len(ids))
    check = prompts.assert_no_solution
    assert _refused(lambda: check(TOKENS, leaky, PROBLEM, "student"), prompts.SolutionLeak), (
        "a solution under the role of the question passed"
    )


def leak_is_found_by_role() -> None:
    """A part of the solution that keeps its role is found, however short."""
    leaky = prompts.Prompt((5, 6), ("question", "solution"))
    check = prompts.assert_no_solution
    assert _refused(lambda: check(TOKENS, leaky, PROBLEM, "student"), prompts.SolutionLeak), (
        "a token with the solution's role passed"
    )


def own_words_are_no_leak() -> None:
    """A model that writes the solution's words by itself may rewrite them."""
    own = TOKENS(PROBLEM.solution)["input_ids"]
    assert prompts.rewrite(TOKENS, PROBLEM, own).of("own answer") == tuple(own)


def main_teacher_continues_the_student() -> None:
    """assistant: the student's prompt, then solution and transition in the same open turn."""
    student, teacher = prompts.student(TOKENS, PROBLEM), prompts.teacher(TOKENS, PROBLEM)
    assert teacher.ids[: len(student)] == student.ids, "another prompt than the student's"
    rest = teacher.ids[len(student) :]
    assert not set(rest) & set(TOKENS.all_special_ids), "a turn marker before the answer"
    assert teacher.roles[-1] == "transition", "the transition does not come last"
    assert TOKENS.decode(teacher.of("solution")) == PROBLEM.solution


def teacher_sees_the_solution_once() -> None:
    """Each placement holds the solution once: in the assistant turn, or in the user turn."""
    for placement in prompts.PLACEMENTS:
        said = text(prompts.teacher(TOKENS, PROBLEM, placement))
        assert said.count(PROBLEM.solution) == 1, f"{placement}: not once"
        inside = said.index(PROBLEM.solution) > said.index(HEADER)
        assert inside == (placement == "assistant"), f"{placement}: in the wrong turn"


def user_sides_differ_in_order() -> None:
    """instruction_last: the solution before the task; reference_last: after it."""
    task = prompts.WORDING.instruction
    for placement, first in (("instruction_last", False), ("reference_last", True)):
        said = text(prompts.teacher(TOKENS, PROBLEM, placement))
        found = said.index(task) < said.index(PROBLEM.solution)
        assert found == first, f"{placement}: wrong order"
        assert said.index(PROBLEM.question) < said.index(PROBLEM.solution)


def both_sides_keep_the_template() -> None:
    """Every prompt holds the template's one assistant header; user sides end with it."""
    made = {p: prompts.teacher(TOKENS, PROBLEM, p) for p in prompts.PLACEMENTS}
    made["student"] = prompts.student(TOKENS, PROBLEM)
    for name, prompt in made.items():
        assert text(prompt).count(HEADER) == 1, f"{name}: no assistant header"
        assert text(prompt).endswith(HEADER) == (name != "assistant"), f"{name}: wrong end"


def turn_markers_in_text_are_refused() -> None:
    """A question or solution that spells a turn marker cannot be built in."""
    for part in ("question", "solution"):
        words = {"question": "1 + 1?", "solution": "It is 2."} | {part: "a <|im_end|> b"}
        bad = problems.Problem("bad", answer="2", **words)
        assert _refused(lambda bad=bad: prompts.teacher(TOKENS, bad)), f"marker in the {part}"


def question_with_its_solution_is_refused() -> None:
    """A problem whose question already holds the solution is refused."""
    assert _refused(lambda: problems.Problem("bad", "Is 1 + 1 = 2?", "1 + 1 = 2", "2"))


def calculator_marks_are_gone() -> None:
    """GSM8K's marks vanish and its last line becomes the asked answer line."""
    raw = "He has 48/2 = <<48/2=24>>24 left, and 24*50=<<24*50=1200>>1,200 in all.\n#### 1,200"
    found = problems.from_gsm8k("x", "How many?", raw)
    expected = "He has 48/2 = 24 left, and 24*50=1,200 in all.\nAnswer: 1200"
    assert found.solution == expected, found.solution
    assert found.answer == "1200", found.answer


def first_end_token_is_kept() -> None:
    """Where pad = end, the first end token belongs to the answer and nothing after it does."""
    row = (7, 8, toy.END, toy.END, toy.END)
    found = packing.keep(row, (toy.END,))
    assert found == packing.Answer((7, 8, toy.END), True), found
    packed = packing.pack([(5, 6), (5, 6, 9)], [found.ids, (7,)], toy.END)
    assert packed.mask.sum(1).tolist() == [5, 4], "the mask does not count to the end token"
    assert packed.lengths == (3, 1)


def truncated_answer_has_no_end() -> None:
    """An answer that hit the cap has no end token to learn; an empty row is an empty answer."""
    assert packing.keep((7, 8, 9), (toy.END,)) == packing.Answer((7, 8, 9), False)
    assert packing.keep((), (toy.END,)) == packing.Answer((), False)


def mask_comes_from_lengths() -> None:
    """End tokens inside a prefix stay visible: the mask counts, it does not look."""
    packed = packing.pack([(toy.END, 5), (5,)], [(toy.END,), (6,)], toy.END)
    assert packed.mask.tolist() == [[1, 1, 1], [1, 1, 0]], packed.mask.tolist()


def last_prefix_token_scores_the_first_answer_token() -> None:
    """Each row is scored at its own offset, as one plain pass over prefix and answer says."""
    found = scores(PREFIXES, ANSWERS)
    for at, (prefix, answer) in enumerate(zip(PREFIXES, ANSWERS, strict=True)):
        with torch.no_grad():
            plain = model()(torch.tensor([[*prefix, *answer]])).logits[0]
        expected = plain[len(prefix) - 1 : len(prefix) - 1 + len(answer)]
        close([found[at]], [expected], f"answer {at} in a batch")


def unequal_prompts_equal_one_by_one() -> None:
    """A batch of unequal prompts and answers gives what each gives alone."""
    alone = [scores([p], [a])[0] for p, a in zip(PREFIXES, ANSWERS, strict=True)]
    close(scores(PREFIXES, ANSWERS), alone, "batch against one by one")


def padding_side_does_not_matter() -> None:
    """Padding on the left gives the same scores as on the right."""
    close(scores(PREFIXES, ANSWERS, side="left"), scores(PREFIXES, ANSWERS), "left against right")


def a_token_is_scored_before_it_is_read() -> None:
    """Changing the first answer token changes no logits that score it, and all later ones."""
    prefix, answer = PREFIXES[0], ANSWERS[0]
    one = scores([prefix], [answer])[0]
    other = scores([prefix], [(33, *answer[1:])])[0]
    assert torch.equal(one[0], other[0]), "the first score depends on the first token"
    assert not torch.allclose(one[1], other[1]), "the second score ignores the first token"


def overflow_is_dropped_and_counted() -> None:
    """What does not fit is dropped whole and counted; what fits keeps its order."""
    kept, dropped = packing.within(PREFIXES, ANSWERS, context=8)
    assert (kept, dropped) == ([0, 1], 1), (kept, dropped)
    kept, dropped = packing.within(PREFIXES, ANSWERS, context=12)
    assert (kept, dropped) == ([0, 1, 2], 0), (kept, dropped)


def empty_answer_scores_nothing() -> None:
    """An empty answer in a batch gives no row, and disturbs no other."""
    found = scores(PREFIXES[:2], [(), ANSWERS[1]])
    assert found[0].shape == (0, toy.VOCABULARY), found[0].shape
    close(found[1:], scores(PREFIXES[1:2], ANSWERS[1:2]), "beside an empty answer")


CHECKS = {
    check.__name__: check
    for check in (
        student_sees_no_solution,
        rewriter_sees_no_solution,
        leak_is_found_by_ids,
        leak_is_found_by_role,
        own_words_are_no_leak,
        main_teacher_continues_the_student,
        teacher_sees_the_solution_once,
        user_sides_differ_in_order,
        both_sides_keep_the_template,
        turn_markers_in_text_are_refused,
        question_with_its_solution_is_refused,
        calculator_marks_are_gone,
        first_end_token_is_kept,
        truncated_answer_has_no_end,
        mask_comes_from_lengths,
        last_prefix_token_scores_the_first_answer_token,
        unequal_prompts_equal_one_by_one,
        padding_side_does_not_matter,
        a_token_is_scored_before_it_is_read,
        overflow_is_dropped_and_counted,
        empty_answer_scores_nothing,
    )
}
