"""Policies in the loop over a recorded trace: what eviction does to the tokens of later actions.

The trace's own tokens are read (teacher forcing), and a policy evicts on the way, so that later
tokens feel what is gone. Equal-budget protocol: notes section 6 on arXiv 2609.31395. All arms
share one ragged batch and start from one reading of the prefix, which is the same for all.

Shapes: R arms, one request each; n action tokens; V words; P tokens of the prefix.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro.actkv import confidence
from repro.actkv.cache import PagedCache
from repro.actkv.policies import AdaptiveActKV
from repro.actkv.policies.base import Policy, due
from repro.actkv.policies.watch import watching
from repro.actkv.study_arms import Outcome
from repro.traces import LABELS, PREFIX, Trace

GENERATED = ("reasoning", "action")
USER = "<|im_start|>user"


@dataclass(frozen=True)
class Start:
    """A trace whose prefix has been read once, by the model and by every policy."""

    trace: Trace
    cache: PagedCache  # one request: the prefix
    tail: torch.Tensor  # hidden state of its last token [1, 1, width]
    policies: dict[str, Policy]

    @property
    def name(self) -> str:
        return "+".join(self.trace.tasks)

    @property
    def protected(self) -> int:
        return self.cache.physical[0]

    @property
    def length(self) -> int:
        """Tokens to the end of the last round; no action reads what follows."""
        return int(np.searchsorted(self.trace.rounds, self.trace.n_rounds))

    @property
    def slack(self) -> int:
        """Mean length of a round."""
        return round((self.length - self.protected) / self.trace.n_rounds)

    @property
    def longest(self) -> int:
        """Tokens of the longest round."""
        return int(np.bincount(self.trace.rounds[self.protected : self.length]).max())

    @property
    def actions(self) -> np.ndarray:
        """Places of the action tokens, [n]."""
        return np.flatnonzero(self.trace.labels[: self.length] == LABELS.index("action"))

    @property
    def continues(self) -> np.ndarray:
        """Whether each action token is of a call that follows no new request, bool [n]."""
        asked = {0}  # the prefix holds the first request
        for at, first, stop in self.trace.spans("observation"):
            start, end = self.trace.offsets[first, 0], self.trace.offsets[stop - 1, 1]
            asked |= {at} if USER in self.trace.text[start:end] else set()
        return ~np.isin(self.trace.rounds[self.actions], list(asked))

    def share(self, peak: int) -> float:
        """The unprotected entries of a peak over those of the full cache."""
        return (peak - self.protected) / (self.length - self.protected)

    def blocks(self, peak: int) -> int:
        """Bytes of the blocks that hold `peak` entries: keys and values of all layers."""
        return -(-peak // self.cache.pool.block) * self.cache.pool.block_bytes


def entries(trace: Trace, percent: int) -> int:
    """Entries that `percent` of the trace's unprotected tokens are, at least 1."""
    outside = np.searchsorted(trace.rounds, trace.n_rounds) - (trace.labels == PREFIX).sum()
    return max(1, int(outside) * percent // 100)


@torch.inference_mode()
def start(model: Any, trace: Trace, policies: dict[str, Policy]) -> Start:
    """Read the prefix of `trace` once; every policy watches."""
    cache, prefix = PagedCache(model), trace.ids[trace.labels == PREFIX]
    with watching(model, cache, [_All(list(policies.values()))]):
        hidden = read(model, cache, prefix)
    return Start(trace, cache, hidden[:, -1:].clone(), policies)


def passes(begun: Start, rounds: int | None = None) -> Iterator[tuple[str, int, int, bool]]:
    """(phase, first, stop, round over) of every region after the prefix, in order."""
    labels, at = begun.trace.labels[: begun.length], begun.trace.rounds[: begun.length]
    cuts = np.flatnonzero((np.diff(labels) != 0) | (np.diff(at) != 0)) + 1
    for first, stop in zip(cuts, [*cuts[1:], begun.length], strict=True):
        if rounds is None or at[first] < rounds:
            over = stop == begun.length or at[stop] != at[first]
            yield LABELS[labels[first]], int(first), int(stop), bool(over)


@torch.inference_mode()
def play(
    model: Any,
    begun: Start,
    arms: Sequence[str],
    budget: int,
    reference: torch.Tensor | None = None,
    adaptive: Mapping[str, Any] | None = None,
    rounds: int | None = None,
) -> tuple[dict[str, Outcome], torch.Tensor]:
    """Read the rest of the trace under `arms`, one request each, at one budget.

    reference [n, V]: log-probabilities of the full cache; None takes those of the first arm.
    adaptive: attributes of `AdaptiveActKV` that go with the budget. rounds: only the first ones.
    Also returns the log-probabilities [n, V] of the first arm.
    """
    policies = deepcopy([begun.policies[arm] for arm in arms])
    for policy in policies:
        if isinstance(policy, AdaptiveActKV):
            # It has watched nothing so far; its own way to monitor comes before the common one.
            monitor = (adaptive or {}).get("monitor", {}) | policy.monitor
            vars(policy).update((adaptive or {}) | {"monitor": monitor})
    cache = branch(model, begun.cache, len(arms), room(begun, policies, budget))
    tail, logps, judged, sizes = begun.tail.expand(len(arms), -1, -1), [], [], []
    with watching(model, cache, policies) as watch:
        for watch.phase, first, stop, over in passes(begun, rounds):
            ids = begun.trace.ids[first:stop]
            hidden = read(model, cache, ids)
            if watch.phase in GENERATED:
                before = torch.cat([tail, hidden[:, :-1]], 1)  # what predicts these tokens
                logp = model.lm_head(before).float().log_softmax(-1)
                for policy, row in zip(policies, logp, strict=True):
                    if isinstance(policy, AdaptiveActKV):
                        policy.note(confidence.token_signal(row))
            if watch.phase == "action":
                done = sum(map(len, logps))
                full = logp[0] if reference is None else reference[done : done + len(ids)]
                judged.append(_judge(logp, full, ids))
                logps.append(logp[0].clone())
            tail, held = hidden[:, -1:], cache.physical
            for request, policy in enumerate(policies):
                if due(policy, held[request], budget, begun.slack, over):
                    evict(cache, request, policy, budget)
            sizes.append((held, cache.physical))
    columns = np.concatenate(judged, axis=2).transpose(1, 0, 2)  # [R, 4, n]
    sizes, prefix = np.array(sizes), np.arange(begun.protected)
    return {
        arm: Outcome(
            *columns[r],
            sizes=sizes[..., r],
            raises=sum(made.raised for made in getattr(policies[r], "decisions", ())),
            prefix_kept=bool((cache.positions(r)[:, : prefix.size] == prefix).all()),
        )
        for r, arm in enumerate(arms)
    }, torch.cat(logps)


@torch.inference_mode()
def plain(model: Any, begun: Start) -> torch.Tensor:
    """Log-probabilities [n, V] at the action tokens, in one pass and without a cache."""
    ids = torch.as_tensor(begun.trace.ids[: begun.length], device=model.device)[None]
    spans = [np.arange(a, b) for phase, a, b, _ in passes(begun) if phase == "action"]
    before = torch.as_tensor(np.concatenate(spans) - 1, device=model.device)
    logits = model(ids, use_cache=False, logits_to_keep=before).logits[0]
    return logits.float().log_softmax(-1)


@dataclass
class _All:
    """Several policies that watch one request."""

    policies: list[Policy]

    def observe(self, *seen: Any) -> None:
        for policy in self.policies:
            policy.observe(*seen)


def read(model: Any, cache: PagedCache, ids: np.ndarray) -> torch.Tensor:
    """Hidden states [R, q, width] of the same tokens `ids` [q] in every request."""
    rows = torch.as_tensor(ids, device=model.device).expand(len(cache.requests), -1)
    return model.base_model(rows, cache=cache).last_hidden_state


def room(begun: Start, policies: Sequence[Policy], budget: int) -> int:
    """Entries that no arm exceeds: a pool of this size need not grow, which would copy it."""
    if any(policy.trigger == "never" for policy in policies):
        return begun.length
    most = max([budget, *(p.upper for p in policies if isinstance(p, AdaptiveActKV))])
    return min(begun.length, begun.protected + most + begun.slack + begun.longest)


def branch(model: Any, one: PagedCache, requests: int, room: int) -> PagedCache:
    """A cache of `requests`, `room` entries each, that all hold those of `one`'s only request."""
    many = PagedCache(model, requests, blocks=requests * -(-room // one.pool.block))
    many.prepare(np.ones((requests, one.physical[0]), dtype=bool))
    for layer in range(one.shape[0]):
        entries = (one.keys(layer), one.values(layer))
        many.append(*(e[None].expand(requests, -1, -1, -1) for e in entries), layer)
    return many


def evict(cache: PagedCache, request: int, policy: Policy, budget: int) -> None:
    held = cache.physical[request]
    kept = policy.select(held, budget, lambda layer: cache.keys(layer, request))
    if kept.shape[1] < held:
        cache.evict(kept, request)


def _judge(logp: torch.Tensor, full: torch.Tensor, ids: np.ndarray) -> np.ndarray:
    """[4, R, n]: NLL, agreement, correctness and KL of `logp` [R, n, V] against `full` [n, V]."""
    true = torch.as_tensor(ids, device=logp.device)
    best = logp.argmax(-1)
    nll = -logp.gather(-1, true.expand(len(logp), -1)[..., None])[..., 0]
    kl = torch.stack([(full.exp() * (full - row)).sum(-1) for row in logp])
    return torch.stack([nll, best == full.argmax(-1), best == true, kl]).cpu().numpy()
