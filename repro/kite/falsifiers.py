"""The questions that could refute the method at a scale, answered one by one (notes, 9.2).

Answers come from paired differences over test blocks. Their interval covers blocks of one run, not
seeds; the seeds stand side by side in the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from repro import accept, intervals
from repro.errors import BadParameter
from repro.kite import cost, flops
from repro.kite.study_matched import N, Result, source_config

BETTER, WORSE, EVEN = "better", "worse", "not distinguished"
FIRES, HOLDS, OPEN, UNASKED = "fires", "does not fire", "undecided", "not asked"


@dataclass(frozen=True)
class Pair:
    """`arm` less `other` in NLL: mean and 95 % interval over blocks (None below five)."""

    arm: str
    other: str
    mean: float
    interval: tuple[float, float] | None

    @property
    def word(self) -> str:
        """Lower loss is better; "not distinguished" where the interval holds 0 or is missing."""
        if self.interval is None or self.interval[0] <= 0 <= self.interval[1]:
            return EVEN
        return BETTER if self.mean < 0 else WORSE

    @property
    def words(self) -> str:
        """The word with what it is said of, to follow "is"."""
        return f"{self.word} {'from' if self.word == EVEN else 'than'} {self.other}"

    @property
    def span(self) -> str:
        """The interval as text."""
        low, high = self.interval or (float("nan"), float("nan"))
        return f"{low:+.3f} to {high:+.3f}" if self.interval else "no interval"

    def __str__(self) -> str:
        return f"{self.arm} − {self.other} = {self.mean:+.3f} ({self.span})"


@dataclass(frozen=True)
class Answer:
    question: str
    verdict: str
    because: str


def pair(results: Mapping[str, Result], arm: str, other: str, part: str = "test") -> Pair:
    """Paired difference over the blocks of `part`: "test" or "chosen", the select part.

    Raises BadParameter for an arm that did not run, or another part.
    """
    accept.one_of("part", part, ("test", "chosen"))
    for name in (arm, other):
        if name not in results:
            raise BadParameter(f"arm={name!r} did not run; accepted: {', '.join(results)}.")
    gaps = getattr(results[arm], part) - getattr(results[other], part)
    return Pair(arm, other, float(gaps.mean()), intervals.of_mean(gaps))


def growth_is_a_question(results: Mapping[str, Result]) -> str:
    """Whether the deep model from scratch beats the source at equal FLOPs: yes, no or undecided.

    Decided on the select part by a paired interval. Where it does not, the smallest model simply
    wins, and growing is no question at that budget.
    """
    return {BETTER: "yes", WORSE: "no", EVEN: OPEN}[
        pair(results, "dense", "source", part="chosen").word
    ]


def no_better(first: Pair) -> str:
    """Fires where `first.arm` is the worse one; undecided where the two cannot be told apart."""
    return {BETTER: HOLDS, WORSE: FIRES, EVEN: OPEN}[first.word]


def quality(grown: Pair, source: Pair) -> str:
    """Fires when both controls are at least as good as SST; pairs are SST less the control."""
    verdicts = {no_better(grown), no_better(source)}
    if HOLDS in verdicts:
        return HOLDS
    return FIRES if verdicts == {FIRES} else OPEN


def answers(results: Mapping[str, Result]) -> list[Answer]:
    """Three answers for one width, and the edges of the fourth question, on a cost advantage: this
    study claims none. The fifth needs a clock."""
    grown, source, scratch, shuffled = (
        pair(results, "SST", other)
        for other in ("grown dense", "source", "SST, from scratch", "SST, shuffled")
    )
    return [
        Answer(
            "grown dense and source both at least as good as SST: no quality case here",
            quality(grown, source),
            f"{grown}; {source}",
        ),
        Answer(
            "SST no better than SST from scratch: upcycling does nothing",
            no_better(scratch),
            str(scratch),
        ),
        Answer(
            "shuffled layers as good as aligned ones: alignment is irrelevant",
            no_better(shuffled),
            str(shuffled),
        ),
        _share(results["SST"].width),
    ]


def _share(width: int) -> Answer:
    """Against the source no decode share is cheap enough; against the deep model each one is."""
    config = source_config(width)
    below, above = N * flops.body(config, True), N * flops.body(config, False)
    against = {"the deep model": 2 * below, "the source": below}
    edges = {name: cost.break_even(active, below, above) for name, active in against.items()}
    said = "; ".join(f"against {name} β* = {edge:.2f}" for name, edge in edges.items())
    return Answer(
        "a cost advantage claimed above the break-even decode share",
        UNASKED,
        f"none is claimed here; it would end {said}",
    )
