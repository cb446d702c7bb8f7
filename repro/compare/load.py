"""Comparisons on disk: one or several JSON files, each with the manifest and some of the runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro import schemas
from repro.compare.refused import Refused
from repro.errors import ReproError


def load(
    paths: Sequence[Path],
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any] | None]:
    """Manifest, all runs and the sealed choice (None where no file holds one).

    Raises ReproError naming a file that is no comparison, Refused where two manifests or two
    choices differ.
    """
    held = [_read(Path(path)) for path in paths]
    manifest = held[0]["manifest"]
    if any(one["manifest"] != manifest for one in held):
        raise Refused("same_manifest", "the files hold different manifests")
    choices = [one["sealed"] for one in held if one.get("sealed")]
    if any(choice != choices[0] for choice in choices):
        raise Refused("test_opened_once", "the files hold different sealed choices")
    return manifest, [run for one in held for run in one["runs"]], choices[0] if choices else None


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ReproError(f"{path.name} is not readable as JSON: {error}.") from error
    schemas.check("comparison", value, path.name)
    return value
