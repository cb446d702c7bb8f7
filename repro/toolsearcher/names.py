"""How tools and categories are named (arXiv 2609.30906; rules from the authors' repository).

A RapidAPI tool is ``category.tool.api`` after the normalisation below. Libraries that already have
one unique name a tool (BFCL, Seal-Tools) keep it as it is.
"""

import re

from repro.errors import BadParameter

# Categories that are searched as one. The answer still names the original category.
MERGED = (
    ("News_Media", "Video_Images"),
    ("Finance", "Financial", "Payments"),
    ("Business", "Business_Software"),
    ("eCommerce", "Commerce"),
)
_FIRST = {member: group[0] for group in MERGED for member in group}
_LETTERS = "0-9A-Za-z_\u4e00-\u9fa5"  # CJK letters stay


def api_name(text: str) -> str:
    """A tool or API name: other signs become one underscore, lower case, ``get_`` before a digit.

    Raises BadParameter where nothing is left: a tool without a name cannot be answered.
    """
    name = re.sub("_+", "_", re.sub(f"[^{_LETTERS}]", "_", text)).lower().strip("_")
    if not name:
        raise BadParameter(f"name={text!r} is refused; accepted: one with a letter or a digit.")
    return f"get_{name}" if name[0].isdigit() else name


def category_name(text: str) -> str:
    """A category: spaces, commas and slashes become underscores, several in a row one."""
    return re.sub("_+", "_", re.sub("[ ,/]", "_", text.strip()))


def searched_as(category: str) -> str:
    """The category under which tools of `category` are searched."""
    return _FIRST.get(category, category)


def rapid_name(category: str, tool: str, api: str) -> str:
    """``category.tool.api``."""
    return f"{category_name(category)}.{api_name(tool)}.{api_name(api)}"
