"""What the streaming notebook calls: one arm over many streams, and the falsifiers' answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro import intervals
from repro.deltas.arms import ARMS, Context
from repro.deltas.retention import RetentionPolicy
from repro.deltas.runner import StreamRunner
from repro.deltas.streams import Streams
from repro.errors import BadParameter


@dataclass(frozen=True)
class Outcome:
    """One arm on B streams: share right [B], share of asked tokens still cached [B], chunk scores
    [T, B] (mean over the chunk's tokens), and the runner's figures."""

    right: np.ndarray
    kept: np.ndarray
    scores: np.ndarray
    stats: dict


def play(model, seen: Streams, arm: str, policy: RetentionPolicy, seed: int) -> Outcome:
    """Read all frames under `policy` with the signal of `arm`, then ask every question by itself.

    arm: a name of `ARMS`, or "full" for no budget. Raises BadParameter for another name.
    """
    if arm != "full" and arm not in ARMS:
        raise BadParameter(f"arm={arm!r} is refused; accepted: full, {', '.join(ARMS)}.")
    batch, frames = seen.frames.shape[:2]
    signal, used = "drift", None
    if arm != "full":
        maker, bucketed, _ = ARMS[arm]
        lots = np.random.default_rng([seed, policy.budget, int(seen.place.sum())])
        signal = maker(Context(policy, seen.place, lots))
        buckets = policy.buckets if bucketed else 1
        used = RetentionPolicy(
            policy.budget, policy.sinks, policy.window, buckets, policy.within_chunk
        )
    runner = StreamRunner(model, used, signal, batch)
    for at in range(frames):
        runner.feed(seen.frames[:, at])
    asked = [runner.ask(seen.questions[:, [j]]) for j in range(seen.questions.shape[1])]
    right = torch.stack(asked, 1).argmax(-1) == seen.answers
    kept = [np.isin(seen.place[b], runner.index[b][runner.real[b]]).mean() for b in range(batch)]
    scores = np.stack([s.mean(1) for s in runner.scores])
    return Outcome(right.float().mean(1).numpy(), np.array(kept), scores, runner.stats())


def gain(found: dict[str, Outcome], arm: str, other: str) -> np.ndarray:
    """Difference of the shares right, stream by stream. [B]"""
    return found[arm].right - found[other].right


def verdict(difference: np.ndarray, margin: float = 0.0) -> str:
    """In words: better or worse when the 95 % interval of the mean lies on one side of 0.

    identical arms are uninformative; fewer than five streams give no interval.
    """
    if not difference.any():
        return "identical, so uninformative"
    between = intervals.of_mean(difference)
    if between is None:
        return "too few streams for an interval"
    if between[0] > margin:
        return "better"
    return "worse" if between[1] < -margin else "not distinguished"


def informative(found: dict[str, Outcome], chance: float) -> tuple[bool, str]:
    """Can the task tell arms apart? Full cache well above chance, window well below full."""
    full, window = found["full"].right.mean(), found["window"].right.mean()
    if full < (1 + chance) / 2:
        return False, f"void: the full cache answers {full:.0%}, chance is {chance:.0%}"
    if window > 0.9 * full:
        return False, f"void: the window alone answers {window:.0%}, the full cache {full:.0%}"
    return True, f"the full cache answers {full:.0%}, the window alone {window:.0%}"


def falsifiers(by_kind: dict[Any, dict[str, Outcome]]) -> list[list[str]]:
    """The notes' section 9.3, a row each: question, measured difference, interval, answer.

    by_kind: outcomes by arm for each (kind, budget); budgets are averaged by stream, kinds joined.
    """
    asked = [
        ("carries something: drift above shuffled drift", "drift", "drift-shuffled"),
        ("the same: drift above a lot", "drift", "random"),
        ("the state adds to the input: drift above input change", "drift", "input-change"),
        ("the same, patch by patch: residual above patch change", "residual", "patch-change"),
        ("more than the gates: drift above forgetting alone", "drift", "decay"),
        ("buckets help: with above without", "drift", "drift-nobuckets"),
        ("tokens beat chunks: residual above drift", "residual", "drift"),
        ("writing alone is as good: write-only above drift", "drift-write", "drift"),
        ("drift above uniform sampling", "drift", "uniform"),
        ("drift above the value norm", "drift", "value-norm"),
    ]
    rows = []
    for question, arm, other in asked:
        if not all({arm, other} <= found.keys() for found in by_kind.values()):
            continue
        kinds: dict[Any, list] = {}  # budgets see the same streams: averaged, not pooled
        for (kind, _), found in by_kind.items():
            kinds.setdefault(kind, []).append(gain(found, arm, other))
        each = np.concatenate([np.mean(gains, 0) for gains in kinds.values()])
        between = intervals.of_mean(each)
        shown = "{:+.3f} to {:+.3f}".format(*between) if between else "–"
        rows.append([question, f"{each.mean():+.3f}", shown, verdict(each)])
    return rows


def rank_of(found: Outcome, seen: Streams, kind: int) -> float:
    """Mean rank of the chunk score of frames of `kind`, 0 lowest to 1 highest in its stream.

    Without the first frame, whose drift is from nothing and the largest of all.
    """
    later = found.scores[1:]
    ranks = later.argsort(0).argsort(0).T / (len(later) - 1)
    chosen = ranks[seen.kind[:, 1:] == kind]
    return float(chosen.mean()) if chosen.size else float("nan")


#: arms of the default run
CORE = (
    *("window", "random", "uniform", "drift", "drift-nobuckets", "drift-shuffled"),
    *("decay", "residual", "input-change", "patch-change", "oracle"),
)

#: arms whose scores say something about a frame, whatever the time
SCORED = ("drift", "drift-write", "decay", "residual", "input-change", "patch-change", "value-norm")


def chosen(name: str, text: str, known: dict, core: tuple[str, ...] = ()) -> list[str]:
    """Names of `known` in a parameter such as "drift, decay"; "all" for all of them, "core"
    for `core`.

    Raises BadParameter, naming the parameter `name`, for another name or none.
    """
    found = (
        list(known) if text.strip() == "all" else [x.strip() for x in text.split(",") if x.strip()]
    )
    if core and text.strip() == "core":
        found = list(core)
    if not found or set(found) - set(known) or len(set(found)) < len(found):
        raise BadParameter(
            f"{name}={text!r} is refused; accepted: all, or some of {', '.join(known)}, once each."
        )
    return found


def numbers(name: str, text: str) -> list[int]:
    """Rising whole numbers in a parameter such as "60, 120"."""
    try:
        found = [int(x) for x in text.split(",")]
    except ValueError:
        found = []
    if not found or sorted(set(found)) != found or found[0] < 1:
        raise BadParameter(f"{name}={text!r} is refused; accepted: rising whole numbers.")
    return found
