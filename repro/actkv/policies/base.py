"""What all policies share: attention rows, choosing the best, and the equal-budget protocol.

One policy object serves one request, all layers. Entries are numbered by age, 0 the oldest (as in
`repro.actkv.cache`). The first `protected` are the prefix: kept always and outside the budget, for
every method alike; the budget includes a method's own sinks and window. Pages move whole slots, so
a layer has one set for all its KV heads: per-head scores are averaged over the KV heads, then
ranked; `head_sets` gives what each head alone would keep. Equal scores: the newer entry stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from repro.actkv.accept import count, natural

Keys = Callable[[int], torch.Tensor]  # layer -> rotated keys [H_k, S, d] by age
PHASES = ("prefix", "observation", "reasoning", "action")


@dataclass(kw_only=True)
class Policy:
    """layers: of the model; protected: entries of the prefix."""

    layers: int
    protected: int = 0
    trigger: ClassVar[str] = "overflow"  # when to `select`: see `due`

    def __post_init__(self):
        count("layers", self.layers), natural("protected", self.protected)

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        """A pass: rotated `queries` [H_q, n, d] of the n newest entries, `keys` [H_k, S, d]."""

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        """[H_k or 1, length]: higher stays; +inf stays surely; the prefix is not looked at."""
        raise NotImplementedError

    def carry(self, layer: int, kept: np.ndarray) -> None:
        """Move what is stored per entry along with the survivors `kept` [n]."""

    def allowance(self, length: int, budget: int) -> int:
        """The budget to use; only an adaptive policy has one of its own."""
        return count("budget", budget)

    def select(self, length: int, budget: int, keys: Keys) -> np.ndarray:
        """Entries to keep [layers, n], rising, n <= protected + budget; the state moves along."""
        sets = self._sets(length, budget, keys, lambda scores: scores.mean(0, keepdim=True))[:, 0]
        for layer, kept in enumerate(sets):
            self.carry(layer, kept)
        return sets

    def head_sets(self, length: int, budget: int, keys: Keys) -> np.ndarray:
        """[layers, H_k or 1, n]: each KV head's own choice; for comparison, nothing moves."""
        return self._sets(length, budget, keys, lambda scores: scores)

    def _sets(self, length: int, budget: int, keys: Keys, reduce: Callable) -> np.ndarray:
        if count("length", length) < self.protected:
            raise ValueError(
                f"length={length} is refused; accepted: >= protected={self.protected}."
            )
        budget = self.allowance(length, budget)
        if length - self.protected <= budget:
            return np.tile(np.arange(length), (self.layers, 1, 1))
        return np.stack(
            [
                keep(reduce(self.scores(layer, length, budget, keys)), self.protected, budget)
                for layer in range(self.layers)
            ]
        )


def due(policy: Policy, length: int, budget: int, slack: int, round_over: bool) -> bool:
    """Whether to `select` now: methods of trigger "round" at the end of every round; the others
    when more than budget + slack unprotected entries are cached (slack: the mean length of a round
    with the full cache; notes 5.1). `budget` is what `select` would be given.
    """
    if policy.trigger == "round":
        return round_over
    return policy.trigger == "overflow" and length - policy.protected > budget + slack


def keep(scores: torch.Tensor, protected: int, budget: int) -> np.ndarray:
    """The prefix and the `budget` best others, rising: [h, S] -> [h, protected + budget]."""
    if scores.isnan().any() or (scores == -torch.inf).any():
        raise ValueError("scores hold NaN or -infinity; accepted: finite, or +infinity to keep.")
    others = scores[:, protected:].flip(-1)  # newest first, and the sort is stable
    best = others.sort(dim=-1, descending=True, stable=True).indices[:, :budget]
    best = (scores.shape[1] - 1 - best).sort(-1).values.cpu().numpy()
    prefix = np.tile(np.arange(protected), (len(best), 1))
    return np.hstack([prefix, best])


def logits(queries: torch.Tensor, keys: torch.Tensor, causal: bool = True) -> torch.Tensor:
    """q k / sqrt(d) [H_k, G, n, S], float32. causal: the queries own the n newest entries."""
    (heads, n, width), (groups, length, _) = queries.shape, keys.shape
    if heads % groups or keys.shape[2] != width or (causal and n > length):
        raise ValueError(
            f"queries {tuple(queries.shape)} do not fit keys {tuple(keys.shape)}; accepted: "
            "[H_q, n, d] and [H_k, S, d], H_q a multiple of H_k, n <= S where causal."
        )
    queries = queries.float().reshape(groups, -1, width)  # head h reads KV head h // G
    found = (queries @ keys.float().transpose(1, 2)).view(groups, -1, n, length) / width**0.5
    if causal and n > 1:
        later = torch.ones(n, length, dtype=torch.bool, device=keys.device).triu(length - n + 1)
        found.masked_fill_(later, -torch.inf)
    return found


def attention(queries: torch.Tensor, keys: torch.Tensor, causal: bool = True) -> torch.Tensor:
    """Probabilities [H_k, G, n, S]. Raises ValueError for NaN in, so that none comes out."""
    found = logits(queries, keys, causal).softmax(-1)
    if found.isnan().any():
        raise ValueError("queries or keys hold NaN or infinity; accepted: finite.")
    return found


def observed(stored: torch.Tensor | None) -> torch.Tensor:
    if stored is None:
        raise ValueError("no pass has been observed; accepted: select after observe.")
    return stored


def newest(stored: torch.Tensor | None, queries: torch.Tensor, number: int) -> torch.Tensor:
    """The last `number` of `stored` and `queries` [H_q, n, d]; a copy."""
    joined = queries if stored is None else torch.cat([stored, queries], 1)
    return joined[:, -number:].clone()


def forced(scores: torch.Tensor, length: int) -> torch.Tensor:
    """`scores` [h, n] of the older entries, then +inf up to `length`: the window stays."""
    window = scores.new_full((len(scores), length - scores.shape[1]), torch.inf)
    return torch.cat([scores, window], 1)


def beyond(window: str, size: int, budget: int) -> None:
    """Refuse a budget that a method's own window or sinks fill."""
    if budget < size:
        raise ValueError(f"budget={budget} is below {window}={size}; accepted: >= {size}.")
