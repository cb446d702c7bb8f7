"""The choice of an arm: by validation alone, sealed, and good for one opening of the test."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repro import files
from repro.compare import manifest as frozen
from repro.compare import rules
from repro.compare.refused import Refused


def select(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """The arm with the best mean validation score over seeds.

    Starts with the baseline and changes only for a candidate that is better by more than the
    manifest's tolerance, in alphabetical order: ties keep the earlier one. Sanity arms and test
    outcomes play no part.
    """
    sign = 1 if manifest["direction"] == "higher" else -1
    roles = manifest["arms"]
    means = {arm: sign * validation_mean(runs, arm) for arm in roles}
    chosen = next(arm for arm, role in roles.items() if role == "baseline")
    for arm in sorted(arm for arm, role in roles.items() if role == "candidate"):
        if means[arm] > means[chosen] + manifest["tolerance"]:
            chosen = arm
    return chosen


def validation_mean(runs: Sequence[Mapping[str, Any]], arm: str) -> float:
    """Mean over items, then over seeds."""
    each = [list(r["validation"]["scores"].values()) for r in runs if r["arm"] == arm]
    return float(np.mean([np.mean(scores) for scores in each]))


def seal(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write down the choice before the test is opened: arm, checkpoints, what it rests on.

    Raises Refused if the runs cannot be compared or already hold test outcomes.
    """
    rules.check(manifest, runs)
    if any(run["test"] is not None for run in runs):
        raise Refused("test_before_selection", "runs hold test outcomes")
    return _sealed(manifest, runs)


def open_test(choice: Mapping[str, Any], folder: Path) -> Path:
    """Use up the one opening of the test that the manifest has; returns the file that says so.

    The same choice may be opened again (nothing new can be learnt from it); another choice for
    the same manifest is refused.
    """
    folder, text = Path(folder), files.canonical(dict(choice)) + "\n"
    path = folder / f"{choice['manifest']}.json"
    part = folder / f".{choice['id']}.part"
    files.write_atomic(part, text)
    try:
        os.link(part, path)  # fails where there is one, and is never half there
    except FileExistsError:
        if path.read_text() != text:
            raise Refused("test_opened_once", f"{path.name} holds another choice") from None
    finally:
        part.unlink(missing_ok=True)
    return path


def check(
    manifest: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    choice: Mapping[str, Any] | None,
) -> None:
    """Refuse test outcomes without a sealed choice, or with one that these runs do not give."""
    if all(run["test"] is None for run in runs):
        return
    if choice is None:
        raise Refused("test_before_selection", "test outcomes and no sealed choice")
    again = _sealed(manifest, runs)
    if choice["manifest"] != again["manifest"]:
        raise Refused("same_manifest", "the sealed choice is of another manifest")
    if (choice["arm"], choice["validation"]) != (again["arm"], again["validation"]):
        raise Refused(
            "selected_by_validation", f"sealed is {choice['arm']}, validation gives {again['arm']}"
        )
    if choice["checkpoints"] != again["checkpoints"]:
        raise Refused("sealed_checkpoints", "a tested checkpoint is not the sealed one")
    if files.digest({k: v for k, v in choice.items() if k != "id"}) != choice["id"]:
        raise Refused("selected_by_validation", "the sealed choice was edited")
    if odd := [r["arm"] for r in runs if r["sealed"] != choice["id"]]:
        raise Refused("test_opened_once", f"{odd[0]} was tested under another choice, or none")


def _sealed(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ordered = sorted(runs, key=lambda run: (run["arm"], run["seed"]))
    body = {
        "manifest": frozen.digest(manifest),
        "arm": select(manifest, runs),
        "checkpoints": {f"{r['arm']}/{r['seed']}": r["checkpoint"] for r in ordered},
        "validation": files.digest([r["validation"] for r in ordered]),
    }
    return body | {"id": files.digest(body)}
