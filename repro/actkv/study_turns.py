"""An agent's own turns: the model chooses a named move by likelihood, a real environment answers.

A round, in the order of arXiv 2609.31395: the *observation* is read, the *action* is opened, the
model's probabilities of the move names decide, the chosen name is written and the action closed.
Every name is one token, so likelihoods need no correction for length. Policies evict on the way,
with the rules of `repro.actkv.study_baselines`.

The choice is the largest of log p / temperature + noise, with the same Gumbel noise for all arms:
a draw from the tempered probabilities, in which arms differ only if their probabilities do.
Shapes: R arms side by side, T rounds, M moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro.actkv import study_baselines
from repro.actkv.cache import PagedCache
from repro.actkv.policies.base import Policy, due
from repro.actkv.policies.watch import watching
from repro.minihack import Room, View

SYSTEM = (
    "You are an agent in a room of NetHack. Walk to the stairs. Each turn, read what you see, then "
    'call one function, as <tool_call>{{"name": …}}</tool_call>. The functions are: {names}.'
)
OPENED, CLOSED = '<tool_call>{"name": "', '"}</tool_call>'


@dataclass(frozen=True)
class Episode:
    """One arm's episode.

    choices [T]: index of each move. logp [T, M]: log-probabilities among the moves, before
    temperature. toward [T]: 1 where the move brings the agent nearer to the stairs, else 0; NaN
    where they are not in view. solved: levels finished. peak, length: entries cached at most, and
    tokens seen; protected: those of the prefix.
    """

    choices: np.ndarray
    logp: np.ndarray
    toward: np.ndarray
    solved: int
    peak: int
    length: int
    protected: int

    @property
    def likeliest(self) -> np.ndarray:
        """The most likely move of each round, without temperature and noise, [T]."""
        return self.logp.argmax(1)

    @property
    def share(self) -> float:
        """Unprotected entries at the peak over unprotected tokens seen."""
        return (self.peak - self.protected) / (self.length - self.protected)

    def same(self, other: "Episode") -> np.ndarray:
        """Whether both choose alike, bool [T]."""
        return self.choices == other.choices

    def divergence(self, other: "Episode") -> float:
        """KL of the other's probabilities among the moves to these, nats, mean over rounds."""
        return float((np.exp(other.logp) * (other.logp - self.logp)).sum(1).mean())

    def together(self, other: "Episode") -> int:
        """Rounds before the first in which they choose otherwise; T if there is none."""
        same = self.same(other)
        return len(same) if same.all() else int((~same).argmax())


@torch.inference_mode()
def play(
    model: Any,
    tokenizer: Any,
    policies: Sequence[Policy],
    rooms: Sequence[Room],
    level: int,
    noise: np.ndarray,
    budget: int,
    slack: int,
    temperature: float,
    path: Sequence[int] | None = None,
) -> list[Episode]:
    """Play len(noise) rounds with every policy side by side, each in its own room.

    level: seed of the first level; the next ones follow. noise: [T, M]. path: moves that are made
    whatever an arm would choose; then all arms see the same. slack: mean length of a round.
    """
    names, codes = rooms[0].actions, move_ids(tokenizer, rooms[0].actions)
    cache = PagedCache(model, len(policies))
    prefix = f"<|im_start|>system\n{SYSTEM.format(names=', '.join(names))}<|im_end|>\n"
    levels = [level] * len(policies)
    views = [room.reset(level) for room in rooms]
    chosen, probabilities, nearer, peaks, solved = [], [], [], [], np.zeros(len(policies), int)
    with watching(model, cache, policies) as watch:
        read(model, cache, [_ids(tokenizer, prefix)] * len(policies))
        protected = cache.physical[0]
        for at, lot in enumerate(noise):
            watch.phase = "observation"
            read(model, cache, [_ids(tokenizer, asked(view, at)) for view in views])
            peaks.append(cache.physical)  # before an overflow can evict
            _evict_due(cache, policies, budget, slack, round_over=False)
            watch.phase = "action"
            last = read(model, cache, [_ids(tokenizer, OPENED)] * len(policies))
            logp = model.lm_head(last)[:, codes].float().log_softmax(-1).cpu().numpy()
            mine = choose(logp, lot, temperature)
            made = np.full(len(mine), path[at]) if path is not None else mine
            read(model, cache, [_ids(tokenizer, names[move] + CLOSED) for move in made])
            peaks.append(cache.physical)
            _evict_due(cache, policies, budget, slack, round_over=True)
            nearer.append([_nearer(v, names[m]) for v, m in zip(views, mine, strict=True)])
            chosen.append(mine)
            probabilities.append(logp)
            for arm, (room, move) in enumerate(zip(rooms, made, strict=True)):
                views[arm], reward, over = room.step(names[move])
                solved[arm] += reward > 0
                if over:
                    levels[arm] += 1
                    views[arm] = room.reset(levels[arm])
    counted = zip(
        np.transpose(chosen), np.stack(probabilities, 1), np.transpose(nearer), solved,
        np.max(peaks, axis=0), (one.logical for one in cache.requests), strict=True,
    )  # fmt: skip
    return [
        Episode(moves, logp, toward, int(done), int(peak), length, protected)
        for moves, logp, toward, done, peak, length in counted
    ]


def read(model: Any, cache: PagedCache, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Read one row of tokens a request, of any lengths; the last hidden states [R, width]."""
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long, device=model.device)
    valid = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.as_tensor(tokens)
        valid[row, : len(tokens)] = 1
    hidden = model.base_model(ids, attention_mask=valid, cache=cache).last_hidden_state
    return _last(hidden, valid.sum(1))


def choose(logp: np.ndarray, lot: np.ndarray, temperature: float) -> np.ndarray:
    """Moves [R] for log-probabilities [R, M] and one lot [M] for all."""
    return (logp / temperature + lot).argmax(-1)


def move_ids(tokenizer: Any, names: Sequence[str]) -> list[int]:
    """The token of each name. Raises ValueError for a name that is not one token."""
    found = [_ids(tokenizer, name) for name in names]
    if long := [name for name, ids in zip(names, found, strict=True) if len(ids) != 1]:
        raise ValueError(f"moves {long} are several tokens; accepted: names of one token.")
    return [ids[0] for ids in found]


def asked(view: View, at: int) -> str:
    """The text of round `at` up to where the action opens."""
    ended = "<|im_end|>\n" if at else ""
    return f"{ended}<|im_start|>user\n{view.text()}<|im_end|>\n<|im_start|>assistant\n"


def _last(hidden: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """[R, width]: of each row the last of its own tokens."""
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]


def _ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _nearer(view: View, name: str) -> float:
    return float(name in view.toward()) if view.stairs else np.nan


def _evict_due(
    cache: PagedCache, policies: Sequence[Policy], budget: int, slack: int, round_over: bool
) -> None:
    for request, policy in enumerate(policies):
        if due(policy, cache.physical[request], budget, slack, round_over):
            study_baselines.evict(cache, request, policy, budget)
