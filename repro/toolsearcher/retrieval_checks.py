"""What must hold of the index and of the arms that only search: worked values, invariants.

BM25 by hand from its formula (Lucene's form); name rules from the authors' repository of
arXiv 2609.30906. The checks of the environment are part of the table.
"""

import numpy as np

from repro.toolsearcher import environment_checks, index, library, names, ranking, retrieval
from repro.toolsearcher.made_up import TOOLS, same


def names_are_normalised() -> None:
    """Names lose their signs and case, a leading digit gets get_, categories keep their case."""
    found = [names.api_name(t) for t in ("Pack & Send", "/api/Tracking/", "24h -- Data", "天气 V2")]
    same(found, ["pack_send", "api_tracking", "get_24h_data", "天气_v2"], "api names")
    same(names.category_name("News, Media/TV"), "News_Media_TV", "category")
    same(names.rapid_name("SMS", "D7 SMS", "/send"), "SMS.d7_sms.send", "whole name")


def bm25_by_hand() -> None:
    """Two scores of BM25 worked by hand: 0.1880015 and 0.2313864."""
    tools = [library.Tool(n, "c", n, n, w) for n, w in (("x", "a b"), ("y", "a a c"), ("z", "d"))]
    made = index.ToolIndex(tools)
    matrix = made._matrix
    part = slice(*matrix.indptr[made._term["a"] : made._term["a"] + 2])
    scores = dict(zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True))
    assert np.allclose([scores[0], scores[1]], [0.1880015, 0.2313864], atol=1e-6), scores
    same(made.search(["a"]), [(1, 0)], "order by score")


def words_are_cut_at_case_and_signs() -> None:
    """Search sees lower-case words; camel case is several words."""
    same(index.words("getShare_Price2 (EUR)"), ["get", "share", "price2", "eur"], "words")
    same(index.ToolIndex(TOOLS).search(["SHARE"])[0][0], 2, "camel-case name found")


def equal_scores_go_to_the_earlier() -> None:
    """Among equal scores the earlier document comes first."""
    tools = [library.Tool(n, "c", n, n, "same") for n in "pqr"]
    same(index.ToolIndex(tools).search(["same"], 2), [(0, 1)], "ties")
    rows = ranking.ordered(np.array([1.0, 2.0, 1.0, 2.0]), np.array([True, True, True, True]))
    same(rows.tolist(), [1, 3, 0, 2], "order")


def a_document_without_a_word_is_no_result() -> None:
    """Lexical search returns nothing rather than documents that share no word."""
    found = index.ToolIndex(TOOLS).search(["rain", "zebra", "?"])
    same([len(rows) for rows in found], [2, 0, 0], "numbers of results")


def a_category_is_not_left() -> None:
    """A search in a category returns that category alone; another search is not touched."""
    found = index.ToolIndex(TOOLS).search(["price tells"] * 2, 5, ["Weather", None])
    same([sorted(rows) for rows in found], [[0, 1], [0, 1, 2, 3]], "rows")


def merged_categories_are_searched_together() -> None:
    """Finance and Payments are one to the search and two in names."""
    made = index.ToolIndex(TOOLS)
    for category in ("Finance", "Payments"):
        rows = made.search(["price"], 5, category)[0]
        found = {made.tools[row].name for row in rows}
        same(found, {"Finance.sharePrice", "Payments.refund"}, f"price in {category}")
    assert "Payments" not in made.categories and made.accepts("Payments"), made.categories


def bad_libraries_are_refused() -> None:
    """No tools, and one name twice, are refused."""
    for tools, word in (((), "one or more"), ((TOOLS[0], TOOLS[0]), "each name once")):
        try:
            index.ToolIndex(tools)
        except ValueError as error:
            assert word in str(error), str(error)
        else:
            raise AssertionError(f"accepted: {tools}")


def clause_rule_by_hand() -> None:
    """Sentences, semicolons and "and" cut; pieces under three words are dropped."""
    text = "Track my parcel 12. Thanks! Tell me the rain in Rome and book a hotel room; be kind"
    expected = ["Track my parcel 12", "Tell me the rain in Rome", "book a hotel room"]
    same(retrieval.clauses(text), expected, "clauses")
    same(retrieval.clauses("Hi. Oh"), ["Hi. Oh"], "short text")


def recall_is_over_the_union() -> None:
    """Recall counts a target once, over all searches; the other arm gets as many documents."""
    made = index.ToolIndex(TOOLS)
    wanted = library.Request("q", "s", "rain", frozenset({"Weather.rain", "Weather.snow"}))
    results = [[(0, 4), (0, 1, 2)]]
    found = retrieval.reach(made, [wanted], results)
    got = [float(v[0]) for v in (found.recall, found.all_found, found.searches, found.documents)]
    same(got, [1.0, 1.0, 2.0, 4.0], "union")
    same(retrieval.reach(made, [wanted], [[(0, 4)]]).recall.tolist(), [0.5], "half")
    like = [[(4,), (4,)]]
    same(retrieval.same_budget(made, [wanted], like)[0], [(0,)], "same budget")


CHECKS = {
    check.__name__: check
    for check in (
        names_are_normalised,
        bm25_by_hand,
        words_are_cut_at_case_and_signs,
        equal_scores_go_to_the_earlier,
        a_document_without_a_word_is_no_result,
        a_category_is_not_left,
        merged_categories_are_searched_together,
        bad_libraries_are_refused,
        clause_rule_by_hand,
        recall_is_over_the_union,
    )
} | environment_checks.CHECKS
