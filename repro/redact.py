"""Make an executed notebook safe to show and to keep.

Rendered output is not safe by itself: a script in an HTML output lands verbatim in the page, and
an ordinary warning prints local folder names (anchors, rows 19 and 20). Only listed output types
pass; HTML goes through an allow-list; paths, host and user names are replaced; Papermill's own
metadata, which holds absolute paths, is dropped.
"""

import base64
import getpass
import re
import socket
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nh3

from repro import files
from repro.paths import ROOT
from repro.records import MIME

IMAGES = {"image/png", "image/jpeg"}
TEXTS = {"text/plain", "text/latex"}
_ATTRIBUTES = {"*": {"class"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan", "scope"}}
_SVG_DANGER = re.compile(
    r"<\s*(script|foreignObject|iframe|embed|object)\b|\son\w+\s*=|javascript:|"
    r"(?:href|src)\s*=\s*[\"'](?!#|data:image/png)|<!ENTITY|@import|url\(\s*[\"']?(?!#)",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?<![\w/:.<~-])/(?:[\w.+~@-]+/)+([\w.+~@-]*)|\b[A-Z]:\\(?:[^\s\\\"']+\\)+(\S*)"
)


def notebook(nb: dict[str, Any]) -> dict[str, Any]:
    """`nb` (an executed notebook as JSON) in a safe copy, sealed with the hash of its outputs."""
    cells = [_cell(cell) for cell in nb["cells"]]
    clean = {
        "cells": cells,
        "metadata": {"kernelspec": nb["metadata"]["kernelspec"], "repro": {"seal": seal(cells)}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return clean


def seal(cells: list[dict]) -> str:
    """Hash of all outputs: an executed notebook edited by hand no longer matches it."""
    return files.digest([cell.get("outputs", []) for cell in cells])


def text(value: str) -> str:
    """`value` with this machine's paths, host and user names replaced."""
    value = value.replace(str(ROOT), ".").replace(str(Path.home()), "~")
    value = _PATH.sub(lambda m: "…/" + (m[1] or m[2] or ""), value)
    for name, stand_in in ((socket.gethostname(), "<host>"), (_user(), "<user>")):
        # A name such as "root" is also a word: replace it only where it stands for an account.
        if name and name not in {"root", "localhost", "user", "runner"}:
            value = re.sub(rf"\b{re.escape(name)}\b", stand_in, value)
    return value


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    kept = {
        "cell_type": cell["cell_type"],
        "id": cell["id"],
        "metadata": {k: v for k, v in cell["metadata"].items() if k in ("tags", "mystnb")},
        "source": "".join(cell["source"]),
    }
    if cell["cell_type"] == "code":
        kept["execution_count"] = cell["execution_count"]
        kept["outputs"] = [_output(output) for output in cell["outputs"]]
    return kept


def _output(output: dict[str, Any]) -> dict[str, Any]:
    kind = output["output_type"]
    if kind == "stream":
        return {"output_type": kind, "name": output["name"], "text": text(_join(output["text"]))}
    if kind == "error":
        return {
            "output_type": kind,
            "ename": output["ename"],
            "evalue": text(output["evalue"]),
            "traceback": [text(line) for line in output["traceback"]],
        }
    data = {mime: _data(mime, value) for mime, value in output["data"].items()}
    data = {mime: value for mime, value in data.items() if value is not None}
    if not data:
        data = {"text/plain": "[an output of a type that this book does not show]"}
    metadata = {
        mime: {"alt": text(str(entry["alt"]))}
        for mime, entry in output.get("metadata", {}).items()
        if mime in data and isinstance(entry, dict) and "alt" in entry
    }
    kept = {"output_type": kind, "data": data, "metadata": metadata}
    return kept | (
        {"execution_count": output["execution_count"]} if kind == "execute_result" else {}
    )


def _data(mime: str, value: Any) -> Any:
    """The output in a safe form, or None where its type is not on the list."""
    if mime == MIME:
        return value
    value = _join(value)
    if mime in IMAGES:
        return base64.b64encode(base64.b64decode(value)).decode()
    if mime in TEXTS:
        return text(value)
    if mime == "text/html":
        return text(
            nh3.clean(
                value,
                attributes=_ATTRIBUTES,
                tags=nh3.ALLOWED_TAGS - {"img"},
                url_schemes={"https", "mailto"},
            )
        )
    if mime == "text/markdown":
        return text(value) if _plain_markdown(value) else None
    if mime == "image/svg+xml":
        return None if _SVG_DANGER.search(_svg_body(value)) else text_in_svg(value)
    return None


def text_in_svg(value: str) -> str:
    """Matplotlib's date and creator comments go, so that the same figure gives the same bytes."""
    value = re.sub(r"<metadata>.*?</metadata>", "", value, flags=re.DOTALL)
    return value.replace(str(ROOT), ".").replace(str(Path.home()), "~")


def _svg_body(value: str) -> str:
    return re.sub(
        r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", value, flags=re.DOTALL
    )


class _Tags(HTMLParser):
    """Collects whether Markdown holds HTML beyond plain text marks."""

    allowed = {"b", "i", "em", "strong", "code", "sub", "sup", "br", "kbd"}

    def __init__(self) -> None:
        super().__init__()
        self.plain = True

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.plain &= tag in self.allowed and not attrs

    def handle_comment(self, data: str) -> None:
        self.plain = False

    handle_decl = unknown_decl = handle_pi = handle_comment


def _plain_markdown(value: str) -> bool:
    parser = _Tags()
    parser.feed(value)
    parser.close()
    # A directive or role could bring raw HTML or read a file at build time; so could a link.
    hostile = re.search(r"javascript:|^\s*(`{3,}|~{3,}|:{3,})\s*\{", value, re.I | re.M)
    return parser.plain and not hostile and "<" not in parser.rawdata


def _join(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
