"""Sphinx extension: executed notebooks and computed evidence in the pages.

On ``source-read`` a source notebook is exchanged for its executed copy on file, under a banner
that says how fresh it is. The build executes no notebook and never judges an execution; the small
pictures of repro.pictures are made in processes of their own.
"""

import json
from pathlib import Path
from typing import Any

import repro
from repro import (
    directives,
    evidence,
    files,
    markup,
    performance,
    pictures,
    provenance,
    redact,
    render,
    store,
)
from repro.errors import ReproError
from repro.paths import EVIDENCE, NOTEBOOKS, ROOT

_PREFIX = "notebooks/"
STATIC = ROOT / "book" / "_static"


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
        _lend_outputs(shown, _executed(status))
    elif status.state == "stale":
        shown = _executed(status)
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


def _executed(status: evidence.Status) -> dict[str, Any]:
    """Raises ReproError where the copy went away since its state was read."""
    executed = store.load_executed(status.path) if status.path else None
    if executed is None:
        raise ReproError(f"The executed copy of {status.key} is gone: `repro run {status.key}`.")
    return executed


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
    evidence.freeze(True)
    app.eb_fingerprint = fingerprint()
    return [] if before == app.eb_fingerprint else sorted(env.found_docs)


def finished(app: Any, exception: Exception | None) -> None:
    """Note what a complete build has shown."""
    evidence.freeze(False)
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
    shown = {name: pictures.fingerprint(name) for name in pictures.NAMES}
    stored = [files.sha256(p) for p in sorted(EVIDENCE.glob("pictures/*.json"))]
    others = (EVIDENCE / "costs.yml", performance.RECORD)
    stored += [files.sha256(path) for path in others if path.is_file()]
    return files.digest([states, evidence.claims_file(), made, kept, shown, stored])


def drop_thebe(app: Any, pagename: str, template: str, context: dict, doctree: Any) -> None:
    """Jupyter Book always adds Thebe, which names a script on another host; we do not use it."""
    scripts = context.get("script_files", [])
    told = [f"{script.filename} {script.attributes.get('body', '')}" for script in scripts]
    scripts[:] = [s for s, text in zip(scripts, told, strict=True) if "thebe" not in text.lower()]


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", swap)
    app.connect("env-get-outdated", outdated)
    app.connect("build-finished", finished)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", markup.repair, priority=900)
    for name, directive in directives.DIRECTIVES.items():
        app.add_directive(name, directive)
    app.add_role("metric", directives.metric_role)
    return {"version": repro.__version__, "parallel_read_safe": False}
