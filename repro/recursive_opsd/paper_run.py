"""The loop of a shared run: checkpoints by rank 0, looks at chosen steps, resuming.

A checkpoint holds the adapter, the optimiser and the log so far; randomness hangs on seed and step.
Its batch is that of all ranks, so a run may go on with another number of ranks.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from repro import accept, files
from repro.recursive_opsd import checkpoint
from repro.recursive_opsd.paper_step import Shared

LAST = "last.pt"


def train(
    run: Shared,
    until: int,
    out: Path,
    save_every: int,
    looks: Collection[int] = (),
    look: Callable[[int], dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Take `run` to step `until`, from the checkpoint in `out` if there is one; returns the log.

    looks: after these steps the adapter is kept and `look`, if given, is called with the step and
    its result joins the log. Every rank calls this; rank 0 writes, each file in one step.
    Raises ReproError for a damaged checkpoint, one of another run, and for ranks that differ.
    """
    accept.count("save_every", save_every)
    history: list[dict[str, Any]] = []
    if (out / LAST).exists():
        state = checkpoint.load(out / LAST)
        run.load(state["run"])
        history = state["history"]
    while run.step < until:
        log = run.update()
        history.append({name: value for name, value in log.items() if name != "answers"})
        looked = run.step in looks
        if looked and look is not None:
            history[-1]["look"] = look(run.step)
        if looked or run.step == until or run.step % save_every == 0:
            _save(run, out, history, looked)
    return history


def _save(run: Shared, out: Path, history: list[dict[str, Any]], looked: bool) -> None:
    adapter = checkpoint.snapshot(run.model)
    run.group.agree("the adapter", checkpoint.fingerprint(adapter))
    if run.group.rank == 0:
        if looked:
            checkpoint.save(out / f"adapter-{run.step:06d}.pt", adapter)
        checkpoint.save(out / LAST, {"run": run.state(), "history": history})
        files.write_atomic(out / "history.json", json.dumps(history, indent=1) + "\n")
    run.group.every(None)  # nobody goes on before it is written
