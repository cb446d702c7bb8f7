"""The book as a PDF: the pages in their order, with an outline, and nothing of this machine."""

import subprocess
import sys

import pytest

from repro import pdf
from repro.book import HTML
from repro.errors import ReproError
from repro.paths import ROOT

pytestmark = pytest.mark.browser
PRINT = """
from pathlib import Path
from repro import pdf
first = list(pdf._pages())[:2]
pdf._pages, pdf.TARGET = lambda: first, Path({target!r})
pdf.write()
"""


def test_the_order_is_that_of_the_contents():
    pages = [path.relative_to(HTML).as_posix() for path in pdf._pages()]
    assert pages[:3] == ["book/index.html", "book/evidence.html", "book/ledger.html"]
    assert len(set(pages)) == len(pages)
    assert {p.relative_to(HTML).as_posix() for p in HTML.glob("notebooks/*/*.html")} <= set(pages)


def test_pages_are_printed_with_an_outline_and_no_local_link(browser, tmp_path):
    import pypdf

    target = tmp_path / "book.pdf"
    # In a process of its own: one process drives one browser at a time.
    script = PRINT.format(target=str(target))
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
    printed = pypdf.PdfReader(target)
    assert [entry.title for entry in printed.outline] == [
        "Executable Boundaries",
        "How evidence works here",
    ]
    starts = [printed.get_destination_page_number(entry) for entry in printed.outline]
    assert starts[0] == 0 and "How evidence works here" in printed.pages[starts[1]].extract_text()
    links = [
        link["/A"]["/URI"]
        for page in printed.pages
        for link in (one.get_object() for one in page.get("/Annots", []))
        if "/URI" in link.get("/A", {})
    ]
    assert links and all(link.startswith("https://") for link in links)


def test_without_a_built_book_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "HTML", tmp_path)
    with pytest.raises(ReproError, match="run `repro book` first"):
        pdf.write()
