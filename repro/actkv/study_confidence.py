"""What the confidence notebook measures: signals of real traces, and what monitors make of them.

A monitor is one signal in one orientation; at the end of each round it asks Algorithm 2 of ActKV
(arXiv 2609.31395) for the budget. Signals are in nats, one value a generated token, [n].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from repro.actkv import attention, confidence
from repro.actkv.confidence import BudgetDecision

T = "topk_mean_neglogp"
OTHERS = ("sampled_surprisal", "entropy", "max_logp")
SHARPER = 1.01  # the exponent that sharpens a distribution by 1 %


@dataclass(frozen=True)
class Read:
    """The signals of one trace's generated tokens, each [n], in the order of the trace."""

    name: str  # the tasks in the trace
    rounds: np.ndarray  # round of each token
    t: dict[int, np.ndarray]  # T by k
    rises: dict[int, np.ndarray]  # by k: whether T is larger once P is sharpened by 1 %
    others: dict[str, np.ndarray]  # the signals of `OTHERS`

    @property
    def ends(self) -> np.ndarray:
        """Generated tokens so far at the end of each round, [rounds]."""
        return np.searchsorted(self.rounds, np.unique(self.rounds), side="right")


def read(model: Any, trace: Any, ks: Sequence[int]) -> Read:
    """All signals of `trace`, teacher-forced: every token is predicted from the true ones before.

    The token that the trace holds stands for the sampled one. Logits are dropped as they come.
    """
    parts = list(_signals(model, trace, ks))
    at, values = (np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))
    n = len(ks)
    return Read(
        name="+".join(trace.tasks),
        rounds=trace.rounds[at],
        t=dict(zip(ks, values[:n], strict=True)),
        rises=dict(zip(ks, values[n : 2 * n] > values[:n], strict=True)),
        others=dict(zip(OTHERS, values[2 * n :], strict=True)),
    )


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's: 1 where both order the tokens alike, -1 where they order them oppositely."""
    return float(spearmanr(one, other).statistic)


def arms(each: Read, top_k: int) -> dict[str, np.ndarray]:
    """T of one trace as three monitors read it: higher is taken to mean more confident."""
    t = each.t[top_k]
    return {"as written": t, "negated": -t, "converted": confidence.to_confidence(t, T, top_k)}


def decisions(
    values: np.ndarray, ends: np.ndarray, budget: int = 512, **options: Any
) -> list[BudgetDecision]:
    """What `next_budget(**options)` says at each of `ends` about the `values` [n] so far."""
    made = []
    for stop in ends:
        made.append(confidence.next_budget(values[:stop], budget, **options))
        budget = made[-1].budget
    return made


def raises(made: Sequence[BudgetDecision]) -> int:
    """How often the budget was raised."""
    return sum(decision.raised for decision in made)


def falls(made: Sequence[BudgetDecision]) -> list[bool]:
    """In which rounds the fitted line falls, whether or not there is room for a raise."""
    return [decision.slope is not None and decision.slope < 0 for decision in made]


def differ(one: Sequence[BudgetDecision], other: Sequence[BudgetDecision]) -> bool:
    """Whether two monitors' budgets differ after any round of a trace."""
    return [decision.budget for decision in one] != [decision.budget for decision in other]


def shuffled_raises(
    values: np.ndarray, ends: np.ndarray, seed: int, times: int = 10, **options: Any
) -> float:
    """Mean raises with the tokens in random order: what a monitor does that has nothing to see."""
    rng = np.random.default_rng(seed)
    made = (decisions(rng.permutation(values), ends, **options) for _ in range(times))
    return float(np.mean([raises(each) for each in made]))


def one_pass_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The least-squares slope from running sums, as it is often coded: exact only on paper."""
    n, (sx, sy, sxy, sxx) = len(x), (np.cumsum(v)[-1] for v in (x, y, x * y, x * x))
    return float((n * sxy - sx * sy) / (n * sxx - sx * sx))


def lowest(values: np.ndarray, window: int, stride: int) -> np.ndarray:
    """Whether each token of `values` [n] is the (first) minimum of some window: bool [n]."""
    found = np.zeros(len(values), dtype=bool)
    for start in range(0, len(values) - window + 1, stride):
        found[start + int(np.argmin(values[start : start + window]))] = True
    return found


def verdict(top_k: int, share: float, guaranteed: float, correlation: float, tokens: int) -> str:
    """Which sign is right for T at this k: the theory first, then what `tokens` tokens say.

    share: of tokens with T > H. guaranteed: of tokens with H <= ln k. correlation: T, ln p_max.
    """
    seen = (
        f"Of {tokens:,} real tokens, {share:.1%} have $T$ above $H$; "
        f"the rank correlation with $\\ln p_{{\\max}}$ is {correlation:+.3f}."
    )
    if top_k == 1:
        head = "a surprisal: negate it.** $T = -\\ln p_{\\max}$ is never above $H$"
    elif share > 0.5 and correlation > 0:
        head = (
            f"a confidence: do not negate it.** $T$ is above $H$ wherever $H$ is below $\\ln "
            f"{top_k}$, which alone covers {guaranteed:.1%} of the tokens"
        )
    else:
        head = (
            f"not a confidence on these tokens, and no sign is right for all.** The bound $\\ln "
            f"{top_k}$ covers only {guaranteed:.1%} of them"
        )
    return f"**$k = {top_k}$: {head}. {seen}"


def _signals(model: Any, trace: Any, ks: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(positions [m], signals [2 len(ks) + 3, m]) for each chunk of generated tokens."""
    for at, logits in attention.generated_logits(model, trace):
        columns = [confidence.token_signal(logits, T, k) for k in ks]
        columns += [confidence.token_signal(SHARPER * logits, T, k) for k in ks]
        columns += [confidence.token_signal(logits, kind, tokens=trace.ids[at]) for kind in OTHERS]
        yield at, np.stack(columns)
