"""What a comparison of policies at equal budgets says: paired by trace, against the peak, in words.

The numbers come from `repro.actkv.study_baselines.play`; claims are those of arXiv 2609.31395.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.actkv.study_arms import Outcome

GOAL, ROOM = 0.985, 0.26  # agreement to keep, at no more than this peak


@dataclass(frozen=True)
class Study:
    """found: budget in percent -> arm -> an `Outcome` for each of the traces `begun`.

    "fullkv" and "actkv" are there at every budget; other arms may be at some.
    """

    begun: Sequence[Any]  # `study_baselines.Start`
    found: dict[int, dict[str, list[Outcome]]]

    @property
    def prefix(self) -> float:
        """Share of the prefix in a full cache, mean over traces."""
        return float(np.mean([b.protected / b.length for b in self.begun]))

    def values(self, what: str, percent: int, arm: str) -> np.ndarray:
        """Mean of a field over the action tokens of each trace, [traces]."""
        return np.array([np.mean(getattr(o, what)) for o in self.found[percent][arm]])

    def peaks(self, percent: int, arm: str, whole: bool = False) -> np.ndarray:
        """Peak share of each trace; `whole` counts the prefix too, in bytes of whole blocks."""
        pairs = list(zip(self.begun, self.found[percent][arm], strict=True))
        if whole:
            return np.array([b.blocks(o.peak) / b.blocks(b.length) for b, o in pairs])
        return np.array([b.share(o.peak) for b, o in pairs])

    def at(self, arm: str) -> list[int]:
        """The budgets at which `arm` ran."""
        return [p for p, by_arm in self.found.items() if arm in by_arm]

    def point(self, percent: int, arm: str) -> tuple[float, float]:
        """(peak share, agreement), means over traces."""
        return self.peaks(percent, arm).mean(), self.values("agree", percent, arm).mean()

    def gain(self, what: str, percent: int, arm: str, over: str) -> np.ndarray:
        """By how much `arm` is better than `over`, [traces]; NLL and KL are better when lower."""
        sign = -1 if what in ("nll", "kl") else 1
        return sign * (self.values(what, percent, arm) - self.values(what, percent, over))

    def excess(self, percent: int, arm: str) -> list[np.ndarray]:
        """NLL above that of the full cache, of each action token of each trace, nats."""
        by_arm = self.found[percent]
        pairs = zip(by_arm[arm], by_arm["fullkv"], strict=True)
        return [one.nll - full.nll for one, full in pairs]

    def excess_by_call(self, percent: int, arm: str) -> tuple[float, float]:
        """Mean excess in calls right after a new request, and in those that continue one."""
        excess = np.concatenate(self.excess(percent, arm))
        later = np.concatenate([b.continues for b in self.begun])
        return tuple(float(excess[of].mean()) if of.any() else np.nan for of in (~later, later))

    def costly(self, percent: int, arm: str, number: int) -> list[tuple[str, str, int, float]]:
        """The tokens with the largest excess: (text before, token, round from 1, nats)."""
        rows = []
        for b, excess in zip(self.begun, self.excess(percent, arm), strict=True):
            for at, nats in zip(b.actions, excess, strict=True):
                start, end = b.trace.offsets[max(0, at - 10), 0], b.trace.offsets[at, 0]
                said = b.trace.text[start:end]
                rows.append((said, b.trace.token_text(at), int(b.trace.rounds[at]) + 1, nats))
        return sorted(rows, key=lambda row: -row[3])[:number]

    def adaptive_gains(self) -> list[float]:
        """Agreement of the adaptive budget less that of fixed ones at its peak, where they span it.

        One value a trace and budget; between two fixed budgets the line decides.
        """
        gains = []
        for at in range(len(self.begun)):
            curve = [
                (self.peaks(p, "actkv")[at], self.values("agree", p, "actkv")[at])
                for p in self.found
            ]
            for p in self.at("actkv-adaptive"):
                peak = self.peaks(p, "actkv-adaptive")[at]
                mine = self.values("agree", p, "actkv-adaptive")[at]
                gains.append(mine - at_peak(*np.transpose(curve), peak))
        return [float(gain) for gain in gains if np.isfinite(gain)]

    def at_room(self) -> float:
        """ActKV's agreement where its peak is `ROOM`; NaN where its budgets do not span that."""
        return at_peak(*np.transpose([self.point(p, "actkv") for p in self.found]), ROOM)


def at_peak(peaks: Any, values: Any, peak: float) -> float:
    """`values` [budgets], interpolated linearly to where the peaks reach `peak`; NaN outside."""
    order = np.argsort(peaks, kind="stable")
    peaks, values = np.asarray(peaks, float)[order], np.asarray(values, float)[order]
    return float(np.interp(peak, peaks, values, left=np.nan, right=np.nan))


def as_html(rows: Sequence[tuple[str, str, int, float]]) -> str:
    """A table of `Study.costly`; the text of a trace is data, so it is escaped."""
    lines = []
    for before, token, at, nats in rows:
        said, next_ = (html.escape(t, quote=False).replace("\n", "⏎") for t in (before, token))
        cells = (f"{said}<b>{next_}</b>", str(at), f"{nats:.1f}")
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = ("the call so far, and its true next token", "round", "nats above the full cache")
    top = "".join(f"<th>{name}</th>" for name in head)
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="eb-table"><table>{body}</table></div>'


def verdict(study: Study) -> Iterator[str]:
    """Sentences: is the goal met, by whom, and what most agreement costs at each budget."""
    points = {
        (arm, p): study.point(p, arm)
        for p, by_arm in study.found.items()
        for arm in by_arm
        if arm != "fullkv"
    }
    if len({agreed for _, agreed in points.values()}) == 1:
        yield "Uninformative: all arms agree equally often with the full cache."
        return
    yield (
        f"The prefix alone is {study.prefix:.0%} of the full cache, and no policy may evict it; "
        "the shares below are of unprotected entries."
    )
    within = {key: value for key, value in points.items() if value[0] <= ROOM}
    if not within:
        yield f"No arm peaks at {ROOM:.0%} or less: the open round sits on top of the budget."
    else:
        arm, p = max(within, key=lambda key: within[key][1])
        yield (
            f"Of all arms that peak at {ROOM:.0%} or less, *{arm}* agrees most: "
            f"{points[arm, p][1]:.1%} at a budget of {p} % and a peak of {points[arm, p][0]:.0%}."
        )
    ours = {p: value for (arm, p), value in within.items() if arm == "actkv"}
    if ours:
        p = max(ours, key=lambda key: ours[key][1])
        keeps = "keeps" if ours[p][1] >= GOAL else "does **not** keep"
        yield (
            f"ActKV {keeps} {GOAL:.1%} of the agreement within that peak: {ours[p][1]:.1%} at a "
            f"budget of {p} %."
        )
    if np.isfinite(there := study.at_room()):
        yield (f"On the line between its budgets it agrees on {there:.1%} at a peak of {ROOM:.0%}.")
    for p, by_arm in study.found.items():
        arms = [arm for arm in by_arm if arm != "fullkv"]
        lot = points.get(("random", p), (0, 0))[1]
        worse = [arm for arm in arms if points[arm, p][1] < lot]
        if worse:
            yield (
                f"At a budget of {p} % *random* agrees on {lot:.1%}, more than "
                f"{', '.join(f'*{arm}*' for arm in worse)}: ranking does not help there."
            )
        best = max(arms, key=lambda arm: (points[arm, p][1], arm == "actkv"))
        peak, agreed = points["actkv", p]
        most = "and no arm on more"
        if best != "actkv":
            most = f"*{best}* on {points[best, p][1]:.1%} at a peak of {points[best, p][0]:.0%}"
        yield (
            f"At a budget of {p} %, ActKV agrees on {agreed:.1%} of the action tokens at a peak of "
            f"{peak:.0%}, {most}."
        )


def reasons(study: Study) -> Iterator[str]:
    """Sentences: how much of ActKV's lead comes with the moment of eviction."""
    for p, by_arm in study.found.items():
        for arm in by_arm:
            plain, _, change = arm.partition("@")
            if change == "round" and plain in by_arm:
                when = study.gain("agree", p, arm, plain).mean()
                whom = study.gain("agree", p, "actkv", arm).mean()
                yield (
                    f"Budget {p} %: from *{plain}* to ActKV agreement changes by "
                    f"{when + whom:+.3f}. Of this, {when:+.3f} comes with the moment of eviction "
                    f"and {whom:+.3f} with the ranking."
                )
    if gains := study.adaptive_gains():
        runs = len(study.begun) * len(study.at("actkv-adaptive"))
        yield (
            "The adaptive budget against a fixed one at the same peak, on the line between the "
            f"fixed budgets: {np.mean(gains):+.3f} agreement, over the {len(gains)} of "
            f"{runs} runs whose peak lies between them."
        )


def exceeds(study: Study, percent: int, arm: str, budgets: Sequence[int]) -> bool:
    """Whether an arm of fixed `budgets` [traces] leaves more than it may, or peaks too high."""
    for begun, outcome, budget in zip(study.begun, study.found[percent][arm], budgets, strict=True):
        before, after = outcome.sizes.T
        room = begun.longest + (begun.slack if begun.policies[arm].trigger == "overflow" else 0)
        most = begun.protected + budget
        if (after[after < before] != most).any() or outcome.peak > most + room:
            return True
    return False
