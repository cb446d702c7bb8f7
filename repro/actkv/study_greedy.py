"""Calls that the model writes by itself: where does a smaller cache first say something else?

At every action of a recorded trace the full cache writes its own call greedily; then the recorded
call is read instead, so that the history stays the recorded one. An arm is held against that call
token by token. As long as both agree they have the same history, so the first token on which the
arm's greedy choice differs is where its own greedy call would part from the full cache's.

Policies do not see drafts. Protocol otherwise as in `repro.actkv.study_baselines`.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro.actkv import draft, study_baselines
from repro.actkv.policies.base import due
from repro.actkv.policies.watch import watching
from repro.actkv.study_baselines import Start, passes


@dataclass(frozen=True)
class Call:
    """A call as the full cache writes it.

    round: from 0. tokens: its ids. true: whether it says just what the recorded call says.
    """

    round: int
    tokens: np.ndarray
    true: bool


@torch.inference_mode()
def write(
    model: Any,
    begun: Start,
    ended: Callable[[list[int]], bool],
    same: Callable[[list[int], np.ndarray], bool],
    most: int,
    rounds: int | None = None,
) -> list[Call]:
    """Every call of the trace, written greedily with the full cache, at most `most` tokens each.

    rounds: only the first ones. ended: whether the tokens so far are a complete call. same:
    whether they say what the recorded ids say.
    """
    cache = study_baselines.branch(model, begun.cache, 1, begun.length + most)
    tail, calls = begun.tail, []
    for phase, first, stop, _ in passes(begun, rounds):
        ids = begun.trace.ids[first:stop]
        if phase == "action":
            said, last = [], tail
            with draft.draft(cache):
                while len(said) < most and not (said and ended(said)):
                    said.append(int(model.lm_head(last)[0, -1].argmax()))
                    last = study_baselines.read(model, cache, np.array(said[-1:]))
            at = int(begun.trace.rounds[first])
            calls.append(Call(at, np.array(said), same(said, ids)))
        tail = study_baselines.read(model, cache, ids)[:, -1:]
    return calls


@torch.inference_mode()
def follow(
    model: Any,
    begun: Start,
    calls: Sequence[Call],
    arms: Sequence[str],
    budget: int,
    rounds: int | None = None,
) -> dict[str, np.ndarray]:
    """Tokens [calls] of each call that an arm writes as the full cache does, before it parts.

    The whole length of the call where it never parts. Arms evict to `budget` as they read the
    recorded trace, side by side in one batch.
    """
    policies = deepcopy([begun.policies[arm] for arm in arms])
    longest = max(len(call.tokens) for call in calls)
    room = study_baselines.room(begun, policies, budget) + longest
    cache = study_baselines.branch(model, begun.cache, len(arms), room)
    tail, agreed, waiting = begun.tail.expand(len(arms), -1, -1), [], iter(calls)
    with watching(model, cache, policies) as watch:
        for watch.phase, first, stop, over in passes(begun, rounds):
            if watch.phase == "action":
                tokens = next(waiting).tokens
                watch.policies = _blind(policies)
                with draft.draft(cache):
                    before = [tail]
                    if len(tokens) > 1:
                        before.append(study_baselines.read(model, cache, tokens[:-1]))
                choices = model.lm_head(torch.cat(before, 1)).argmax(-1).cpu().numpy()
                agreed.append(_parts(choices, tokens))
                watch.policies = policies
            tail = study_baselines.read(model, cache, begun.trace.ids[first:stop])[:, -1:]
            held = cache.physical
            for request, policy in enumerate(policies):
                if due(policy, held[request], budget, begun.slack, over):
                    study_baselines.evict(cache, request, policy, budget)
    return dict(zip(arms, np.transpose(agreed), strict=True))


def _blind(policies: Sequence[Any]) -> list[None]:
    """Nobody watches a draft."""
    return [None] * len(policies)


def _parts(choices: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R]: how many of `tokens` [n] agree with `choices` [R, n] before the first that does not."""
    differs = choices != tokens
    return np.where(differs.any(1), differs.argmax(1), tokens.size)


@dataclass(frozen=True)
class Greedy:
    """calls: of each trace. agreed: arm -> for each trace its `follow`."""

    calls: Sequence[Sequence[Call]]
    agreed: dict[str, list[np.ndarray]]

    def whole(self, arm: str) -> np.ndarray:
        """Share of the calls that `arm` writes to the end as the full cache does, [traces]."""
        return np.array([np.mean(self._whole(arm, at)) for at in range(len(self.calls))])

    def steps(self, arm: str) -> np.ndarray:
        """Tokens written in step with the full cache before the first other one, [traces].

        All calls of a trace count on end; a trace without another token gives all its tokens.
        """
        found = []
        for at, calls in enumerate(self.calls):
            whole = self._whole(arm, at)
            stop = len(calls) if whole.all() else int((~whole).argmax())
            found.append(sum(len(c.tokens) for c in calls[:stop]))
            found[-1] += 0 if whole.all() else self.agreed[arm][at][stop]
        return np.array(found)

    def first_round(self, arm: str) -> list[int | None]:
        """Round of the first call that differs, from 0; None where none does."""
        rounds = []
        for at, calls in enumerate(self.calls):
            whole = self._whole(arm, at)
            rounds.append(None if whole.all() else calls[int((~whole).argmax())].round)
        return rounds

    def _whole(self, arm: str, at: int) -> np.ndarray:
        return self.agreed[arm][at] == [len(call.tokens) for call in self.calls[at]]
