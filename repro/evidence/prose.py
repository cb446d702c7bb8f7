"""Does a page, a badge or the claims file say more than the evidence?

Levels and badges are computed; typing one is an error wherever it stands. A sentence that says a
paper was reproduced is an error too, unless it denies it. Built pages must show the badges of
today's evidence.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.paths import BUILD, ROOT

_LEVEL = r"(?:mechanism|diagnostic|reproduction)"
TYPED = re.compile(
    r"eb-(?:level|flag)|\{bdg[\w-]*\}|img\.shields\.io|!\[[^\]]*badge"
    rf"|\b(?:evidence[ -])?level\W{{1,4}}(?:is\s|of\s|:\s*)?\W{{0,3}}\b{_LEVEL}\b(?!\s*[<|])"
    rf"|\b(?:reach|attain)\w*\s(?:an?\s|the\s)?(?:full\s)?{_LEVEL}\b",
    re.IGNORECASE,
)
SAID = re.compile(
    r"\b(?:reproduc|replicat|confirm|validat|verif)\w*\s(?:all\s|most\s)?(?:of\s)?(?:the|this|that|"
    r"its|their)\s(?:original\s|published\s)?(?:paper|authors?)\b(?:'s)?"
    r"|\b(?:match|equal|reach)\w*\s(?:the|this|its)\spaper'?s?\s(?:result|number|accuracy|figure)"
    r"|\b(?:fully|successfully|faithfully|completely)\s(?:reproduc|replicat)\w*"
    r"|\b(?:full|successful|faithful|complete)\s(?:reproduction|replication)\sof\sthe\spaper"
    r"|\bpaper\s(?:is|was|has\sbeen)\s(?:fully\s|successfully\s)?(?:reproduced|replicated|confirmed)",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|whether|would|until|if|unless|missing|"
    r"misses|plan|gap|instead of|\w+n't)\b",
    re.IGNORECASE,
)
PAGES = ("book/**/*.md", "notebooks/*/*.ipynb", "*.md", "*.cff", ".github/**/*.yml", "_toc.yml")
_SPAN = re.compile(r'class="eb-(?:level|flag) [\w-]+">\s*([\w-]+)\s*<')
_EXAMPLE = re.compile(r"^(`{4,}).*?^\1", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"\{(claims|ledger|papers|protocols)\}[ \t]*(\w*)")


def overclaims(root: Path = ROOT) -> list[str]:
    """What is typed and should be computed, or says too much: "file: says '…'"."""
    found = []
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            found += [f"{path.relative_to(root)}: says {t!r}" for t in _too_much(_text(path))]
    return found


def overclaimed(claims_file: dict[str, Any]) -> list[str]:
    """The same for the words of evidence/claims.yml: titles, statements, notes, deviations."""
    found = []
    for claim in claims_file["claims"]:
        words = [claim["title"], claim["statement"], claim.get("note", ""), *claim["deviations"]]
        for told in _too_much(". ".join(words)):
            found.append(f"claim {claim['id']}: says {told!r}")
    return found


def badges(html: Path = BUILD / "html") -> list[str]:
    """Built pages whose badges are not those that their evidence gives.

    Nothing is said of a book that was built from other evidence: it is due to be built again.
    """
    from repro import sphinx

    note = html / ".evidence"
    if not note.is_file() or note.read_text() != sphinx.fingerprint():
        return []
    found = []
    for source in [*ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*/*.ipynb")]:
        name = source.relative_to(ROOT).with_suffix(".html")
        if (html / name).is_file():
            shown = Counter(_SPAN.findall((html / name).read_text()))
            due = Counter(_SPAN.findall("".join(_computed(source))))
            odd = sorted(((shown - due) + (due - shown)).keys())
            found += [f"{name}: shows other badges than are due: {', '.join(odd)}"] if odd else []
    return found


def _computed(source: Path) -> Iterator[str]:
    from repro import render

    if source.suffix == ".ipynb":
        key = f"{source.parent.name}/{source.stem}"
        yield render.banner(key)
        return
    makers = {
        "claims": render.claims_list,
        "ledger": render.ledger,
        "papers": lambda _: render.papers_table(),
        "protocols": lambda _: render.protocols(),
    }
    text = _EXAMPLE.sub("", source.read_text())
    for name, argument in _DIRECTIVE.findall(text):
        yield makers[name](argument)


def _too_much(text: str) -> Iterator[str]:
    text = " ".join(text.split())
    yield from (match[0] for match in TYPED.finditer(text))
    for sentence in re.split(r"(?<=[.!?:;|])\s", text):
        if (match := SAID.search(sentence)) and not DENIED.search(sentence[: match.start()]):
            yield match[0]


def _text(path: Path) -> str:
    """What a reader of the file sees; of a notebook the sources of all cells."""
    text = path.read_text()
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
