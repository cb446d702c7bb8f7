"""Deliberate faults in index, returned text and environment: mistakes that somebody could make."""

import functools
from dataclasses import replace

import numpy as np

from repro.faults import Fault

_HOME = "repro.toolsearcher."


def _all_visible(original):
    @functools.wraps(original)
    def returned(*arguments, **options):
        made = original(*arguments, **options)
        return replace(made, visible=(True,) * len(made.visible))

    return returned


def _read_from_text(original):
    """Names are matched in the text that came back, as the authors' code does."""
    import re

    @functools.wraps(original)
    def reply(self, episode, *arguments):
        original(self, episode, *arguments)
        ids = [i for piece in episode.pieces if piece.kind == "returned" for i in piece.ids]
        names = re.findall(r"\d+\. ([\w.]+)", self.tokenizer.decode(ids))
        episode.events[-1] = replace(episode.events[-1], found=tuple(names))

    return reply


def _answer_from_anywhere(original):
    @functools.wraps(original)
    def answer(self, episode, text):
        ids = [i for piece in episode.pieces[1:] for i in piece.ids]
        return original(self, episode, self.tokenizer.decode(ids))

    return answer


def _no_last_turn(original):
    @functools.wraps(original)
    def take(self, *arguments):
        limits = self.limits
        self.limits = replace(limits, turns=10**6)
        try:
            return original(self, *arguments)
        finally:
            self.limits = limits

    return take


FAULTS = {
    "case_kept": Fault(
        "search compares words with their case",
        _HOME + "index:words",
        lambda original: lambda text: text.replace(".", " ").replace(",", " ").split(),
    ),
    "ties_to_later": Fault(
        "among equal scores the later document wins",
        _HOME + "ranking:ordered",
        lambda original: (
            lambda scores, keep: (len(scores) - 1 - original(scores[::-1], keep[::-1])).astype(int)
        ),
    ),
    "category_ignored": Fault(
        "a search in a category ranks the whole library",
        _HOME + "ranking:allowed",
        lambda original: lambda groups, group: np.ones(len(groups), dtype=bool),
    ),
    "merged_apart": Fault(
        "merged categories are searched one by one",
        _HOME + "index:searched_as",
        lambda original: lambda category: category,
    ),
    "digits_first": Fault(
        "a name may begin with a digit",
        _HOME + "names:api_name",
        lambda original: lambda text: original(text).removeprefix("get_"),
    ),
    "found_before_the_cut": Fault(
        "what the search returned counts as found, cut off or not",
        _HOME + "block:returned",
        _all_visible,
    ),
    "names_read_from_text": Fault(
        "found names are matched in the returned text",
        _HOME + "environment:Environment._reply",
        _read_from_text,
    ),
    "answer_from_anywhere": Fault(
        "the answer is looked for in the whole response, returned text included",
        _HOME + "environment:Environment._answer",
        _answer_from_anywhere,
    ),
    "markers_parsed": Fault(
        "chat markers inside a document become marker tokens",
        _HOME + "block:plain",
        lambda original: (
            lambda tokenizer, text: tuple(
                tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)[key]
                for key in ("input_ids", "offset_mapping")
            )
        ),
    ),
    "last_search_made": Fault(
        "the search on the last turn is carried out",
        _HOME + "environment:Environment._take",
        _no_last_turn,
    ),
    "last_call_kept": Fault(
        "of several calls in a turn the last is kept",
        _HOME + "protocol:read_call",
        lambda original: (
            lambda turn, form: original(turn[max(0, turn.rfind("<tool_call>")) :], form)
        ),
    ),
    "unreadable_as_answer": Fault(
        "a call that cannot be read is taken for a turn without one",
        _HOME + "protocol:read_call",
        lambda original: (
            lambda turn, form: (
                None if (call := original(turn, form)) and call.problem == "unreadable" else call
            )
        ),
    ),
    "phase_one_open": Fault(
        "in the first phase the whole library can be searched",
        _HOME + "environment:Environment._problem",
        lambda original: (
            lambda self, call: "" if (p := original(self, call)) == "no category" else p
        ),
    ),
    "no_room_kept": Fault(
        "results that fill the response stay and count as found",
        _HOME + "environment:Environment.room",
        lambda original: lambda self, episode: max(1, original(self, episode)),
    ),
    "recall_of_the_last_search": Fault(
        "only the last search of a request counts",
        _HOME + "retrieval:reach",
        lambda original: (
            lambda index, requests, results: original(index, requests, [r[-1:] for r in results])
        ),
    ),
    "clauses_cut_finer": Fault(
        "the clause rule also cuts at the word 'in'",
        _HOME + "retrieval:clauses",
        lambda original: lambda text: [p for s in original(text) for p in s.split(" in ")],
    ),
}
