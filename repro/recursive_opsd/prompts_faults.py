"""Deliberate faults in `prompts`, `problems`, `packing` and `scoring`: mistakes of public code."""

import dataclasses

from repro.faults import Fault
from repro.recursive_opsd.packing import Answer
from repro.recursive_opsd.prompts import Prompt

_PROMPTS = "repro.recursive_opsd.prompts:"
_PACKING = "repro.recursive_opsd.packing:"


def _with_solution(original):
    return lambda problem, wording: [*original(problem, wording), ("question", problem.solution)]


def _user_sides_exchanged(original):
    other = {"instruction_last": "reference_last", "reference_last": "instruction_last"}
    return lambda tokenizer, problem, placement="assistant", *rest: original(
        tokenizer, problem, other.get(placement, placement), *rest
    )


def _template_lost(original):
    def teacher(tokenizer, problem, placement="assistant", *rest):
        made = original(tokenizer, problem, placement, *rest)
        pairs = [(i, r) for i, r in zip(made.ids, made.roles, strict=True) if r != "template"]
        return Prompt(tuple(i for i, _ in pairs), tuple(r for _, r in pairs))

    return teacher


def _changed(change):
    """Wrap `packing.pack`: the batch is built, then `change(packed, pad)` replaces fields."""

    def replacement(original):
        def pack(prefixes, answers, pad, side="right"):
            packed = original(prefixes, answers, pad, side)
            return dataclasses.replace(packed, **change(packed, pad, prefixes))

        return pack

    return replacement


def _context_cut(original):
    return lambda prefixes, answers, context: (list(range(len(prefixes))), 0)


FAULTS = {
    "solution_leaked_to_student": Fault(
        "the solution is appended to the student's question",
        _PROMPTS + "student_pieces",
        _with_solution,
    ),
    "solution_leaked_to_rewriter": Fault(
        "the solution is appended to the request for a rewrite",
        _PROMPTS + "rewrite_pieces",
        _with_solution,
    ),
    "leak_check_trusts_roles": Fault(
        "the check for leaks looks at roles alone",
        _PROMPTS + "occurrences",
        lambda original: lambda ids, needle: [],
    ),
    "user_sides_exchanged": Fault(
        "the two user-side orders change places",
        _PROMPTS + "teacher",
        _user_sides_exchanged,
    ),
    "template_lost_on_one_side": Fault(
        "the teacher's prompt loses the chat template",
        _PROMPTS + "teacher",
        _template_lost,
    ),
    "calculator_marks_kept": Fault(
        "GSM8K's calculator marks stay in the teacher's turn",
        "repro.recursive_opsd.problems:clean_solution",
        lambda original: lambda solution, form="Answer: {}": solution,
    ),
    "end_token_cut_off": Fault(
        "the answer ends before its end token, so that stopping is never learned",
        _PACKING + "keep",
        lambda original: (
            lambda generated, ends: Answer(
                tuple(i for i in original(generated, ends).ids if i not in ends),
                original(generated, ends).ended,
            )
        ),
    ),
    "padding_by_value": Fault(
        "the mask hides every token that equals the pad token, the end token among them",
        _PACKING + "pack",
        _changed(lambda packed, pad, _: {"mask": (packed.ids != pad).long()}),
    ),
    "off_by_one_shift": Fault(
        "the first answer token is scored by its own position",
        _PACKING + "pack",
        _changed(lambda packed, pad, _: {"first": tuple(at + 1 for at in packed.first)}),
    ),
    "longest_prompt_for_all": Fault(
        "all answers are sliced at the longest prompt's end",
        _PACKING + "pack",
        _changed(
            lambda packed, pad, prefixes: {"first": (max(map(len, prefixes)) - 1,) * len(prefixes)}
        ),
    ),
    "padding_is_attended": Fault(
        "padding is read like text",
        _PACKING + "pack",
        _changed(lambda packed, pad, _: {"mask": packed.mask.new_ones(packed.mask.shape)}),
    ),
    "overflow_passes": Fault(
        "examples that exceed the context are let through, to be cut later",
        _PACKING + "within",
        _context_cut,
    ),
}
