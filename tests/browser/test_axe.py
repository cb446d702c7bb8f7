"""Barriers in the dark and on pages outside the contents; `test_pages.py` looks at all others."""

import pytest
from barriers import barriers

pytestmark = pytest.mark.browser
PICTURED = [f"book/{name}.html" for name in ("actkv", "code_skills", "graft", "toolsearcher")]
OTHERS = ["search.html", "genindex.html"]
IN_THE_DARK = [*PICTURED, "book/ledger.html", "notebooks/actkv/eviction.html"]


@pytest.mark.parametrize("name", OTHERS)
def test_page_outside_the_contents_has_no_serious_barrier(visit, name):
    page, _ = visit(name)
    assert barriers(page) == []


@pytest.mark.parametrize("name", IN_THE_DARK)
def test_page_has_no_serious_barrier_in_the_dark(visit, name):
    page, _ = visit(name, color_scheme="dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert barriers(page) == []


def test_axe_sees_a_barrier(visit):
    page, _ = visit("book/glossary.html")
    page.evaluate("document.querySelector('article').append(document.createElement('button'))")
    assert any("button-name" in one for one in barriers(page))


def test_axe_sees_a_block_that_no_key_reaches(visit):
    page, _ = visit("book/glossary.html")
    block = "<pre tabindex=-1 style='width: 9em; overflow: scroll'>a long line that scrolls</pre>"
    page.locator("footer").first.evaluate(f"e => {{ e.innerHTML = {block!r} }}")
    assert any("scrollable-region-focusable" in one for one in barriers(page, patience=200))
