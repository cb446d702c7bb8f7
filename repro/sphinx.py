"""Sphinx extension: executed notebooks and computed evidence in the pages.

On ``source-read`` a source notebook is exchanged for its executed copy on file, under a banner
that says how fresh it is. The build never executes anything and never judges an execution.
"""

import json
import os
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import repro
from repro import evidence, figures, files, provenance, redact, render, store
from repro.evidence.receipts import pages
from repro.paths import BUILD, EVIDENCE, NOTEBOOKS, ROOT

_PREFIX = "notebooks/"
STATIC = ROOT / "book" / "_static"
FIGURES = BUILD / "figures"


def swap(app: Any, docname: str, content: list[str]) -> None:
    """Exchange a source notebook's text for what the page shows."""
    if docname.startswith(_PREFIX) and (NOTEBOOKS.parent / f"{docname}.ipynb").is_file():
        content[0] = json.dumps(page(docname.removeprefix(_PREFIX), content[0]))


def page(key: str, text: str) -> dict[str, Any]:
    """The notebook that the page of `key` shows; `text` is the source notebook.

    A fresh result gives its outputs to today's prose. A stale one is shown whole, as it was.
    """
    shown = json.loads(text)
    status = evidence.live(key)
    if status.state == "fresh":
        _lend_outputs(shown, store.load_executed(status.path))
    elif status.state == "stale":
        shown = store.load_executed(status.path)
    _drop_records(shown)
    first, *rest = shown["cells"]
    extra = [_markdown("banner", render.banner(key))]
    if status.state == "missing":
        extra.append(_markdown("gap", render.gap_card(key, status.why)))
    _give_words(shown)
    ends = {"seeds": render.seeds_table(key), "foot": provenance.foot(key)}
    tail = [_markdown(name, text) for name, text in ends.items() if text]
    shown["cells"] = [first, *extra, *rest, *tail]
    return shown


def _lend_outputs(shown: dict[str, Any], executed: dict[str, Any]) -> None:
    pairs = zip(store.code_cells(shown), store.code_cells(executed), strict=True)
    for cell, run in pairs:
        cell["outputs"] = run["outputs"]


def _give_words(shown: dict[str, Any]) -> None:
    """Alternative text goes from the output, where the plot wrote it, to where MyST-NB looks."""
    for cell in shown["cells"]:
        entries = [e for o in cell.get("outputs", []) for e in o.get("metadata", {}).values()]
        words = [e["alt"] for e in entries if "alt" in e]
        if words:
            cell["metadata"]["mystnb"] = {"image": {"alt": " ".join(words)}}


def _drop_records(shown: dict[str, Any]) -> None:
    """The record travels in an output type of its own, which a page does not need."""
    for cell in shown["cells"]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(redact.MIME, None)


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"eb-{name}", "metadata": {}, "source": text}


def outdated(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
    """All pages, unless the last build was finished and showed the evidence of today.

    The note of that is taken away while a build runs, so that one which is killed leaves none.
    """
    note = _note(app)
    before = note.read_text() if note.is_file() else ""
    note.unlink(missing_ok=True)
    app.eb_fingerprint = fingerprint()
    return [] if before == app.eb_fingerprint else sorted(env.found_docs)


def finished(app: Any, exception: Exception | None) -> None:
    """Note what a complete build has shown."""
    if exception is None and hasattr(app, "eb_fingerprint"):
        files.write_atomic(_note(app), app.eb_fingerprint)


def _note(app: Any) -> Path:
    return Path(app.outdir) / ".evidence"


def fingerprint() -> str:
    """Hash of everything the pages take from the evidence."""
    states = [
        [s.key, s.profile, s.seed, s.state, s.why, s.record and s.record["started"]]
        for s in evidence.statuses()
    ]
    here = ROOT / "repro"
    makers = [*STATIC.iterdir(), *here.glob("*.py"), *here.glob("evidence/**/*.py")]
    made = {str(p.relative_to(ROOT)): files.sha256(p) for p in makers if p.is_file()}
    folders = [EVIDENCE / name for name in ("confirmations", "keys", "receipts")]
    kept = [files.sha256(p) for f in folders for p in sorted(f.rglob("*.json*"))]
    return files.digest([states, evidence.claims_file(), made, kept])


def drop_thebe(app: Any, pagename: str, template: str, context: dict, doctree: Any) -> None:
    """Jupyter Book always adds Thebe, which names a script on another host; we do not use it."""
    scripts = context.get("script_files", [])
    told = [f"{script.filename} {script.attributes.get('body', '')}" for script in scripts]
    scripts[:] = [s for s, text in zip(scripts, told, strict=True) if "thebe" not in text.lower()]


class Computed(Directive):
    """Base of the directives whose text is computed: subclasses give `text`."""

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        holder = nodes.container()
        lines = StringList(self.text().splitlines(), source=env.docname)
        self.state.nested_parse(lines, self.content_offset, holder)
        return holder.children

    def text(self) -> str:
        raise NotImplementedError(type(self).__name__)


class Comparison(Computed):
    """``{comparison} actkv/baselines cpu actkv``, its content the metric: arms paired by item."""

    required_arguments = 3
    has_content = True

    def text(self) -> str:
        return render.comparison(*self.arguments, " ".join(self.content))


class Tradeoff(Computed):
    """``{tradeoff} actkv/baselines cpu actkv``: one metric against another, from the records.

    Content, a line each: prefix of the metric across, its label, prefix of the metric up, label.
    """

    required_arguments = 3
    has_content = True

    def text(self) -> str:
        key, profile, subject = self.arguments
        x, across, y, up = self.content
        held = [s.record for s in evidence.of_profile(key, profile) if s.record]
        if not held:
            return f"*Gap: no record of {key} at the profile `{profile}`.*"
        fig, alt = figures.tradeoff(held, x, y, (across, up), subject)
        name = f"{key.replace('/', '-')}-{profile}-{x}{y}.svg".replace("_", "-")
        figures.save(fig, FIGURES / name)
        place = os.path.relpath(FIGURES / name, Path(self.state.document.current_source).parent)
        return f":::{{image}} {place}\n:alt: {alt}\n:width: 100%\n:::"


class Papers(Computed):
    """``{papers}``: the papers at a glance."""

    def text(self) -> str:
        return render.papers_table()


class Claims(Computed):
    """``{claims} actkv``: one paper's claims."""

    required_arguments = 1

    def text(self) -> str:
        return render.claims_list(self.arguments[0])


class Ledger(Computed):
    """``{ledger} actkv``: one paper's entry in the ledger."""

    required_arguments = 1

    def text(self) -> str:
        return render.ledger(self.arguments[0])


class Protocols(Computed):
    """``{protocols}``: the rules that hold for all papers."""

    def text(self) -> str:
        return render.protocols()


class Receipts(Computed):
    """``{receipts}``: all receipts, each with a link to its page where _toc.yml names that."""

    def text(self) -> str:
        return pages.listing(self.state.document.settings.env.found_docs.__contains__)


class Receipt(Computed):
    """``{receipt} 3f2a91c04d5e6f70``: everything that one receipt says."""

    required_arguments = 1

    def text(self) -> str:
        return pages.page(self.arguments[0])


def metric_role(name, rawtext, text, lineno, inliner, options=None, content=None):  # noqa: ARG001
    """``{metric}`actkv/confidence/share```: a measured number, from the committed records."""
    return [nodes.inline(rawtext, render.metric(text), classes=["eb-metric"])], []


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", swap)
    app.connect("env-get-outdated", outdated)
    app.connect("build-finished", finished)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.add_directive("comparison", Comparison)
    app.add_directive("tradeoff", Tradeoff)
    app.add_directive("papers", Papers)
    app.add_directive("claims", Claims)
    app.add_directive("ledger", Ledger)
    app.add_directive("protocols", Protocols)
    app.add_directive("receipts", Receipts)
    app.add_directive("receipt", Receipt)
    app.add_role("metric", metric_role)
    return {"version": repro.__version__, "parallel_read_safe": False}
