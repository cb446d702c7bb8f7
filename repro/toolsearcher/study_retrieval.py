"""What the retrieval notebook tabulates: arms, a padded index for times, odd turns, one rollout.

Measured on real documents and requests (see `library`), except where a function says otherwise.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from repro.toolsearcher import protocol, retrieval
from repro.toolsearcher.environment import Environment
from repro.toolsearcher.index import ToolIndex
from repro.toolsearcher.library import Library, Request, Tool
from repro.toolsearcher.rollout import Rollout, scripted

# Library -> the requests shown: name of a row -> beginning of their splits.
SPLITS = {
    "stabletoolbench": {"all": "", "G1": "G1", "G2": "G2", "G3": "G3"},
    "seal-tools": {"in domain": "test_in", "out of domain": "test_out"},
    "bfcl": {"parallel multiple": "parallel_multiple"},
}
_CALL = '<tool_call>{"name": "api_doc_search_tool", "arguments": %s}</tool_call>'
_GOOD = _CALL % '{"query": "latest status of a package"}'
# The table of odd turns: situation -> (turns of the policy, changed limits).
ODD: Mapping[str, tuple[tuple[str, ...], Mapping[str, int]]] = {
    "search, then answer": ((_GOOD, "<tool_list>Logistics.a.b</tool_list>"), {}),
    "unknown category": ((_CALL % '{"query": "a package", "category": "Parcels"}',), {}),
    "query missing": ((_CALL % '{"category": "Logistics"}',), {}),
    "query is a number": ((_CALL % '{"query": 7}',), {}),
    "two calls in a turn": ((_GOOD + _CALL % '{"query": "rain"}',), {}),
    "search on the last turn": ((_GOOD, _GOOD), {"turns": 2}),
    "call that cannot be read": (("<tool_call>{query: a package}</tool_call>",), {}),
    "turn cut by the length limit": ((_GOOD,), {"turn_tokens": 8}),
    "no search and no answer": (("I think there is a tool for this.",), {}),
    "results that leave no room": ((_GOOD,), {"response_tokens": 120}),
}


@dataclass(frozen=True)
class Speed:
    """Seconds to build, and queries a second in one batch: by the wall clock and by the seconds
    that this process computed, which other work on the machine disturbs less."""

    documents: int
    build_s: float
    build_cpu_s: float
    rate: float
    rate_cpu: float


def chosen(library: Library, split: str) -> list[Request]:
    """Requests whose split begins with `split`."""
    return [request for request in library.requests if request.split.startswith(split)]


def arms(
    index: ToolIndex, requests: Sequence[Request], method: str = "lexical", brief: bool = False
) -> dict[str, retrieval.Results]:
    """Every way to search without a model, by name; `brief` keeps two. Ideal queries and gold
    categories know the labels."""
    split = retrieval.clause_searches(index, requests, method=method)
    found = {"one search, 5": retrieval.one_search(index, requests, 5, method)}
    if not brief:
        found["one search, 20"] = retrieval.one_search(index, requests, 20, method)
    found["clauses"] = split
    if not brief:
        found["same budget"] = retrieval.same_budget(index, requests, split, method)
        found["gold category, 5"] = retrieval.gold_categories(index, requests, 5, method)
        found["ideal queries"] = retrieval.ideal_queries(index, requests, 5, method)
    return found


def curve(index: ToolIndex, requests: Sequence[Request], most: int = 30) -> np.ndarray:
    """Mean recall of one search that returns 1, 2, … `most` documents, [most]."""
    found = retrieval.one_search(index, requests, most)
    total = np.zeros(most)
    for request, (rows,) in zip(requests, found, strict=True):
        wanted = {index.row[name] for name in request.targets}
        hit = np.array([row in wanted for row in rows] + [False] * (most - len(rows)))
        total += np.cumsum(hit) / len(wanted)
    return total / len(requests)


def reduced(library: Library, split: str, documents: int, rng: np.random.Generator) -> Library:
    """A smaller library: some requests of `split`, drawn until their targets fill a quarter
    of `documents`, and other documents drawn to fill the rest. 0 leaves the library as it is."""
    requests = chosen(library, split)
    if not documents or documents >= len(library.tools):
        return replace(library, requests=tuple(requests))
    taken: list[Request] = []
    names: set[str] = set()
    for at in rng.permutation(len(requests)):
        if len(names | requests[at].targets) > documents // 4:
            break
        taken.append(requests[at])
        names |= requests[at].targets
    others = [tool.name for tool in library.tools if tool.name not in names]
    names |= set(rng.choice(others, documents - len(names), replace=False).tolist())
    kept = tuple(tool for tool in library.tools if tool.name in names)
    return Library(library.name, kept, tuple(taken), library.left_out)


def padded(tools: Sequence[Tool], documents: int) -> list[Tool]:
    """Synthetic: real documents over and over, each copy with a number in its name and one word
    more. For times alone; recall over copies says nothing."""
    rows = [(copy, tool) for copy in range(-(-documents // len(tools))) for tool in tools]
    return [
        replace(tool, name=f"{tool.name}#{copy}", words=f"{tool.words} copy{copy}")
        if copy
        else tool
        for copy, tool in rows[:documents]
    ]


def speed(tools: Sequence[Tool], queries: Sequence[str], repeats: int = 2) -> Speed:
    """Best of `repeats`, after the compiled kernel is loaded."""
    ToolIndex(tools[:10]).search(list(queries[:2]), kernel="numba")
    builds, searches = [], []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        index = ToolIndex(tools)
        builds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        start = time.perf_counter(), time.process_time()
        index.search(queries, 5, kernel="numba")
        searches.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    (wall, cpu), (taken, used) = np.min(builds, axis=0), np.min(searches, axis=0)
    return Speed(len(tools), wall, cpu, len(queries) / taken, len(queries) / used)


def odd_turns(index: ToolIndex, tokenizer: Any) -> list[tuple[str, Rollout]]:
    """Each situation of `ODD`, played by a script against the real index."""
    request = SimpleNamespace(id="odd", text="Where is my package?")
    return [
        (name, scripted(Environment(index, tokenizer, protocol.Protocol(**limits)), request, turns))
        for name, (turns, limits) in ODD.items()
    ]


def example(environment: Environment, request: Request) -> Rollout:
    """A short-form trajectory written from the labels: one search a target in the first sentence
    of its document, then the numbers of the targets that came up."""
    index, targets = environment.index, sorted(request.targets)
    about = [index.tools[index.row[name]].line.partition(": ")[2].rstrip(".…") for name in targets]
    turns = [f"<search>{text}</search>" for text in about[: environment.limits.turns - 1]]
    seen = scripted(environment, request, turns).episode
    found = {name for event in seen.events for name in event.found}
    numbers = sorted(seen.numbers[name] for name in targets if name in found)
    answer = f"<tool_list>{', '.join(map(str, numbers))}</tool_list>"
    return scripted(environment, request, [*turns, answer])


def told(rollout: Rollout, tokenizer: Any) -> list[tuple[str, int, str]]:
    """Every piece after the prompt: where it came from, its tokens, its text."""
    pieces = rollout.episode.pieces[1:]
    return [(piece.kind, len(piece.ids), tokenizer.decode(piece.ids)) for piece in pieces]


def largest_gap(model: Any, rollout: Rollout, temperature: float = 1.0) -> float:
    """Largest difference between the log-probabilities kept at sampling and those of one plain
    pass over the stored ids at the same temperature (0, greedy, keeps those of 1)."""
    import torch

    row = rollout.row
    at = np.flatnonzero(row.turn >= 0)
    with torch.inference_mode():
        logits = model(torch.tensor(row.ids, device=model.device)[None]).logits[0, at - 1].float()
        again = torch.log_softmax(logits / (temperature or 1.0), -1).cpu().numpy()
    return float(np.abs(again[np.arange(len(at)), row.ids[at]] - rollout.old[at]).max())
