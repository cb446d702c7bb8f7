"""``repro new-chapter``: a chapter that builds, passes its tests and shows as a gap, to start from.

The texts are in repro/template, with ``$name``, ``$title``, ``$arxiv``, ``$label`` and ``$year``
for what differs. Nothing that exists is written over.
"""

import json
import keyword
import re
from pathlib import Path
from string import Template
from typing import Any

from repro import files, paths
from repro.errors import BadParameter

_TEMPLATE = Path(__file__).parent / "template"
_FORMS = {  # what each argument looks like
    "name": (r"[a-z][a-z0-9_]{1,30}", "a folder's name, such as mad_rl"),
    "title": (r'[^"\\\n${}]{2,80}', "a line without quotes, braces, $ and backslashes"),
    "arxiv": (r"\d{4}\.\d{5}", "a number such as 2609.01234"),
}
_IMPORTS = re.compile(r"(?:^from repro.*\n)+", re.MULTILINE)
_NEW = {  # new file -> the text it is made from
    "repro/$name/__init__.py": "init.py",
    "repro/$name/mechanism.py": "mechanism.py",
    "repro/$name/mechanism_checks.py": "mechanism_checks.py",
    "repro/$name/mechanism_faults.py": "mechanism_faults.py",
    "notebooks/$name/mechanism.ipynb": "notebook.py",
    "tests/$name/test_${name}_mechanism.py": "test_mechanism.py",
    "book/$name.md": "page.md",
}


def new_chapter(name: str, title: str, arxiv: str) -> list[Path]:
    """Write the chapter `name` and enter it in contents, claims and references; the paths written.

    name: of its folders. title: as readers know the paper. arxiv: its number.
    Raises BadParameter for arguments of another form, and for a chapter that is there.
    """
    given = {"name": name, "title": title, "arxiv": arxiv}
    for argument, (form, accepted) in _FORMS.items():
        if not re.fullmatch(form, given[argument]) or keyword.iskeyword(given[argument]):
            raise BadParameter(f"{argument}={given[argument]!r}; accepted: {accepted}.")
    values = given | {"label": name.replace("_", "-"), "year": f"20{arxiv[:2]}"}
    new = {_place(path, values): _text(made, values) for path, made in _NEW.items()}
    taken = [*new, *(paths.ROOT / folder / name for folder in ("repro", "notebooks", "tests"))]
    for path in [*taken, paths.ROOT / f"repro/{name}.py"]:
        if path.exists():
            there = path.relative_to(paths.ROOT)
            raise BadParameter(f"name={name!r}: {there} is there; accepted: a new chapter.")
    edited = _edited(values)  # read before anything is written
    for path, text in (new | edited).items():
        files.write_atomic(path, text)
    return [*new, *edited]


def _edited(values: dict[str, str]) -> dict[Path, str]:
    """The contents, the ledger's page, the claims and the references with the chapter in them."""
    names = ("_toc.yml", "book/ledger.md", "evidence/claims.yml", "book/references.bib")
    contents, ledger, claims, works = (paths.ROOT / name for name in names)
    entry, authors = _text("toc.yml", values), "  - caption: For authors\n"
    section, rules = _text("ledger.md", values), "## Rules for all papers\n"
    papers, mark, rest = claims.read_text().partition("\nprotocols:\n")
    listed = f"{papers.rstrip()}\n\n{_text('paper.yml', values)}{mark}{rest.rstrip()}\n\n"
    return {
        contents: contents.read_text().replace(authors, entry + authors),
        ledger: ledger.read_text().replace(rules, section + rules),
        claims: listed + _text("claims.yml", values),
        works: f"{works.read_text().rstrip()}\n{_text('bib', values)}",
    }


def _place(path: str, values: dict[str, str]) -> Path:
    return paths.ROOT / Template(path).substitute(values)


def _text(made: str, values: dict[str, str]) -> str:
    """A template's text with `values` in it; formulas keep their own dollar signs."""
    text = (_TEMPLATE / f"{made}.txt").read_text()
    for name, value in values.items():
        text = re.sub(rf"\${name}\b", value, text)  # which has no backslash
    # Where a name stands among the imports depends on the name.
    text = _IMPORTS.sub(lambda m: "".join(sorted(m[0].splitlines(keepends=True))), text)
    return _notebook(text) if made == "notebook.py" else text


def _notebook(text: str) -> str:
    """An nbformat 4.5 notebook from cells that begin with ``# %% [markdown] id`` or ``# %% id``."""
    cells = []
    for part in re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        cell_id, source = head.split()[-1], source.strip("\n")
        cell: dict[str, Any] = {
            "cell_type": "code",
            "execution_count": None,
            "id": cell_id,
            "metadata": {},
        }
        if head.startswith("[markdown]"):
            cell = {"cell_type": "markdown", "id": cell_id, "metadata": {}}
            source = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        else:
            cell["outputs"] = []
        if cell_id == "parameters":
            cell["metadata"] = {"tags": ["parameters"]}
        cells.append(cell | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    nb = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(nb, indent=1, ensure_ascii=False) + "\n"
