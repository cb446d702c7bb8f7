"""Barriers in the dark and on pages outside the contents; `test_pages.py` looks at all others."""

import pytest
from barriers import barriers

pytestmark = pytest.mark.browser
PICTURED = [f"book/{name}.html" for name in ("actkv", "code_skills", "graft", "toolsearcher")]
OTHERS = ["search.html", "genindex.html"]
WHOLE = "notebooks/toolsearcher/credit.html"  # code, tables, plots, and not too long
IN_THE_DARK = [*PICTURED, "book/ledger.html", WHOLE]


@pytest.mark.parametrize("name", OTHERS)
def test_page_outside_the_contents_has_no_serious_barrier(visit, name):
    page, _ = visit(name)
    assert barriers(page) == []


@pytest.mark.parametrize("name", IN_THE_DARK)
def test_page_has_no_serious_barrier_in_the_dark(visit, name):
    page, _ = visit(name, color_scheme="dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert barriers(page, everywhere=True) == []


def test_code_and_long_tables_have_contrast(visit):
    page, _ = visit(WHOLE)
    assert barriers(page, everywhere=True) == []


def test_axe_sees_a_barrier(visit):
    page, _ = visit("book/glossary.html")
    page.evaluate("document.querySelector('article').append(document.createElement('button'))")
    assert any("button-name" in one for one in barriers(page))


@pytest.mark.parametrize("everywhere", [False, True])
def test_axe_sees_faint_text(visit, everywhere):
    page, _ = visit("book/glossary.html")
    page.evaluate("document.querySelector('article p').style.color = '#ccc'")
    assert any("color-contrast" in one for one in barriers(page, everywhere=everywhere))


def test_axe_sees_a_block_that_no_key_reaches(visit):
    page, _ = visit("book/glossary.html")
    # outside of what the theme watches
    block = "<pre style='width: 9em; overflow: scroll'>a long line that scrolls sideways</pre>"
    page.evaluate(f"document.body.insertAdjacentHTML('beforeend', {block!r})")
    assert any("scrollable-region-focusable" in one for one in barriers(page, patience=200))
