"""What `make bench` measured, as its page shows it: ratios of one run, and growth."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from repro import evidence, files, schemas
from repro.errors import BadParameter, ReproError
from repro.paths import EVIDENCE

RECORD = EVIDENCE / "performance.json"
GAP = "*Gap: nothing measured is on file. `make bench` measures, and writes it.*"
WORDS = {
    "build_over_bare": (
        "a page of the book, built from nothing",
        "the same page under Sphinx and MyST-NB alone, without evidence and outputs",
    ),
    "prose_page": ("reading the middle one of the pages of prose", "the middle one of all pages"),
    "notebook_page": ("reading the middle one of the notebooks", "the middle one of all pages"),
    "slowest_page": ("reading the slowest page", "the middle one of all pages"),
    "rebuild_over_build": ("building when nothing has changed", "building from nothing"),
    "run_over_bare": ("executing `{notebook}` by `repro run`", "the same by nbclient alone"),
    "warm_over_cold": ("loading the small model, once converted", "converting and loading it"),
    "warm_over_bare": ("loading the small model, once converted", "the same by transformers alone"),
}


def load() -> dict[str, Any] | None:
    """The record on file, or None without one. Raises ReproError for one that breaks its schema."""
    if not RECORD.is_file():
        return None
    try:
        record = json.loads(RECORD.read_text())
    except ValueError as error:
        raise ReproError(f"evidence/{RECORD.name} is not JSON: {error}.") from error
    schemas.check("performance", record, f"evidence/{RECORD.name}")
    return record


def save(record: dict[str, Any]) -> None:
    """Raises ReproError, and leaves the file alone, where `record` breaks the schema."""
    schemas.check("performance", record, "the measurement")
    files.write_atomic(RECORD, json.dumps(record, indent=1) + "\n")


def text(part: str) -> str:
    """Markdown of one part, `machine`, `ratios` or `growth`; the gap where nothing is on file."""
    if part not in PARTS:
        raise BadParameter(f"performance {part!r} is unknown; accepted: {', '.join(PARTS)}.")
    record = load()
    return GAP if record is None else PARTS[part](record)


def _machine(record: dict[str, Any]) -> str:
    machine, pages = record["machine"], record["pages"]
    said = (
        f"Measured on a machine with {machine['cores']} cores and {machine['memory_gib']} GiB of "
        f"memory. The book had {pages['all']} pages, {pages['notebooks']} of them notebooks; "
        f"{pages['with_result']} of these had a result to show."
    )
    if record["load"] >= 0.25:
        said += f" Other work was running: the load average was {record['load']:.2f} at the start."
    return said


def _ratios(record: dict[str, Any]) -> str:
    rows = ["| this | over that | ratio |", "|---|---|---|"]
    for name, (this, that) in WORDS.items():
        said = this.format(notebook=record["notebook"])
        rows.append(f"| {said} | {that} | {record['ratios'][name]:.3g} |")
    return "\n".join(rows)


def _growth(record: dict[str, Any]) -> str:
    papers = evidence.papers()
    rows = ["| chapter | what | cost of | smallest | largest | ratio |", "|---" * 6 + "|"]
    for c in record["curves"]:
        cells = [
            papers[c["paper"]]["name"] if c["paper"] in papers else c["paper"],
            c["way"],
            f"{c['unit']}, {c['cost']}",
        ]
        cells += [f"{c['sizes'][0]:,}", f"{c['sizes'][-1]:,}", f"{c['values'][-1]:.3g}"]
        rows.append("| " + " | ".join(cells) + " |")
    met = "within" if record["goal"] < 1 else "over"
    goal = (
        f"The largest graph took {record['goal']:.0%} of the seconds allowed for it, so it is "
        f"{met} its limit."
    )
    return "\n".join(rows) + f"\n\n{goal}"


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "machine": _machine,
    "ratios": _ratios,
    "growth": _growth,
}


def picture(place: Path) -> str | None:
    """Draw the growth of all chapters to `place`; its alternative text, None without a record."""
    record = load()
    if record is None:
        return None
    from repro import figures

    fig, alt = figures.growth(record["curves"])
    figures.save(fig, place)
    return alt
