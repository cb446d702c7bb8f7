"""The loop around the update: looks at validation, checkpoints, the best look by validation alone.

A killed run leaves the last whole checkpoint; started again it goes on from there and ends with the
same losses as a run that was never stopped.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from repro import accept, files
from repro.errors import BadParameter
from repro.recursive_opsd import checkpoint, evaluate
from repro.recursive_opsd.train import Training

USED = ("generated_tokens", "scored_tokens", "trained_tokens", "forward_passes", "seconds")


@dataclass
class Trained:
    """What a run left: a log an update, a look each time validation was scored, what was used.

    weights: the adapter of the chosen look. first_rollout: hash of the first update's answers.
    """

    weights: dict[str, Any]
    history: list[dict] = field(default_factory=list)
    looks: list[dict] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=lambda: dict.fromkeys(USED, 0.0))
    first_rollout: str | None = None

    @property
    def chosen(self) -> dict:
        """The look that validation chose."""
        return self.looks[best(self.looks)]


Look = Callable[[Any], dict[str, Any]]  # a model -> at least "scores", item -> outcome


def best(looks: list[dict]) -> int:
    """Index of the look with the best mean validation score; ties keep the earlier one."""
    means = [sum(look["scores"].values()) / len(look["scores"]) for look in looks]
    return means.index(max(means))


def schedule(updates: int, looks: int) -> list[int]:
    """After which updates validation is scored: `looks` of them, evenly, the last one included."""
    if not 1 <= accept.count("looks", looks) <= accept.count("updates", updates):
        raise BadParameter(f"looks={looks} is refused; accepted: 1 to the {updates} updates.")
    return sorted({round(updates * (i + 1) / looks) for i in range(looks)})


def train(
    run: Training,
    updates: int,
    look: Look,
    looks: int = 1,
    path: Path | None = None,
    watch: Callable[[int, dict], None] | None = None,
) -> Trained:
    """Take `updates` steps of `run`; with `path`, save after each and go on from what lies there.

    watch: called with the step and its log, after the save. Raises BadParameter for a checkpoint
    of another run, ReproError for a damaged one.
    """
    due = schedule(updates, looks)
    made = Trained(checkpoint.snapshot(run.model))
    # The fingerprint of the adapter stands for the seed it started from.
    name = files.digest([updates, looks, checkpoint.fingerprint(made.weights)])
    if path is not None and path.exists():
        _resume(path, name, run, made)
    while run.step < updates:
        clock = time.monotonic()
        log = run.update()
        made.used["seconds"] += time.monotonic() - clock
        for part in USED[:-1]:
            made.used[part] += log[part]
        if not made.history:
            made.first_rollout = files.digest(log["answers"])
        log["tokens"] = sum(map(len, log["answers"])) / len(log["answers"])
        made.history.append({k: v for k, v in log.items() if k != "answers"})
        if run.step in due:
            made.looks.append({"step": run.step} | look(run.model))
            if best(made.looks) == len(made.looks) - 1:
                made.weights = checkpoint.snapshot(run.model)
        if path is not None:
            checkpoint.save(path, {"name": name, "run": run.state(), "made": asdict(made)})
        if watch is not None:
            watch(run.step, log)
    return made


def as_look(judged: evaluate.Judged, held_out: dict[str, float]) -> dict[str, Any]:
    """Plain values of one look at validation."""
    return asdict(judged) | {f"kl_{k}" if k != "gold" else k: v for k, v in held_out.items()}


def _resume(path: Path, name: str, run: Training, made: Trained) -> None:
    state = checkpoint.load(path)
    if state.get("name") != name:
        raise BadParameter(
            f"checkpoint {path.name} of another run is refused; accepted: one with the same "
            "updates, looks and start. Remove it to start anew."
        )
    run.load(state["run"])
    for field_, value in state["made"].items():
        setattr(made, field_, value)
