"""No page has what axe-core calls a serious or critical barrier, in the light or in the dark."""

from pathlib import Path

import pytest
from conftest import pages

axe = pytest.importorskip("axe_playwright_python", reason="the test extra holds axe-core")
pytestmark = pytest.mark.browser
SCRIPT = (Path(axe.__file__).parent / "axe.min.js").read_text()
PICTURED = [f"book/{name}.html" for name in ("actkv", "code_skills", "graft", "toolsearcher")]
OTHERS = ["search.html", "genindex.html"]
IN_THE_DARK = [*PICTURED, "book/ledger.html", "notebooks/actkv/eviction.html"]


def barriers(page) -> list[str]:
    page.evaluate(SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{one['impact']}: {one['id']}, {len(one['nodes'])} times, first {one['nodes'][0]['html']}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", [*pages(), *OTHERS])
def test_page_has_no_serious_barrier(visit, name):
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
