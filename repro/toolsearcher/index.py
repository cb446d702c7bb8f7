"""A search engine over tool documents: BM25 or MiniLM, over all of them or inside one category.

arXiv 2609.30906 searches with Qwen3-Embedding-0.6B, one index a category and one over everything.
Here BM25 (k1 = 1.5, b = 0.75) comes first, since it is free and the same everywhere, and a small
encoder second. Both see the same words: names, description, parameters. A search inside a category
ranks that category's documents by the scores of the whole library; for embeddings this is the same
as an index of its own, for BM25 it keeps one set of word frequencies.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from repro import files
from repro.errors import BadParameter
from repro.toolsearcher import ranking
from repro.toolsearcher.library import Tool
from repro.toolsearcher.names import searched_as

METHODS = ("lexical", "dense")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Lower-case words of letters and digits; ``getHealthWorkforce`` is three."""
    return _WORD.findall(_CAMEL.sub(" ", text).lower())


class ToolIndex:
    """Search over `tools`; names are unique keys.

    Raises BadParameter for no tools, a repeated name, or documents without a single word.
    """

    def __init__(self, tools: Sequence[Tool], k1: float = 1.5, b: float = 0.75):
        import bm25s

        self.tools = tuple(tools)
        if not self.tools:
            raise BadParameter("tools=[] is refused; accepted: one or more, an index needs some.")
        self.row = {tool.name: row for row, tool in enumerate(self.tools)}
        if len(self.row) < len(self.tools):
            (name, count), *_ = Counter(tool.name for tool in self.tools).most_common(1)
            raise BadParameter(
                f"tools holds {count} of the name {name!r}; accepted: each name once, since an "
                "answer is a list of names."
            )
        documents = [words(tool.words) for tool in self.tools]
        if not any(documents):
            raise BadParameter("tools hold no word to search; accepted: some letters or digits.")
        scorer = bm25s.BM25(k1=k1, b=b, method="lucene")
        scorer.index(documents, show_progress=False)
        groups = [searched_as(tool.category) for tool in self.tools]
        self.categories = tuple(sorted(set(groups)))
        self._group = {name: number for number, name in enumerate(self.categories)}
        self._term = scorer.vocab_dict
        self._matrix = ranking.Matrix(
            scorer.scores["data"],
            scorer.scores["indices"],
            scorer.scores["indptr"],
            np.array([self._group[name] for name in groups], dtype=np.int32),
        )

    def __len__(self) -> int:
        return len(self.tools)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all documents, in order."""
        rows = [[t.name, t.category, t.text, t.words] for t in self.tools]
        return files.digest(rows)

    def accepts(self, category: str) -> bool:
        """Whether `category` can be searched; a merged category goes by each of its names."""
        return searched_as(category) in self._group

    def search(
        self,
        queries: Sequence[str],
        k: int = 5,
        category: str | Sequence[str | None] | None = None,
        method: str = "lexical",
        kernel: str = "auto",
    ) -> list[tuple[int, ...]]:
        """Row numbers of the k best documents of each query, best first.

        Lexical search returns fewer where fewer documents share a word with the query, and none for
        a query without words. category: for all queries or one each; None is the whole library.
        Raises BadParameter for a query that is no text, k < 1, an unknown category or method.
        """
        if isinstance(queries, str) or not all(isinstance(text, str) for text in queries):
            raise BadParameter(f"queries={queries!r} is refused; accepted: a list of texts.")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise BadParameter(f"k={k!r} is refused; accepted: an integer >= 1.")
        if method not in METHODS:
            raise BadParameter(f"method={method!r} is not known; accepted: {', '.join(METHODS)}.")
        each = (
            [category] * len(queries) if category is None or isinstance(category, str) else category
        )
        wanted = np.array([self._wanted(name) for name in each], dtype=np.int32)
        if len(wanted) != len(queries):
            raise BadParameter(
                f"category has {len(wanted)} entries; accepted: one, or {len(queries)}."
            )
        k = min(k, len(self.tools))
        if method == "dense":
            return self._dense(queries, k, wanted)
        terms = [self._terms(text) for text in queries]
        found = ranking.best(self._matrix, terms, wanted, k, kernel)
        return [tuple(row[row >= 0].tolist()) for row in found]

    def _wanted(self, category: str | None) -> int:
        if category is None:
            return ranking.ANY
        if not self.accepts(category):
            raise BadParameter(
                f"category={category!r} is not in this index; accepted: {len(self.categories)} "
                f"names, such as {', '.join(self.categories[:3])}."
            )
        return self._group[searched_as(category)]

    def _terms(self, text: str) -> np.ndarray:
        known = self._term
        return np.array([known[w] for w in words(text) if w in known], dtype=np.int32)

    def _dense(self, queries: Sequence[str], k: int, wanted: np.ndarray) -> list[tuple[int, ...]]:
        from repro import encoder

        if not len(queries):
            return []
        scores = encoder.encode(queries) @ self.embeddings.T
        keep = (ranking.allowed(self._matrix.groups, group) for group in wanted)
        rows = map(ranking.ordered, scores, keep)
        return [tuple(row[:k].tolist()) for row in rows]

    @cached_property
    def embeddings(self) -> np.ndarray:
        """float32 [tools, 384], unit length; kept in the cache by the content of the documents."""
        from repro import encoder

        return encoder.encode_cached([tool.words for tool in self.tools])
