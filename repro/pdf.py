"""The book as one PDF: every built page, in the order of the contents, through headless Chromium.

What the HTML shows is what is printed, evidence and banners included; nothing is executed. Links
to other pages of the book become plain text, since they would name this machine's folders.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from repro import files
from repro.book import HTML
from repro.errors import ReproError
from repro.paths import BUILD

TARGET = BUILD / "executable-boundaries.pdf"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = ["--no-sandbox", "--disable-gpu"]
_FORM: dict[str, Any] = {
    "format": "A4",
    "margin": {"top": "16mm", "bottom": "16mm", "left": "14mm", "right": "14mm"},
    "scale": 0.75,
    "print_background": True,
    "tagged": True,  # for readers who listen
}
_READY = """async () => {
    if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
    for (const link of document.querySelectorAll("a[href]"))
        if (link.protocol === "file:") link.removeAttribute("href");
    document.documentElement.dataset.theme = "light";
}"""


def write(say: Callable[[str], None] = lambda line: None) -> Path:
    """Print the built book to `TARGET`, with its pages' titles as outline; the path.

    Raises ReproError where the book is not built or no Chromium is found.
    """
    pages = list(_pages())
    with tempfile.TemporaryDirectory(prefix="repro-") as scratch:
        printed = []
        for title, path in _printed(pages, Path(scratch)):
            say(title)
            printed.append((title, path))
        whole = Path(scratch) / "whole.pdf"
        _join(printed, whole)
        files.write_atomic(TARGET, whole.read_bytes())
    return TARGET


def _pages() -> Iterator[Path]:
    """The built pages as the *next* links of the contents lead through them."""
    from repro.book import Page

    path: Path | None = HTML / "book/index.html"
    seen: set[Path] = set()
    while path and path not in seen:
        if not path.is_file():
            raise ReproError(f"{path.name} is not built; run `repro book` first.")
        seen.add(path)
        yield path
        following = Page(path).next
        path = (path.parent / unquote(following)).resolve() if following else None


def _printed(pages: list[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """Title and PDF of each page."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise ReproError("Playwright is not installed: pip install -e '.[test]'.") from None
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        except Error as error:
            said = str(error).strip().splitlines()[0]
            raise ReproError(f"Chromium does not start ({said}). Install chromium.") from None
        page = browser.new_page()
        for number, path in enumerate(pages):
            page.goto(path.as_uri())
            page.evaluate(_READY)
            target = folder / f"{number}.pdf"
            page.pdf(path=target, **_FORM)
            yield page.title().partition(" — ")[0], target
        browser.close()


def _join(printed: list[tuple[str, Path]], target: Path) -> None:
    from pypdf import PdfWriter

    whole = PdfWriter()
    for title, path in printed:
        whole.append(path, outline_item=title, import_outline=False)
    whole.add_metadata({"/Title": "Executable Boundaries", "/Creator": "repro book --pdf"})
    whole.compress_identical_objects()
    whole.write(target)
