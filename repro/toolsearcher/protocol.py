"""The search protocol of ToolSearcher (arXiv 2609.30906): limits, prompt, and reading one turn.

Two forms. ``json`` is the paper's: a ``<tool_call>`` with JSON, full documents back, names as the
answer. ``short`` is ours for a model of 135M parameters, which neither writes JSON nor copies long
names: ``<search>words</search>``, one line a document, and the numbers of results as the answer.
Prompts and error texts are in our words; of the authors' prompt only the contents are known.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from repro.errors import BadParameter
from repro.toolsearcher.index import METHODS

FORMS = ("json", "short")
FUNCTION = "api_doc_search_tool"
WHOLE = "all"
_JSON_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.S)
_SHORT_CALL = re.compile(r'<search(?: in="([^"<>]*)")?>((?:(?!<search).)*?)</search>', re.S)
_OPENED = {"json": "<tool_call>", "short": "<search"}


@dataclass(frozen=True)
class Protocol:
    """The limits of one trajectory, at the paper's training values, and the form.

    turns: assistant turns, the answer counted. block_tokens: of one returned text. document_tokens:
    of one document. turn_tokens: of one assistant turn (none is known, so as many as all).
    response_tokens: of all turns with what is returned. context_tokens: of everything.
    categories: whether a search may name one. library: whether the whole library can be searched;
    without it every search must name a category, the paper's first phase.
    """

    form: str = "json"
    turns: int = 8
    top_k: int = 5
    block_tokens: int = 768
    document_tokens: int = 300
    turn_tokens: int = 5000
    response_tokens: int = 5000
    context_tokens: int = 15000
    categories: bool = True
    library: bool = True
    method: str = "lexical"

    def __post_init__(self) -> None:
        if self.form not in FORMS or self.method not in METHODS:
            raise BadParameter(
                f"form={self.form!r}, method={self.method!r} is refused; accepted: {FORMS}, "
                f"{METHODS}."
            )
        for name in ("turns", "top_k", *(n for n in self.__annotations__ if n.endswith("_tokens"))):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadParameter(f"{name}={value!r} is refused; accepted: an integer >= 1.")
        if not (self.library or self.categories):
            raise BadParameter(
                "library=False is refused without categories; accepted: one of them, or no search "
                "could ever succeed."
            )


def small(**changes: object) -> Protocol:
    """The short form with limits for a 135M model on a CPU; `changes` override them."""
    limits = dict(turns=4, block_tokens=192, document_tokens=48, turn_tokens=32)
    limits |= dict(response_tokens=900, context_tokens=1500, categories=False)
    return Protocol(**({"form": "short"} | limits | changes))


@dataclass(frozen=True)
class Call:
    """One search as the policy wrote it. problem: why it cannot be carried out, or ""."""

    query: str
    category: str | None = None
    problem: str = ""


UNREADABLE = Call("", problem="unreadable")


def read_call(turn: str, form: str) -> Call | None:
    """The first readable search in the text of a turn; None where none was begun.

    `UNREADABLE` where one was begun and none can be read: that ends the trajectory. Of several
    calls the first that can be read is kept. A missing, blank or non-text query and a call of
    another function are calls with a `problem`: an event that finds nothing.
    """
    if form == "short":
        calls = (Call(query.strip(), place or None) for place, query in _SHORT_CALL.findall(turn))
    else:
        calls = (_from_json(text) for text in _JSON_CALL.findall(turn))
    found = next((call for call in calls if call is not None), None)
    if found is None:
        return UNREADABLE if _OPENED[form] in turn else None
    if not found.problem and not found.query.strip():
        return Call("", found.category, "no query")
    return found


def _from_json(text: str) -> Call | None:
    try:
        call = json.loads(text)
        name, given = call["name"], call.get("arguments")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if name != FUNCTION:
        return Call("", problem="no such function")
    given = given if isinstance(given, dict) else {}
    query, category = given.get("query"), given.get("category")
    if not isinstance(query, str):
        return Call("", problem="no query")
    if category is not None and not isinstance(category, str):
        return Call(query, problem="unknown category")
    return Call(query, category or None)


def error_text(problem: str, categories: int) -> str:
    """What the policy reads in place of results; nothing of targets, which nobody here knows."""
    if problem == "no query":
        return "Error: the search needs a query in words."
    if problem == "no such function":
        return f"Error: the only function is {FUNCTION}."
    if problem == "no category":
        return "Error: name one category of the list."
    if problem == "unknown category":
        return f"Error: there is no such category among the {categories} of the list."
    return "No tool matches."


def instructions(protocol: Protocol, categories: Sequence[str]) -> str:
    """The system message: job, search, one search a turn, answer format, rule, categories."""
    searches = protocol.turns - 1
    if protocol.form == "short":
        where = '\n<search in="CATEGORY">words</search> stays in one category.'
        text = (
            "Find the tools that a request needs. Search the tool library with\n"
            "<search>words</search>\n"
            f"One search a turn, at most {searches}. Results are numbered. When you have found all"
            " tools, answer with their numbers:\n<tool_list>1, 3</tool_list>"
        )
    else:
        arguments = {"query": "what the tool should do, in a full sentence"}
        where = ""
        if protocol.categories:
            arguments["category"] = "one of the list below" + (
                f', or "{WHOLE}"' if protocol.library else ""
            )
        call = {"name": FUNCTION, "arguments": {"query": "weather forecast for a city"}}
        text = (
            "You choose the tools that a request needs; you do not run them. You can search the "
            f"tool library with the function {FUNCTION}, arguments {json.dumps(arguments)}. "
            f"Call it like this:\n<tool_call>{json.dumps(call)}</tool_call>\n"
            f"Make one call a turn and at most {searches} in all; the documents come back in "
            "<tool_response>. When you have found every tool that is needed, answer with the names "
            "of these tools and nothing else:\n"
            "<tool_list>Category.tool.first_api, Category.tool.second_api</tool_list>\n"
            "Answer only with names that stood in a result."
        )
    if protocol.categories:
        text += where + "\nCategories: " + ", ".join(categories) + "."
    return text
