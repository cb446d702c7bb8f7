"""The report of a comparison: every arm, every seed, and a verdict in words fixed beforehand.

*better* and *worse*: the interval against the baseline lies on one side of 0 on validation and on
test, and Holm's p is at most 0.05. *not distinguished*: it does not, though a difference as large
as the margin would have been seen. *uninformative*: the runs could not have shown one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from repro.compare import choice, paired, rules
from repro.compare.manifest import SANITY

VERDICTS = ("better", "worse", "not distinguished", "uninformative", "test not opened")
LEVEL = 0.05
USE = ("generated_tokens", "scored_tokens", "trained_tokens", "forward_passes", "seconds")
UNEQUAL = 1.1  # real use of two arms beyond this ratio is said


@dataclass(frozen=True)
class Difference:
    """An arm less the baseline on one split, turned so that more is better.

    by_seed [S]: means. interval: 95 %, of the mean. p: sign-flip test over items. mcnemar [S]:
    exact, None unless outcomes are 0/1. detectable: smallest mean found with 80 % power.
    finished: mean over the items that no run of either arm left unfinished; None if there is none.
    """

    mean: float
    by_seed: tuple[float, ...]
    interval: tuple[float, float]
    p: float
    mcnemar: tuple[float | None, ...]
    detectable: float
    identical: bool
    finished: float | None

    @property
    def side(self) -> int:
        """1 or -1 where the interval lies on one side of 0, else 0."""
        return int(self.interval[0] > 0) - int(self.interval[1] < 0)


@dataclass(frozen=True)
class ArmReport:
    """One arm: scores {split: [S]} means by seed, differences to the baseline {split: …}."""

    arm: str
    role: str
    scores: dict[str, tuple[float, ...]]
    unfinished: dict[str, int]
    used: dict[str, float]
    differences: dict[str, Difference]
    p_holm: float | None = None
    verdict: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All arms. chosen: by validation. covers: what the intervals speak of."""

    metric: str
    direction: str
    margin: float
    seeds: tuple[int, ...]
    chosen: str
    opened: bool
    covers: str
    arms: dict[str, ArmReport]
    notes: tuple[str, ...]


def report(
    manifest: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    sealed: Mapping[str, Any] | None = None,
) -> Report:
    """Compare every arm with the baseline.

    sealed: from `choice.seal`; needed once runs hold test outcomes.
    Raises Refused with the rule that the runs break.
    """
    rules.check(manifest, runs)
    choice.check(manifest, runs, sealed)
    opened = runs[0]["test"] is not None
    splits = ("validation", "test") if opened else ("validation",)
    base = next(arm for arm, role in manifest["arms"].items() if role == "baseline")
    arms = {arm: _arm(manifest, runs, arm, base, splits) for arm in sorted(manifest["arms"])}
    arms = _judged(manifest, runs, arms, base)
    return Report(
        metric=manifest["metric"],
        direction=manifest["direction"],
        margin=manifest["margin"],
        seeds=tuple(manifest["seeds"]),
        chosen=choice.select(manifest, runs),
        opened=opened,
        covers=paired.covers(len(manifest["seeds"])),
        arms=arms,
        notes=tuple(_notes(manifest, arms, base)),
    )


def scores(
    manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], arm: str, split: str
) -> np.ndarray:
    """Outcomes [S, n] of one arm: seeds and item ids in the manifest's order."""
    ids = manifest["splits"][split]["ids"]
    by_seed = {run["seed"]: run[split]["scores"] for run in runs if run["arm"] == arm}
    return np.array([[by_seed[seed][i] for i in ids] for seed in manifest["seeds"]], dtype=float)


def _arm(manifest, runs, arm: str, base: str, splits: Sequence[str]) -> ArmReport:
    mine = [run for run in runs if run["arm"] == arm]
    return ArmReport(
        arm=arm,
        role=manifest["arms"][arm],
        scores={s: tuple(scores(manifest, runs, arm, s).mean(1).tolist()) for s in splits},
        unfinished={s: sum(len(run[s]["unfinished"]) for run in mine) for s in splits},
        used={name: float(np.mean([run["used"][name] for run in mine])) for name in USE},
        differences={s: _difference(manifest, runs, arm, base, s) for s in splits}
        if arm != base
        else {},
    )


def _difference(manifest, runs, arm: str, base: str, split: str) -> Difference:
    sign = 1 if manifest["direction"] == "higher" else -1
    ours, theirs = (scores(manifest, runs, name, split) for name in (arm, base))
    d = sign * (ours - theirs)
    open_items = {
        item for run in runs if run["arm"] in (arm, base) for item in run[split]["unfinished"]
    }
    whole = [at for at, i in enumerate(manifest["splits"][split]["ids"]) if i not in open_items]
    return Difference(
        mean=float(d.mean()),
        by_seed=tuple(d.mean(1).tolist()),
        interval=paired.interval(d),
        p=paired.sign_flip(d),
        mcnemar=tuple(paired.mcnemar(b, o) for b, o in zip(theirs, ours, strict=True)),
        detectable=paired.detectable(d),
        identical=not d.any(),
        finished=float(d[:, whole].mean()) if whole else None,
    )


def _judged(manifest, runs, arms: dict[str, ArmReport], base: str) -> dict[str, ArmReport]:
    """The same arms with Holm's p over the candidates, verdicts and their reasons."""
    candidates = [name for name, arm in arms.items() if arm.role == "candidate"]
    last = [[*arms[name].differences.values()][-1].p for name in candidates]
    adjusted = dict(zip(candidates, paired.holm(last), strict=True))
    judged = {}
    for name, arm in arms.items():
        if name == base:
            judged[name] = arm
            continue
        word, reasons = _verdict(manifest, runs, arm, adjusted.get(name))
        judged[name] = replace(arm, p_holm=adjusted.get(name), verdict=word, reasons=reasons)
    return judged


def _verdict(manifest, runs, arm: ArmReport, p: float | None) -> tuple[str, tuple[str, ...]]:
    mine, found = [run for run in runs if run["arm"] == arm.arm], [*arm.differences.values()]
    if blind := [*_blind(manifest, mine, arm)]:
        return "uninformative", tuple(blind)
    if "test" not in arm.differences:
        return "test not opened", ("only validation has been scored",)
    side = found[0].side if found[0].side == found[1].side else 0
    if side and (p is None or p <= LEVEL):
        return _against_placebo(manifest, runs, arm, side)
    if found[1].detectable > manifest["margin"]:
        return "uninformative", (
            f"the smallest difference that would be seen, {found[1].detectable:.3g}, is above the "
            f"margin of {manifest['margin']:.3g}",
        )
    return "not distinguished", ("the interval holds 0, or the two splits disagree",)


def _blind(manifest, mine, arm: ArmReport):
    """Why these runs could not have shown a difference."""
    if all(d.identical for d in arm.differences.values()):
        yield "identical to the baseline on every item of every seed"
    if arm.role in ("candidate", "placebo") and not any(run["moved"] > 0 for run in mine):
        yield "the policy never moved from its start"
    bound = manifest["constraint"]
    if bound is not None and not any(run["bound"].get(bound, 0) > 0 for run in mine):
        yield f"the constraint {bound} never binds"


def _against_placebo(manifest, runs, arm: ArmReport, side: int) -> tuple[str, tuple[str, ...]]:
    """A gain has to be one over the placebo too."""
    placebos = [name for name, role in manifest["arms"].items() if role == "placebo"]
    for placebo in placebos if side > 0 and arm.role == "candidate" else ():
        if _difference(manifest, runs, arm.arm, placebo, "test").side <= 0:
            return "not distinguished", (f"not distinguished from the placebo {placebo}",)
    word = "better" if side > 0 else "worse"
    return word, ("the interval lies on one side of 0 on validation and on test",)


def _notes(manifest, arms: dict[str, ArmReport], base: str):
    """What a reader must know beside the numbers."""
    seeds = len(manifest["seeds"])
    if seeds < paired.SEEDS_TO_DRAW:
        yield f"With {seeds} seeds the intervals cover items only."
    for arm in arms.values():
        seen = arm.differences.get("validation")
        if arm.role == "candidate" and not seen.side and seen.detectable > manifest["margin"]:
            yield (
                f"Validation is too small to choose {arm.arm} or not: what it can see, "
                f"{seen.detectable:.3g}, is above the margin."
            )
        if arm.role not in ("baseline", "candidate"):
            continue
        for name in USE:
            mine, theirs = arm.used[name], arms[base].used[name]
            if max(mine, theirs) > UNEQUAL * min(mine, theirs):
                yield f"Equal caps, unequal use: {arm.arm} took {mine:g} {name}, {base} {theirs:g}."
    if missing := [role for role in SANITY if role not in manifest["arms"].values()]:
        yield f"Sanity arms that were not run: {', '.join(missing)}."
