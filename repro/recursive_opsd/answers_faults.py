"""Deliberate faults in `answers`, `verifier`, `gates`, `srcl` and `balance`."""

import re

from repro.faults import Fault

_ANSWERS = "repro.recursive_opsd.answers:"
_VERIFIER = "repro.recursive_opsd.verifier:"
_GATES = "repro.recursive_opsd.gates:"


def _reflection_first(original):
    from repro.recursive_opsd import gates

    def length_gate(candidate, source, limits):
        return gates.reflection_gate(candidate.text) or original(candidate, source, limits)

    return length_gate


FAULTS = {
    "first_place": Fault(
        "the first box counts instead of the last",
        _ANSWERS + "boxes_at",
        lambda original: lambda text: original(text)[:1],
    ),
    "fallback_in_training": Fault(
        "the strict score falls back on the last number anywhere",
        _ANSWERS + "judge",
        lambda original: lambda text, gold, lenient=False: original(text, gold, True),
    ),
    "percent_accepted": Fault(
        "a percentage, a fraction or a sum counts as its number",
        _ANSWERS + "_UNDONE",
        lambda original: re.compile(r"(?!)"),
    ),
    "commas_anywhere": Fault(
        "commas are dropped wherever they stand",
        _ANSWERS + "_well_grouped",
        lambda original: lambda number: True,
    ),
    "grouping_by_space_lost": Fault(
        "70 000 is read as two numbers",
        _ANSWERS + "_SPACED",
        lambda original: re.compile(r"(?!)"),
    ),
    "thinking_read": Fault(
        "what stands before the end of thinking is read, not what follows",
        _ANSWERS + "after_thinking",
        lambda original: lambda text: text.partition("</think>")[0],
    ),
    "library_alone": Fault(
        "the library is asked without rules around it",
        _VERIFIER + "by_rule",
        lambda original: lambda given, wanted, undone=False: "",
    ),
    "times_are_ratios": Fault(
        "5:00 is read as a ratio",
        _VERIFIER + "tidy",
        lambda original: lambda answer: original(answer).replace(":", "/"),
    ),
    "time_out_is_wrong": Fault(
        "a comparison that runs out of time counts as wrong",
        _VERIFIER + "Verifier._ask",
        lambda original: (
            lambda self, given, wanted: original(self, given, wanted).replace("unknown", "wrong")
        ),
    ),
    "gate_3_skipped": Fault(
        "rewrites are accepted without a look at their answer",
        _GATES + "answer_gate",
        lambda original: lambda candidate, places, limits: "",
    ),
    "gates_out_of_order": Fault(
        "second thoughts are booked before length",
        _GATES + "length_gate",
        _reflection_first,
    ),
    "equal_length_passes": Fault(
        "a rewrite of the source's own length counts as shorter",
        _GATES + "length_gate",
        lambda original: lambda candidate, source, limits: original(candidate, source + 1, limits),
    ),
    "inside_words": Fault(
        "phrases are found inside longer words",
        _GATES + "reflection_gate",
        lambda original: (
            lambda text: "second thoughts" if "wait" in text.lower() else original(text)
        ),
    ),
    "earlier_answers_ignored": Fault(
        "only the last answer of a rewrite is looked at",
        _GATES + "line_places",
        lambda original: lambda gold: lambda text: original(gold)(text)[-1:],
    ),
    "mean_per_rewrite": Fault(
        "SRCL averages within each rewrite first",
        "repro.recursive_opsd.means:token_mean",
        lambda original: lambda losses, tokens: sum(x.mean() for x in losses) / len(losses),
    ),
    "end_not_a_target": Fault(
        "the end token of a rewrite is not learned",
        "repro.recursive_opsd.srcl:token_losses",
        lambda original: lambda logits, tokens: original(logits[:-1], tokens[:-1]),
    ),
    "share_is_a_ratio": Fault(
        "the share is taken of the DCE norm instead of the sum",
        "repro.recursive_opsd.balance:weight",
        lambda original: lambda guidance, concise, share: share * guidance / concise,
    ),
}
