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
OUR_CLASSES = {"eb-kept", "eb-evicted", "eb-table"}  # the others mark evidence: records only
_ATTRIBUTES = {"*": {"class"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan", "scope"}}
_SVG_DANGER = re.compile(
    r"<\s*(?:\w+:)?(script|foreignObject|iframe|embed|object)\b|\son\w+\s*=|javascript:|"
    r"(?:href|src)\s*=\s*[\"'](?!#|data:image/png)|<!ENTITY|@import|url\(\s*[\"']?(?!#)",
    re.IGNORECASE,
)
_TEX_DANGER = re.compile(r"\\(href|style|class|cssId|require|data|def|let|newcommand|html\w*)\b")
# What MyST would act on: directives, other roles than these, links, images, labels, headings.
_MYST_DANGER = re.compile(
    r"[`~:]{3,}\s*\{|\{(?!cite:[pt]\}|eq\})[\w:+.-]+\}`|!\[|\](?!\(https://arxiv\.org/)[(\[]|"
    r"^\s*\[[^\]]*\]:|^\s*\([^)]*\)=|^\s*#{1,6}\s|^\s*(-{3,}|={3,}|\+{3,})\s*$|javascript:",
    re.IGNORECASE | re.MULTILINE,
)
_PATH = re.compile(
    r"(https?://[^\s\"'<>]+)|(?<![\w.~…/])/+(?:[\w.+~@-]+/)+([\w.+~@-]*)"
    r"|\b[A-Z]:[\\/](?:Users|ProgramData|Windows)[\\/](?:[^\s\\/\"']+[\\/])*([^\s\"']*)"
)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


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
    """`value` with this machine's paths, host and user names replaced, and without colour codes."""
    value = _ANSI.sub("", value).replace(str(ROOT), ".").replace(str(Path.home()), "~")
    value = _PATH.sub(lambda m: m[1] or "…/" + (m[2] or m[3] or ""), value)
    for name, stand_in in ((socket.gethostname(), "[host]"), (_user(), "[user]")):
        # A name such as "root" is also a word: replace it only where it stands for an account.
        if name and name.lower() not in {"root", "localhost", "user", "runner"}:
            value = re.sub(rf"\b{re.escape(name)}\b", stand_in, value, flags=re.IGNORECASE)
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
    ours = MIME in output["data"]
    data = {mime: _data(mime, value, ours) for mime, value in output["data"].items()}
    data = {mime: value for mime, value in data.items() if value is not None}
    if "text/markdown" in output["data"] and "text/markdown" not in data:
        data["text/plain"] = text(_join(output["data"]["text/markdown"]))
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


def _data(mime: str, value: Any, ours: bool = False) -> Any:
    """The output in a safe form, or None where its type is not on the list or it is hostile."""
    if mime == MIME:
        return value
    if not isinstance(value, str) and not (
        isinstance(value, list) and all(isinstance(line, str) for line in value)
    ):
        return None
    value = _join(value)
    if mime in IMAGES:
        return base64.b64encode(base64.b64decode(value)).decode()
    if mime == "text/plain":
        return text(value)
    if mime == "text/latex":
        return None if _TEX_DANGER.search(value) else value.replace(str(ROOT), ".")
    if mime == "text/html":
        return text(_html(value, ours))
    if mime == "text/markdown":
        return text(value) if _plain_markdown(value) else None
    if mime == "image/svg+xml":
        return _svg(value)
    return None


def _html(value: str, ours: bool) -> str:
    """`value` through the allow-list; only a record's own output may carry evidence classes."""

    def keep(tag: str, attribute: str, said: str) -> str:
        names = said.split()
        return " ".join(n for n in names if ours or not n.startswith("eb-") or n in OUR_CLASSES)

    return nh3.clean(
        value,
        tags=nh3.ALLOWED_TAGS - {"img"},
        attributes=_ATTRIBUTES,
        attribute_filter=lambda tag, name, said: keep(tag, name, said) if name == "class" else said,
        url_schemes={"https", "mailto"},
    )


def _svg(value: str) -> str | None:
    """A picture without scripts, entities, outside references, or Matplotlib's date and creator."""
    if "<!ENTITY" in value.upper():
        return None
    value = re.sub(
        r"<\?xml.*?\?>|<!DOCTYPE[^\[>]*>|<metadata>.*?</metadata>", "", value, flags=re.S
    )
    if _SVG_DANGER.search(value) or "<!" in _comments_gone(value):
        return None
    # Base64 may hold "/ab/cd/": a picture in the picture is not searched for paths.
    parts = re.split(r"(data:image/png;base64,[A-Za-z0-9+/=\s]*)", value)
    return "".join(part if at % 2 else text(part) for at, part in enumerate(parts))


def _comments_gone(value: str) -> str:
    return re.sub(r"<!--.*?-->", "", value, flags=re.S)


class _Tags(HTMLParser):
    """Collects whether Markdown holds HTML beyond plain text marks."""

    allowed = {"b", "i", "em", "strong", "code", "sub", "sup", "br", "kbd"}

    def __init__(self) -> None:
        super().__init__()
        self.plain = True

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.plain &= tag in self.allowed and not attrs

    def handle_endtag(self, tag: str) -> None:
        self.plain &= tag in self.allowed

    def handle_comment(self, data: str) -> None:
        self.plain = False

    handle_decl = unknown_decl = handle_pi = handle_comment  # type: ignore[assignment]


def _plain_markdown(value: str) -> bool:
    """Whether MyST would do no more with `value` than set it: no directive, link or HTML."""
    value = _without_code_blocks(value)
    parser = _Tags()
    parser.feed(value)
    parser.close()
    return parser.plain and not _MYST_DANGER.search(value) and not _TEX_DANGER.search(value)


def _without_code_blocks(value: str) -> str:
    """`value` less its plain fenced blocks, if all its fences are of the simplest kind.

    Anything else that could be read as a fence leaves all of it in, to be judged as text.
    """
    lines = value.splitlines()
    fences = [i for i, line in enumerate(lines) if "```" in line or "~~~" in line]
    opening, closing = fences[::2], fences[1::2]
    simple = all(re.fullmatch(r"```\w*", lines[i]) for i in opening) and all(
        lines[i] == "```" for i in closing
    )
    if not simple or len(opening) != len(closing):
        return value
    inside = {i for a, b in zip(opening, closing, strict=True) for i in range(a, b + 1)}
    return "\n".join(line for i, line in enumerate(lines) if i not in inside)


def _join(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
