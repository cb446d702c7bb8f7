"""What axe-core calls a serious or critical barrier of a page."""

import contextlib
import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError

axe = pytest.importorskip("axe_playwright_python", reason="the test extra holds axe-core")
SCRIPT = (Path(axe.__file__).parent / "axe.min.js").read_text()
# The theme makes scrolling blocks reachable by keyboard a moment after fonts and formulas settle.
SCROLLING = "pre, .pst-scrollable-table-container"
REACHABLE = f"""() => [...document.querySelectorAll({SCROLLING!r})].every(e => e.tabIndex === 0
    || (e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight))"""


# Contrast takes longest, and is the same in every row of a table and every line of code.
CONTRAST = "color-contrast"
FEW = {"exclude": [["pre"], ["tr:nth-of-type(n+12)"]]}
REST = {"rules": {CONTRAST: {"enabled": False}}}


def barriers(page: Page, patience: float = 10_000, everywhere: bool = False) -> list[str]:
    """One line a barrier; blocks have `patience` milliseconds to become reachable.

    everywhere: look for contrast in code and in all rows of tables too.
    """
    with contextlib.suppress(TimeoutError):  # axe then says which block it is
        page.wait_for_function(REACHABLE, timeout=patience)
    page.evaluate(SCRIPT)
    found = violations(page, {}, REST)
    found += violations(page, {} if everywhere else FEW, {"runOnly": [CONTRAST]})
    return [
        f"{one['impact']}: {one['id']}, {len(one['nodes'])} times, first {one['nodes'][0]['html']}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def violations(page: Page, where: dict, which: dict) -> list[dict]:
    said = json.dumps([where or {"include": [["html"]]}, which | {"resultTypes": ["violations"]}])
    return page.evaluate(f"axe.run(...{said})")["violations"]
