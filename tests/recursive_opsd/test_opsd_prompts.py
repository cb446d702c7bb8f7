"""Prompts with the real tokenizer and template; packing and offsets; the bugs of the notes, 11."""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro import assets, models
from repro.errors import BadParameter
from repro.recursive_opsd import packing, problems, prompts, scoring, toy

END = 2
GSM8K = assets.status("gsm8k") in ("ready", "mirror")
LONG = problems.Problem(
    "long",
    "Ann has 12 apples; Bob has twice as many. How many apples are there?",
    "Bob has 2 * 12 = 24 apples.\nTogether they have 12 + 24 = 36 apples.\nAnswer: 36",
    "36",
)


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(models.prepare("smollm2-135m"), local_files_only=True)


@pytest.mark.parametrize("problem", [LONG, problems.EXAMPLE], ids=lambda p: p.name)
def test_real_prompts_keep_the_solution_apart(tokenizer, problem):
    student = prompts.student(tokenizer, problem)
    plain = tokenizer.apply_chat_template(
        [{"role": "user", "content": f"{problem.question}\n\n{prompts.WORDING.instruction}"}],
        add_generation_prompt=True,
    )["input_ids"]
    assert list(student.ids) == plain  # the ids that generation would see
    assert tokenizer.decode(student.of("question")) == problem.question
    assert problem.solution not in tokenizer.decode(student.ids)
    for placement in prompts.PLACEMENTS:
        said = tokenizer.decode(prompts.teacher(tokenizer, problem, placement).ids)
        assert said.count(problem.solution) == 1, placement


def test_main_teacher_is_the_student_and_more(tokenizer):
    student, teacher = prompts.student(tokenizer, LONG), prompts.teacher(tokenizer, LONG)
    assert teacher.ids[: len(student)] == student.ids
    own = tuple(tokenizer(LONG.solution, add_special_tokens=False)["input_ids"])
    assert teacher.of("solution") == own
    assert prompts.occurrences(teacher.ids, own) == [teacher.roles.index("solution")]
    assert teacher.roles[-1] == "transition" and END not in teacher.ids[len(student) :]


def test_rewrite_takes_ids_as_they_are(tokenizer):
    own = [*tokenizer("Bob has  24.\nSo 36", add_special_tokens=False)["input_ids"], 11, END]
    prompt = prompts.rewrite(tokenizer, LONG, own)
    assert list(prompt.of("own answer")) == own[:-1]
    assert tokenizer.decode(prompt.ids).endswith("<|im_start|>assistant\n")
    assert set(prompt.roles) == {"template", "question", "instruction", "own answer"}


def test_leaks_are_refused(tokenizer, monkeypatch):
    pieces = prompts.student_pieces
    monkeypatch.setattr(
        prompts,
        "student_pieces",
        lambda problem, wording: [*pieces(problem, wording), ("question", " " + problem.solution)],
    )
    with pytest.raises(prompts.SolutionLeak, match="long: the solution's ids at"):
        prompts.student(tokenizer, LONG)
    monkeypatch.setattr(
        prompts,
        "rewrite_pieces",
        lambda problem, wording: [("question", "x"), ("solution", problem.solution)],
    )
    with pytest.raises(prompts.SolutionLeak, match="in the prompt of the rewriter"):
        prompts.rewrite(tokenizer, LONG, [30, 31])


def test_bug_4_pad_is_the_end_token(tokenizer):
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == END
    rows = [[20, 21, END, END, END], [20, 21, 22, 23, 24], [END, END, END, END, END]]
    kept = [packing.keep(row, (END,)) for row in rows]
    assert [len(answer) for answer in kept] == [3, 5, 1]
    assert [answer.ended for answer in kept] == [True, False, True]
    mask = packing.length_mask([len(answer) for answer in kept], 5)
    assert mask.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]
    prefixes = [prompts.student(tokenizer, LONG).ids] * 3  # markers inside are end tokens too
    packed = packing.pack(prefixes, [a.ids for a in kept], END)
    assert (packed.ids[1] == END).any() and packed.mask[1].all()


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 90), min_size=1, max_size=9),
            st.lists(st.integers(1, 90), max_size=9),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["left", "right"]),
)
def test_bug_5_slicing_at_the_longest_prompt(rows, side):
    """Any batch, padded on either side, equals one plain pass a row."""
    model = toy.model()
    with torch.no_grad():
        found = scoring.answer_logits(model, *zip(*rows, strict=True), END, side)
        for (prefix, answer), logits in zip(rows, found, strict=True):
            plain = model(torch.tensor([[*prefix, *answer]])).logits[0]
            expected = plain[len(prefix) - 1 : len(prefix) - 1 + len(answer)]
            assert logits.shape == (len(answer), toy.VOCABULARY)
            assert torch.allclose(logits, expected, atol=5e-5)


@pytest.mark.parametrize("placement", prompts.PLACEMENTS)
def test_bug_6_template_lost_on_one_side(tokenizer, placement):
    header = tuple(tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"])
    for prompt in (
        prompts.student(tokenizer, LONG),
        prompts.teacher(tokenizer, LONG, placement),
        prompts.rewrite(tokenizer, LONG, [30]),
    ):
        assert len(prompts.occurrences(prompt.ids, header)) == 1
        assert prompt.ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")


@pytest.mark.parametrize("placement", ["instruction_last", "reference_last"])
def test_bug_7_modes_differ_before_the_first_token(tokenizer, placement):
    """Both sides end in the same tokens, so the answer starts in the same mode."""
    student = prompts.student(tokenizer, LONG)
    teacher = prompts.teacher(tokenizer, LONG, placement)
    tail = [i for i, r in zip(student.ids, student.roles, strict=True) if r == "template"][-5:]
    assert list(teacher.ids[-5:]) == list(student.ids[-5:]) == tail


def test_bug_10_sides_not_shifted_alike():
    """Prompts of different length: position t of both sides scores the same answer token."""
    model, answer = toy.model(), (20, 21, 22, 2)
    short, long = (1, 9), (1, 9, 60, 61, 62, 63)
    with torch.no_grad():
        student, teacher = scoring.answer_logits(model, [short, long], [answer, answer], END)
        for logits, prefix in ((student, short), (teacher, long)):
            plain = model(torch.tensor([[*prefix, *answer]])).logits[0].log_softmax(-1)
            own = logits.log_softmax(-1)[range(4), answer]
            expected = [plain[len(prefix) - 1 + t, answer[t]].item() for t in range(4)]
            assert own.tolist() == pytest.approx(expected, abs=1e-4)


def test_overflow_is_dropped_and_counted(tokenizer):
    prefixes = [prompts.teacher(tokenizer, p).ids for p in (LONG, problems.EXAMPLE)]
    answers, limit = [(30,) * 20, (30,) * 20], len(prefixes[0]) + 20
    kept, dropped = packing.within(prefixes, answers, limit)
    expected = [i for i in (0, 1) if len(prefixes[i]) + 20 <= limit]
    assert kept == expected and dropped == 2 - len(expected)
    assert packing.within(prefixes, answers, 10) == ([], 2)
    with pytest.raises(BadParameter, match="context=0 is refused"):
        packing.within(prefixes, answers, 0)


BAD = [
    (lambda t: prompts.teacher(t, LONG, "system"), "placement='system' is refused; accepted: ass"),
    (lambda t: packing.pack([()], [(1,)], END), "an empty prefix is refused"),
    (lambda t: packing.pack([(1,)], [], END), "1 prefixes and 0 answers are refused"),
    (lambda t: packing.pack([(1,)], [(1,)], END, "middle"), "side='middle' is refused"),
    (lambda t: problems.Problem("p", "x?", " ", "1"), "solution='' of p is refused"),
    (lambda t: problems.Problem("p", "Is it so?", "so", "1"), "question of p contains"),
    (lambda t: problems.gsm8k("dev"), "split='dev' is refused; accepted: train, test"),
    (lambda t: problems.from_gsm8k("p", "x?", "no mark"), "solution without '#### n'"),
    (
        lambda t: prompts.student(t, problems.Problem("p", "a<|im_end|>", "so it is", "1")),
        "marker '<.im_end.>' is refused",
    ),
]


@pytest.mark.parametrize(("call", "says"), BAD)
def test_bad_input_names_what_is_accepted(tokenizer, call, says):
    with pytest.raises(BadParameter, match=says):
        call(tokenizer)


def test_template_that_changes_the_text_is_refused(tokenizer):
    class Upper(toy.Tokenizer):
        def apply_chat_template(self, messages, **options):
            return super().apply_chat_template(messages, **options).upper()

    with pytest.raises(Exception, match="chat template changes"):
        prompts.student(Upper(), LONG)


def test_without_gsm8k_a_made_up_problem_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    monkeypatch.setenv("REPRO_MIRROR", "")
    found, gap = problems.gsm8k_or_example()
    assert found == [problems.EXAMPLE] and "repro fetch gsm8k" in gap


@pytest.mark.skipif(not GSM8K, reason="GSM8K is not here")
def test_every_gsm8k_problem_is_cleaned(tokenizer):
    found = problems.gsm8k("test")
    assert len(found) == 1319
    for problem in found:
        assert "<<" not in problem.solution and "####" not in problem.solution
        assert problem.solution.endswith(f"Answer: {problem.answer}")
    for problem in found[:20]:
        prompts.student(tokenizer, problem)  # raises on a leak
        prompts.teacher(tokenizer, problem)


def test_toy_tokenizer_goes_there_and_back():
    tokens = toy.Tokenizer()
    text = "<|im_start|>user\n~ 1 + 2 = 3 {x}<|im_end|>\n"
    assert tokens.decode(tokens(text)["input_ids"]) == text
    assert tokens.decode([1, 40, 2], skip_special_tokens=True) == "D"
    assert max(tokens("~")["input_ids"]) < toy.VOCABULARY
    assert os.environ["HF_HUB_OFFLINE"] == "1"
