"""What search alone reaches: recall of one search, of the clause rule, of the ideal query.

Recall here is over what a policy could be *shown*, before it has to choose (SRecall of arXiv
2609.30906). Arms give, for each request, the result lists of its searches.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.toolsearcher import block
from repro.toolsearcher.index import ToolIndex, words
from repro.toolsearcher.library import Request
from repro.toolsearcher.names import searched_as

_CUT = re.compile(r"[.?!;]\s+|\band\b")
SHORTEST = 3  # words; shorter pieces are no request of their own
Results = list[list[tuple[int, ...]]]


@dataclass(frozen=True)
class Reach:
    """Per request: recall [n], all found [n] (0 or 1), searches made, different documents seen."""

    recall: np.ndarray
    all_found: np.ndarray
    searches: np.ndarray
    documents: np.ndarray


def clauses(text: str) -> list[str]:
    """The clause rule: cut at the end of sentences, at semicolons and at "and"; drop pieces of
    fewer than 3 words. A text with no longer piece is one clause."""
    pieces = [piece.strip() for piece in _CUT.split(text)]
    return [piece for piece in pieces if len(words(piece)) >= SHORTEST] or [text]


def one_search(
    index: ToolIndex, requests: Sequence[Request], k: int = 5, method: str = "lexical"
) -> Results:
    """The whole request as the one query."""
    found = index.search([request.text for request in requests], k, method=method)
    return [[rows] for rows in found]


def clause_searches(
    index: ToolIndex, requests: Sequence[Request], k: int = 5, method: str = "lexical"
) -> Results:
    """One search a clause."""
    return _many(index, [clauses(request.text) for request in requests], k, method)


def same_budget(
    index: ToolIndex, requests: Sequence[Request], like: Results, method: str = "lexical"
) -> Results:
    """One search that returns as many documents as the union of another arm's results."""
    sizes = [len(set().union(*results)) for results in like]
    found = one_search(index, requests, max(sizes, default=1) or 1, method)
    return [[rows[0][:size]] for rows, size in zip(found, sizes, strict=True)]


def ideal_queries(
    index: ToolIndex, requests: Sequence[Request], k: int = 5, method: str = "lexical"
) -> Results:
    """One search a target, by its name and the first sentence of its document: the ceiling for
    query writing. It uses the labels."""
    asked = [
        [index.tools[index.row[name]].line for name in sorted(request.targets)]
        for request in requests
    ]
    return _many(index, asked, k, method)


def gold_categories(
    index: ToolIndex, requests: Sequence[Request], k: int = 5, method: str = "lexical"
) -> Results:
    """The whole request, once in each category that holds a target. It uses the labels."""
    places = [
        sorted({searched_as(index.tools[index.row[name]].category) for name in request.targets})
        for request in requests
    ]
    asked = [[request.text] * len(each) for request, each in zip(requests, places, strict=True)]
    return _many(index, asked, k, method, [place for each in places for place in each])


def reach(index: ToolIndex, requests: Sequence[Request], results: Results) -> Reach:
    """How much of the targets the union of each request's results holds."""
    rows = []
    for request, searches in zip(requests, results, strict=True):
        seen = set().union(*searches)
        hit = sum(index.row[name] in seen for name in request.targets)
        share = hit / len(request.targets)
        rows.append((share, float(share == 1), len(searches), len(seen)))
    return Reach(*np.array(rows, dtype=float).reshape(-1, 4).T)


def shown(
    index: ToolIndex, results: Results, tokenizer: Any, limit: int, document_limit: int
) -> Results:
    """Results without what a returned block of `limit` tokens cuts off."""
    kept = []
    for searches in results:
        kept.append([])
        for rows in searches:
            documents = [(place, index.tools[row]) for place, row in enumerate(rows, 1)]
            made = block.returned(documents, tokenizer, limit, document_limit)
            pairs = zip(rows, made.visible, strict=True)
            kept[-1].append(tuple(row for row, seen in pairs if seen))
    return kept


def _many(
    index: ToolIndex,
    asked: Sequence[Sequence[str]],
    k: int,
    method: str,
    category: Sequence[str] | None = None,
) -> Results:
    texts = [text for each in asked for text in each]
    found = iter(index.search(texts, k, category, method))
    return [[next(found) for _ in each] for each in asked]
