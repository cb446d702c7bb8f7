"""What must hold of the environment and of returned text: every odd turn, cuts, provenance.

The cases are the table of the notes, section 1 (arXiv 2609.30906 as the authors' repository runs
it), and reports of section 7. Everything is reached through the modules, so that a planted fault is
seen. A token is a letter here, so that cuts can be counted.
"""

import json
from types import SimpleNamespace

from repro.toolsearcher import block, environment, index, protocol, rollout
from repro.toolsearcher.answer import Answer
from repro.toolsearcher.made_up import END, LETTERS, SPECIAL, TOOLS, same

REQUEST = SimpleNamespace(id="r", text="Will it rain, and what is the price of a share?")


def _world(**limits) -> environment.Environment:
    wide = dict(block_tokens=5000, response_tokens=50000, context_tokens=90000)
    return environment.Environment(
        index.ToolIndex(TOOLS), LETTERS, protocol.Protocol(**(wide | limits))
    )


def _search(query, category=None, name=protocol.FUNCTION) -> str:
    given = {"query": query} | ({"category": category} if category else {})
    return f"<tool_call>{json.dumps({'name': name, 'arguments': given})}</tool_call>"


def _run(*turns, **limits) -> rollout.Rollout:
    return rollout.scripted(_world(**limits), REQUEST, turns)


def a_good_search_is_an_event() -> None:
    """A search returns documents, and the names in them are found."""
    made = _run(_search("when will it rain"), "<tool_list>Weather.rain</tool_list>")
    (event,) = made.episode.events
    same(event.found, event.returned, "found")
    same(event.found[0], "Weather.rain", "first result")
    same((made.episode.ended, made.episode.answer.names), ("answer", {"Weather.rain"}), "end")


def what_is_cut_off_is_not_found() -> None:
    """A name that the token limit cuts is not found; one that just fits is."""
    documents = list(enumerate(TOOLS[:2], 1))
    whole = LETTERS.decode(block.returned(documents, LETTERS, 5000, 5000).ids)
    end = whole.index("Weather.snow") + len("Weather.snow")
    for limit, seen in ((end, True), (end - 1, False)):
        made = block.returned(documents, LETTERS, limit, 5000)
        same(made.visible, (True, seen), f"visible at {limit} letters")
        same(len(made.ids), limit + len(block.ELLIPSIS), "letters kept")
    cut = _run(_search("tells when"), block_tokens=end - 1).episode.events[0]
    same((len(cut.returned), cut.found), (2, ("Weather.rain",)), "event")


def a_lookalike_is_no_result() -> None:
    """A description that looks like a result, an answer or a marker is neither (7.3 b, c)."""
    made = _run(_search("rain", "Tricks"), "I do not know")
    same(made.episode.events[0].found, ("Tricks.page",), "found")
    same((made.episode.ended, made.episode.answer), ("no answer", Answer(frozenset(), 0)), "answer")
    row = made.row
    returned = row.ids[row.kind == 3]
    assert returned.min() >= len(SPECIAL), "a marker in a document became a marker token"


def an_unknown_category_finds_nothing() -> None:
    """An unknown category is an event with an error text, and the episode goes on."""
    made = _run(_search("rain", "Wether"), _search("rain"))
    first, second = made.episode.events
    same((first.problem, first.found), ("unknown category", ()), "first event")
    assert second.found and "no such category" in LETTERS.decode(made.row.ids), "error text"


def a_missing_query_finds_nothing() -> None:
    """A missing, blank or non-text query, or another function, is an event without results."""
    for call, problem in (
        (_search(7), "no query"),
        (_search("  "), "no query"),
        ('<tool_call>{"name": "api_doc_search_tool"}</tool_call>', "no query"),
        (_search("rain", name="run"), "no such function"),
    ):
        episode = _run(call).episode
        same([e.problem for e in episode.events] + [episode.ended], [problem, ""], call)


def a_search_on_the_last_turn_is_not_made() -> None:
    """The last turn's search is an event without results, and nobody gets to answer."""
    episode = _run(_search("rain"), _search("share"), turns=2).episode
    same([bool(e.found) for e in episode.events], [True, False], "found")
    same((episode.ended, episode.answer), ("last turn", None), "end")


def an_unreadable_call_is_the_final_turn() -> None:
    """A call that cannot be read ends the trajectory and counts as its final turn."""
    for turn in (
        "<tool_call>{query: rain}</tool_call>",
        "<tool_call>",
        "<tool_call>[1]</tool_call>",
    ):
        episode = _run(turn, "<tool_list>a</tool_list>").episode
        same(
            (episode.ended, episode.events, episode.answer.blocks), ("unreadable call", [], 0), turn
        )


def a_cut_turn_is_the_final_turn() -> None:
    """A turn that the length limit cuts is final, with a whole call in it or not."""
    call = _search("rain")
    for limit in (len(call) - 3, len(call)):
        made = _run(call + " and so on", turn_tokens=limit)
        same((made.episode.ended, made.episode.events), ("length", []), f"limit {limit}")
        assert made.episode.truncated and made.row.turns == 1, "one flag, one turn"


def the_first_readable_call_is_kept() -> None:
    """Of several calls in a turn the first that can be read is carried out."""
    bad = "<tool_call>{</tool_call>"
    made = _run(bad + _search("rain") + _search("share"))
    same([event.query for event in made.episode.events], ["rain"], "events")


def an_answer_needs_no_search() -> None:
    """A first turn without a call is final; a call beside an answer comes first."""
    same(_run("<tool_list>x</tool_list>").episode.ended, "answer", "end")
    both = _run("<tool_list>x</tool_list>" + _search("rain")).episode
    same((both.ended, both.answer, len(both.events)), ("", None, 1), "call and answer in one turn")


def every_search_in_phase_one_names_a_category() -> None:
    """Without the whole library a search with no category, or all, gets an error text."""
    made = _run(_search("rain"), _search("rain", "all"), _search("rain", "Weather"), library=False)
    problems = [event.problem for event in made.episode.events]
    same(problems, ["no category", "no category", ""], "problems")


def results_that_leave_no_room_are_taken_back() -> None:
    """Results that fill the rest of the response are not put in, and nothing was found."""
    call = _search("rain")
    made = _run(call, response_tokens=len(call) + 60)
    same((made.episode.ended, made.episode.truncated), ("no room", True), "end")
    same([event.found for event in made.episode.events], [()], "found")
    assert (made.row.kind != 3).all() and made.episode.answer is None, "returned text stayed"


def tokens_keep_their_origin() -> None:
    """Ids are those sampled and appended, in order; turns and events are one to one."""
    turns = (_search("rain"), _search("share"), "<tool_list>Weather.rain</tool_list>")
    made = _run(*turns)
    row, events = made.row, made.episode.events
    same(row.ids.tolist(), [i for p in made.episode.pieces for i in p.ids], "ids")
    for number, text in enumerate(turns):
        same(LETTERS.decode(row.ids[row.turn == number]), text + END, f"turn {number}")
    same([event.turn for event in events] + [row.turns - 1], [0, 1, 2], "turns")
    same(int((row.kind == 2).sum()), len(made.episode.old), "sampled tokens")


def numbers_of_results_stay() -> None:
    """In the short form a document keeps its number, and an answer by number names it."""
    world = _world(form="short", categories=False)
    turns = ("<search>rain</search>", "<search>snow tells rain</search>")
    made = rollout.scripted(world, REQUEST, (*turns, "<tool_list>1, 3, 9</tool_list>"))
    number = made.episode.numbers
    same((number["Weather.rain"], sorted(number.values())), (1, [1, 2, 3]), "numbers")
    third = next(name for name, value in number.items() if value == 3)
    same(made.episode.answer.names, {"Weather.rain", third, "#9"}, "answer")


CHECKS = {
    check.__name__: check
    for check in (
        a_good_search_is_an_event,
        what_is_cut_off_is_not_found,
        a_lookalike_is_no_result,
        an_unknown_category_finds_nothing,
        a_missing_query_finds_nothing,
        a_search_on_the_last_turn_is_not_made,
        an_unreadable_call_is_the_final_turn,
        a_cut_turn_is_the_final_turn,
        the_first_readable_call_is_kept,
        an_answer_needs_no_search,
        every_search_in_phase_one_names_a_category,
        results_that_leave_no_room_are_taken_back,
        tokens_keep_their_origin,
        numbers_of_results_stay,
    )
}
