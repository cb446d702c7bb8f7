"""The built book in a real browser: whole, quiet, narrow enough, searchable, and alone."""

import pytest
from barriers import barriers
from conftest import pages

from repro.paths import ROOT

pytestmark = pytest.mark.browser
PAGES = pages()
NOTEBOOKS = [page for page in PAGES if page.startswith("notebooks/")]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_whole_quiet_reachable_and_narrow(visit, name):
    page, troubles = visit(name)
    assert page.locator("article h1").count() == 1
    assert troubles == []  # no error, nothing missing, no request to another host
    assert barriers(page) == []
    if name in NOTEBOOKS:
        shows_its_evidence(page, name)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} px wide on a screen of {width}"


def shows_its_evidence(page, name):
    banner = page.locator(".eb-banner")
    assert banner.count() == 1 and "Fresh." in banner.inner_text()
    source = (ROOT / name).with_suffix(".ipynb").read_text()
    images = page.locator("div.cell_output img")
    assert images.count() > 0 or "plots.show(" not in source
    for image in images.all():
        image.scroll_into_view_if_needed()
        assert image.evaluate("i => i.complete && i.naturalWidth") > 0
        alt, source = image.get_attribute("alt"), image.get_attribute("src")
        assert len(alt.split()) >= 5 and source.split("/")[-1] not in alt
    if page.locator("article .math").count():
        page.locator("mjx-container").first.wait_for(state="attached")
    assert page.locator("mjx-merror").count() == 0
    assert page.locator(".eb-checks tr.green").count() > 0
    assert page.locator(".eb-checks tr.red").count() == 0


def test_a_page_that_scrolls_sideways_is_seen(visit):
    page, _ = visit("book/glossary.html")
    page.evaluate("document.querySelector('article').style.width = '500px'")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") > 390


def test_ledger_shows_every_paper_and_claim(visit):
    from repro import evidence

    page, _ = visit("book/ledger.html")
    text = page.locator("article").inner_text()
    for about in evidence.papers().values():
        assert about["arxiv"] in text
    assert page.locator(".eb-level").count() >= len(evidence.claims())


def test_ledger_narrows_by_paper_level_and_word_from_the_keyboard(visit):
    page, troubles = visit("book/ledger.html")
    paper, level = page.locator(".eb-filter select").all()
    told, shown = page.locator(".eb-filter output"), page.locator(".eb-claim:visible")
    every = shown.count()
    assert told.inner_text() == f"{every} of {every} claims"
    level.focus()
    page.keyboard.press("ArrowDown")  # from all to gap
    levels = [badge.inner_text() for badge in page.locator(".eb-claim:visible .eb-level").all()]
    assert set(levels) == {"gap"} and len(levels) < every
    level.select_option("all")
    paper.select_option("MuSeR")
    assert 0 < shown.count() < every
    assert page.get_by_role("heading", name="MuSeR").is_visible()
    assert not page.get_by_role("heading", name="ActKV", exact=True).is_visible()
    page.locator(".eb-filter input").fill("no such word anywhere")
    assert told.inner_text() == f"0 of {every} claims"
    assert troubles == []


def test_notebook_page_says_where_its_outputs_come_from(visit):
    page, _ = visit("notebooks/actkv/confidence.html")
    foot = page.locator("details.sd-dropdown")
    foot.locator("summary").click()
    assert "smollm2-135m" in foot.inner_text() and "torch" in foot.inner_text()


def test_search_finds_a_word_of_a_notebook(visit):
    page, troubles = visit("search.html?q=surprisal")
    found = page.locator("ul.search li a")
    found.first.wait_for()
    links = [link.get_attribute("href") for link in found.all()]
    assert any("notebooks/actkv/confidence" in link for link in links)
    assert troubles == []
