"""What a full reproduction of a paper would take, and what the records on file have taken."""

import math
from typing import Any

from repro import evidence, files, notebooks
from repro.errors import ReproError
from repro.paths import EVIDENCE


def text(paper: str) -> str:
    """Markdown on `paper`. Raises ReproError for an unknown one, or one that costs.yml lacks."""
    about = evidence.papers().get(paper)
    stated = files.read_yaml(EVIDENCE / "costs.yml")
    if about is None or paper not in stated:
        raise ReproError(f"Paper {paper!r} is unknown; there are: {', '.join(stated)}.")
    lines = [
        f"**The paper's own experiments.** {about['cost']}",
        *(f"* {_count(each)}" for each in stated[paper]["counts"]),
        f"**Accelerator hours.** {_hours(stated[paper]['hours'])}",
        f"**Still missing here.** {about['seed_row']}",
        f"**What this chapter's records took.** {_spent(paper)}",
    ]
    return "\n\n".join(lines)


def _count(each: dict[str, Any]) -> str:
    factors = each["factors"]
    product = " × ".join(f"{n:,} {name}" for name, n in factors.items())
    whole = math.prod(factors.values())
    return f"{whole:,} {each['what']}: {product} (label {each['label']})."


def _hours(hours: dict[str, Any] | None) -> str:
    if not hours:
        return "No source that we read states them, so none are given."
    return f"{hours['value']:g} on {hours['device']} (label {hours['label']})."


def _spent(paper: str) -> str:
    keys = [key for key in notebooks.keys() if key.startswith(f"{paper}/")]
    held = [
        status.record
        for key in keys
        for profile in evidence.profiles.names()[1:]
        for status in evidence.of_profile(key, profile)
        if status.record
    ]
    if not held:
        return "None is on file."
    hours = sum(record["wall_s"] for record in held) / 3600
    most = max(record["peak_memory_bytes"] for record in held) / 2**30
    where = ", ".join(sorted({record["device"] for record in held}))
    long = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
    return (
        f"{len(held)} records of {len({r['notebook'] for r in held})} notebooks: {long} in all, "
        f"at most {most:.1f} GiB of memory, on {where}."
    )
