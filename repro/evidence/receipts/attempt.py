"""Execute a notebook now, and write the receipt of whatever comes of it."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from repro import assets, notebooks, runs
from repro.evidence import receipts
from repro.evidence.receipts import build


def execute(key: str, profile: str = "default", seed: int | None = None) -> dict[str, Any]:
    """The receipt of one run of notebook `key`, which is executed even where a result is on file.

    A good run of a profile with seeds leaves its record as `repro run --force` does, and the
    receipt names it. Without the notebook's assets the run is skipped, and the receipt says so.
    """
    run = runs.plan(key, profile, seed)
    if lacking := assets.lacking(notebooks.read(key).assets):
        made = build.of_attempt(runs.Outcome(run, "skipped", lacking), _now(), 0.0)
        receipts.write(made)
        return made
    outcome, started, took = timed(run)
    if outcome.good:
        outcome = runs.keep(outcome, force=True)
        if outcome.good and run.record_path:
            old = [r for r in receipts.current() if _of(r, run)]
            return build.from_record(run.record_path, old[0]["receipt_id"] if old else None)
    made = build.of_attempt(outcome, started, took)
    receipts.write(made)
    return made


def timed(run: runs.Run) -> tuple[runs.Outcome, str, float]:
    """Execute a run: its outcome, when it started (UTC), and how many seconds it took."""
    started, clock = _now(), time.monotonic()
    outcome = runs.execute(run)
    return outcome, started, time.monotonic() - clock


def _of(receipt: Mapping[str, Any], run: runs.Run) -> bool:
    """Whether a receipt names the committed record of `run`."""
    name = run.record_path and build.inside(run.record_path)
    return any(f["path"] == name for f in receipt["files"])


def _now() -> str:
    return datetime.now(UTC).strftime(receipts.TIME)
