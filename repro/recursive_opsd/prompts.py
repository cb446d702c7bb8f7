"""What student, teacher and rewriter are given, as token ids (arXiv 2609.30652, sections 3 and N).

The order of the parts is the paper's; the boxes of its Appendix N are lost, so the words are ours
and carry a version. The teacher's prefix ends where the answer begins: the student's sampled ids
are appended as they are, and never decoded and tokenised again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repro import accept
from repro.errors import BadParameter, ReproError
from repro.recursive_opsd.problems import Problem

PLACEMENTS = ("assistant", "instruction_last", "reference_last")
ROLES = ("template", "question", "instruction", "solution", "transition", "own answer")
_HOLE = "\u2983own answer\u2984"  # stands in the text where ids are put in


class SolutionLeak(ReproError, ValueError):
    """A token of the solution stands where only the teacher may see it."""


@dataclass(frozen=True)
class Wording:
    """The words around the parts. Change one, and change `version`."""

    version: str = "book-1"
    instruction: str = "Think step by step. End with a line 'Answer: ' and the number."
    introduction: str = "Here is a verified solution of the problem.\n"
    transition: str = "\nNow I solve the problem again, in my own way.\n"
    ask_own_way: str = "Read the solution, then solve the problem again in your own way."
    ask_concise: str = (
        "Rewrite this as a short, complete solution that stands alone, without detours and without "
        "second thoughts."
    )


WORDING = Wording()


@dataclass(frozen=True)
class Prompt:
    """Token ids [L] and the role of each token, one of `ROLES`."""

    ids: tuple[int, ...]
    roles: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, role: str) -> tuple[int, ...]:
        """Ids of one role, in order."""
        return tuple(i for i, r in zip(self.ids, self.roles, strict=True) if r == role)


def student(tokenizer: Any, problem: Problem, wording: Wording = WORDING) -> Prompt:
    """user: question, instruction; the assistant turn is open."""
    prompt = _turn(tokenizer, student_pieces(problem, wording))
    assert_no_solution(tokenizer, prompt, problem, "student")
    return prompt


def teacher(
    tokenizer: Any,
    problem: Problem,
    placement: str = "assistant",
    wording: Wording = WORDING,
) -> Prompt:
    """The student's situation with the solution in view.

    placement: ``assistant`` (main): the student's prompt, then solution and transition inside the
    same open assistant turn. ``instruction_last`` (OPSD's order) and ``reference_last``: all in the
    user turn; their orders follow from their names.
    """
    accept.one_of("placement", placement, PLACEMENTS)
    reference = [("instruction", wording.introduction), ("solution", problem.solution)]
    if placement == "assistant":
        parts = [_turn(tokenizer, student_pieces(problem, wording))]
        pieces = [*reference, ("transition", wording.transition)]
        parts += [_plain(tokenizer, text, role) for role, text in pieces]
        return _joined(parts)
    gap = ("instruction", "\n\n")
    task = ("instruction", wording.instruction)
    own_way = ("transition", wording.ask_own_way)
    if placement == "instruction_last":
        order = [gap, *reference, gap, own_way, ("instruction", " "), task]
    else:
        order = [gap, task, gap, *reference]
    return _turn(tokenizer, [("question", problem.question), *order])


def rewrite(
    tokenizer: Any,
    problem: Problem,
    answer: Sequence[int],
    wording: Wording = WORDING,
) -> Prompt:
    """SRCL's request: question, the model's own `answer` (ids), the wish for brevity. No solution.

    The answer's ids go in as they are; special tokens among them, such as the end, are left out.
    """
    marks = set(tokenizer.all_special_ids)
    own = tuple(i for i in answer if i not in marks)
    prompt = _turn(tokenizer, rewrite_pieces(problem, wording), own)
    assert_no_solution(tokenizer, prompt, problem, "rewriter")
    return prompt


def student_pieces(problem: Problem, wording: Wording) -> list[tuple[str, str]]:
    """(role, text) of the student's user turn."""
    return [("question", problem.question), ("instruction", f"\n\n{wording.instruction}")]


def rewrite_pieces(problem: Problem, wording: Wording) -> list[tuple[str, str]]:
    """(role, text) of the rewriter's user turn; the hole takes the ids of the model's answer."""
    return [
        ("question", problem.question),
        ("instruction", "\n\nMy solution:\n"),
        ("own answer", _HOLE),
        ("instruction", f"\n\n{wording.ask_concise} {wording.instruction}"),
    ]


def assert_no_solution(tokenizer: Any, prompt: Prompt, problem: Problem, who: str) -> None:
    """Raises SolutionLeak when a token of the solution is in `prompt`.

    By role, and by ids: the solution's ids, without the outermost two, which could have merged with
    a neighbour. The model's own answer may say the same by itself; nothing else may.
    """
    ids = tuple(tokenizer(problem.solution, add_special_tokens=False)["input_ids"])
    needle = ids[1:-1] if len(ids) > 4 else ids
    if "solution" in prompt.roles:
        raise SolutionLeak(f"{problem.name}: solution tokens in the prompt of the {who}.")
    for at in occurrences(prompt.ids, needle):
        if set(prompt.roles[at : at + len(needle)]) != {"own answer"}:
            raise SolutionLeak(f"{problem.name}: the solution's ids at {at} of the {who}'s prompt.")


def occurrences(ids: Sequence[int], needle: Sequence[int]) -> list[int]:
    """Every place in `ids` where `needle` starts."""
    size = len(needle)
    return [i for i in range(len(ids) - size + 1) if tuple(ids[i : i + size]) == tuple(needle)]


def _turn(tokenizer: Any, pieces: list[tuple[str, str]], hole: tuple[int, ...] = ()) -> Prompt:
    """One user turn made of `pieces`, the assistant turn open, by the model's own template."""
    content = "".join(text for _, text in pieces)
    _refuse_marks(tokenizer, content)
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    start = rendered.find(content)
    if start < 0 or rendered.count(content) > 1:
        raise ReproError("The chat template changes or repeats the user's text; roles are lost.")
    roles = ["template"] * start + [role for role, text in pieces for _ in text]
    roles += ["template"] * (len(rendered) - len(roles))
    if _HOLE not in rendered:
        return _tokens(tokenizer, rendered, roles)
    cut = rendered.index(_HOLE)
    after = cut + len(_HOLE)
    return _joined(
        [
            _tokens(tokenizer, rendered[:cut], roles[:cut]),
            Prompt(hole, ("own answer",) * len(hole)),
            _tokens(tokenizer, rendered[after:], roles[after:]),
        ]
    )


def _plain(tokenizer: Any, text: str, role: str) -> Prompt:
    _refuse_marks(tokenizer, text)
    return _tokens(tokenizer, text, [role] * len(text))


def _tokens(tokenizer: Any, text: str, roles: list[str]) -> Prompt:
    """Tokenise `text`; a token that touches the solution counts as the solution's."""
    coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    found = []
    for first, last in coded["offset_mapping"]:
        covered = roles[first : max(last, first + 1)]
        found.append("solution" if "solution" in covered else covered[-1])
    return Prompt(tuple(coded["input_ids"]), tuple(found))


def _joined(parts: list[Prompt]) -> Prompt:
    return Prompt(
        tuple(i for part in parts for i in part.ids), tuple(r for part in parts for r in part.roles)
    )


def _refuse_marks(tokenizer: Any, text: str) -> None:
    """Text that spells a turn marker would end the turn."""
    for mark in tokenizer.all_special_tokens:
        if mark in text:
            raise BadParameter(f"text with the marker {mark!r} is refused; accepted: none of them.")
