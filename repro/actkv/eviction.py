"""Algorithm 1 of ActKV (arXiv 2609.31395): keep the cache entries that actions have read lately.

One layer, one request. An entry's score follows the recurrence

    KS_t(i) = decay * KS_{t-1}(i) + a_t(i) * [i in H_t],    KS = 0 for a new entry,

with a_t the attention of round t's action tokens (`action_attention`) and H_t its hit set
(`hit_set`). `ActionLRFU` runs the rounds. Slots 0..protected-1 hold the system prompt and the
task: never evicted [P2]; by default outside the mass and outside the budget [U]. Marks such as
[P2] and [U] are the notes': [P2] two readers of the paper agree, [U] no source says, so the
choice is an argument.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from repro.actkv.accept import count, natural, one_of, share

_ROUNDING = 1e-6  # of the total: attention is float32, and 0.7 + 0.2 must reach 0.9


def action_attention(attn: Any, group_reduce: str = "max", head_reduce: str = "mean") -> np.ndarray:
    """a [S] from probabilities `attn` [H_k, G, A, S]: KV heads, queries a group, action tokens.

    a(i) = mean_A  head_reduce_{H_k}  group_reduce_G  attn(h, g, A, i). The max over the group, on
    probabilities, and the mean over action tokens are Algorithm 3's [P2]; the mean over KV heads
    is [U]. Once G > 1, a need not sum to 1.
    """
    one_of("group_reduce", group_reduce, ("max", "mean"))
    one_of("head_reduce", head_reduce, ("mean", "max"))
    attn = _probabilities(attn, "attn")
    if attn.ndim != 4 or 0 in attn.shape:
        raise ValueError(f"attn has shape {attn.shape}; accepted: [H_k, G, A, S], none of them 0.")
    grouped = attn.max(1) if group_reduce == "max" else attn.mean(1)
    per_token = grouped.mean(0) if head_reduce == "mean" else grouped.max(0)
    return per_token.mean(0, dtype=np.float64)


def hit_set(
    attention: Any,
    mass: float = 0.9,
    protected: int = 0,
    prefix_in_mass: bool = False,
    ties: str = "newer",
) -> np.ndarray:
    """Slots of the smallest set that holds `mass` of `attention` [S], sorted (top-p, p = 0.9 [P2]).

    Entries are taken in decreasing order; the one that crosses the threshold is included; zeros
    never hit; equal entries: the `ties` ("newer" or "older") slot first [U]. The first `protected`
    slots are left out of the mass and of the order, unless `prefix_in_mass` [U]: then they take
    their share of the nucleus, which leaves less of it to the rest. They are never in the result.
    """
    values = _row(attention)
    share("mass", mass, zero=False)
    one_of("ties", ties, ("newer", "older"))
    natural("protected", protected)
    first = 0 if prefix_in_mass else protected
    order = first + _ranked(values[first:], ties)
    reached = np.cumsum(values[order])
    if not reached.size or reached[-1] == 0:
        return np.zeros(0, dtype=int)
    needed = mass * reached[-1] - _ROUNDING * reached[-1]
    nucleus = order[: np.searchsorted(reached, needed) + 1]
    return np.sort(nucleus[(nucleus >= protected) & (values[nucleus] > 0)])


def updated_score(
    score: np.ndarray, attention: np.ndarray, hits: np.ndarray, decay: float
) -> np.ndarray:
    """The recurrence for one round: `score`, `attention` [S], `hits` slots -> score [S]."""
    new = decay * score
    new[hits] += attention[hits]
    return new


class ActionLRFU:
    """Scores of one layer through the rounds: `observe` while the action runs, `step` at its end.

    decay: 0 remembers only the last round, 1 never forgets; the paper has 0.5 [P2]. `mass`,
    `protected`, `ties`, `prefix_in_mass` as in `hit_set`; `ties` also fills the budget among equal
    scores [U]: entries that never hit all score exactly 0, so this decides most early evictions.
    prefix_in_budget [U]: whether the budget counts the protected prefix.
    no_action [U]: a round without action is left alone ("skip": no decay, no eviction) or treated
    as one that hits nothing ("decay").

    Attributes: `score` [cached slots], `last_hits` (slots before the last eviction), `share_zero`
    (share of the kept unprotected entries whose score is 0).
    """

    def __init__(
        self,
        decay: float = 0.5,
        mass: float = 0.9,
        protected: int = 0,
        ties: str = "newer",
        prefix_in_mass: bool = False,
        prefix_in_budget: bool = False,
        no_action: str = "skip",
        group_reduce: str = "max",
        head_reduce: str = "mean",
    ):
        self.decay, self.mass = share("decay", decay), share("mass", mass, zero=False)
        self.protected = natural("protected", protected)
        self.ties = one_of("ties", ties, ("newer", "older"))
        self.no_action = one_of("no_action", no_action, ("skip", "decay"))
        self.prefix_in_mass, self.prefix_in_budget = prefix_in_mass, prefix_in_budget
        self._reduce = {
            "group_reduce": one_of("group_reduce", group_reduce, ("max", "mean")),
            "head_reduce": one_of("head_reduce", head_reduce, ("mean", "max")),
        }
        self.score = np.zeros(0)
        self.last_hits = np.zeros(0, dtype=int)
        self.share_zero = 0.0
        self._forget_action()

    def observe(self, attn: Any, tokens: int = 1) -> None:
        """Fold in action queries of the open round: `attn` [H_k, G, A, S], or reduced [S].

        `tokens` says how many action tokens a reduced row is the mean of. The mean is incremental
        (no query is stored); entries appended later start from 0, a mean with zeros [P2].
        """
        if np.ndim(attn) == 4:
            tokens = np.shape(attn)[2]
            attn = action_attention(attn, **self._reduce)
        row, tokens = _row(attn), count("tokens", tokens)
        known = max(self.score.size, self._mean.size)
        if row.size < known:
            raise ValueError(f"attn covers {row.size} slots; accepted: at least the {known} known.")
        self._seen += tokens
        self._mean = _padded(self._mean, row.size)
        self._mean += (row - self._mean) * (tokens / self._seen)

    def step(self, length: int, budget: int) -> np.ndarray:
        """Close the round at `length` cached slots: update, evict down to `budget`.

        Returns the kept slots, sorted, protected prefix included; the score moves with them. The
        order is the paper's [P2]: new entries score 0, hits, recurrence, then compression, only
        if more than `budget` unprotected entries are cached.
        """
        known = max(self.score.size, self._mean.size, self.protected)
        if count("length", length) < known:
            raise ValueError(
                f"length={length} is refused; accepted: at least the {known} slots known."
            )
        allowance = count("budget", budget) - (self.protected if self.prefix_in_budget else 0)
        if allowance < 0:
            raise ValueError(
                f"budget={budget} is refused; accepted with prefix_in_budget: >= {self.protected}."
            )
        score, attention = _padded(self.score, length), _padded(self._mean, length)
        idle, kept = self._seen == 0, np.arange(length)
        self.last_hits = hit_set(
            attention, self.mass, self.protected, self.prefix_in_mass, self.ties
        )
        if not (idle and self.no_action == "skip"):
            score = updated_score(score, attention, self.last_hits, self.decay)
            kept = _keep(score, self.protected, allowance, self.ties)
        self.score = score[kept]
        tail = self.score[self.protected :]
        self.share_zero = float((tail == 0).mean()) if tail.size else 0.0
        self._forget_action()
        return kept

    def _forget_action(self) -> None:
        self._mean, self._seen = np.zeros(0), 0


def replay(
    policy: ActionLRFU,
    attention: Sequence[np.ndarray | None],
    lengths: Sequence[int],
    budgets: Sequence[int],
) -> Iterator[np.ndarray]:
    """Run `policy` over recorded rounds; yield the trace positions that are cached after each.

    attention: a row over all positions [S_t] per round, or None without an action; lengths: the
    trace length at the end of each round. The rows come from the full cache, so this shows what
    Algorithm 1 selects; it is not a run in which later tokens feel the loss of evicted entries.
    """
    cached, seen = np.zeros(0, dtype=int), 0
    for row, length, budget in zip(attention, lengths, budgets, strict=True):
        cached, seen = np.concatenate([cached, np.arange(seen, length)]), length
        if row is not None:
            policy.observe(np.asarray(row)[cached[cached < np.size(row)]])
        cached = cached[policy.step(cached.size, budget)]
        yield cached


def _keep(score: np.ndarray, protected: int, allowance: int, ties: str) -> np.ndarray:
    """The prefix and the `allowance` best of the rest, in slot order."""
    best = protected + _ranked(score[protected:], ties)[:allowance]
    return np.concatenate([np.arange(protected), np.sort(best)])


def _ranked(values: np.ndarray, ties: str) -> np.ndarray:
    """Indices in decreasing value; among equals the newer (higher) or the older index first."""
    index = np.arange(values.size)
    return np.lexsort((-index if ties == "newer" else index, -values))


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.zeros(length - values.size)])


def _row(attention: Any) -> np.ndarray:
    values = _probabilities(attention, "attention").astype(np.float64)
    if values.ndim != 1:
        raise ValueError(f"attention has shape {values.shape}; accepted: [S], or [H_k, G, A, S].")
    return values


def _probabilities(values: Any, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"{name} holds NaN, infinite or negative entries; accepted: >= 0, finite.")
    return values
