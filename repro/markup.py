"""Repairs of the theme's and docutils' HTML, for readers who hear a page instead of seeing it."""

import html
import re
from typing import Any

_FOLD = re.compile(r"(<a [^>]*>)([^<]*)(</a>\s*<details[^>]*>\s*<summary)>")


def named_folds(text: str) -> str:
    """Each fold of the side bar is named after the link before it; the theme has an arrow only."""

    def name(found: re.Match[str]) -> str:
        title = html.escape(html.unescape(found[2]), quote=True)
        return f'{found[1]}{found[2]}{found[3]} aria-label="Pages under {title}">'

    return _FOLD.sub(name, text)


def listed_references(text: str) -> str:
    """An entry of the list of references is a list item; docutils gives it a deprecated role."""
    return text.replace('role="doc-biblioentry"', 'role="listitem"')


def repair(app: Any, pagename: str, template: str, context: dict, doctree: Any) -> None:
    """Sphinx's `html-page-context`, after the theme's own handlers."""
    if "body" in context:
        context["body"] = listed_references(context["body"])
    if side := context.get("generate_toctree_html"):
        context["generate_toctree_html"] = lambda *a, **k: named_folds(str(side(*a, **k)))
