"""Rollouts of ToolSearcher (arXiv 2609.30906): groups of sampled trajectories, tokens with origin.

Ids are kept as they were sampled and appended; nothing is decoded and encoded again, so that the
tokens trained on are those drawn. A text given for a turn (`scripted`) goes through the very same
environment: that is how worked cases and warm-start examples are made.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repro.errors import BadParameter
from repro.toolsearcher import tokens
from repro.toolsearcher.credit import Trajectory
from repro.toolsearcher.environment import Environment, Episode


@dataclass(frozen=True, eq=False)
class Rollout:
    """Trajectory `sample` of the group of `request` (an id). episode: what happened."""

    request: str
    sample: int
    episode: Episode

    @cached_property
    def row(self) -> tokens.Row:
        """All token ids [S], the turn of each and where it came from. Never cut."""
        return tokens.row(self.episode.pieces)

    @cached_property
    def old(self) -> np.ndarray:
        """float32 [S]: log-probability at which each sampled token was drawn, 0 elsewhere."""
        values = np.zeros(len(self.row.ids), dtype=np.float32)
        values[tokens.trainable(self.row.turn)] = self.episode.old
        return values

    @property
    def credit(self) -> Trajectory:
        """For `repro.toolsearcher.credit`: its turns are those of `row`, in order."""
        return self.episode.credit(self.request)


def rollout(
    model: Any,
    environment: Environment,
    requests: Sequence[Any],
    group: int = 5,
    seed: int = 0,
    temperature: float = 1.0,
    together: int = 16,
) -> list[Rollout]:
    """`group` trajectories of each request, request by request.

    model: causal, its tokenizer is the environment's. requests: with `id` and `text`; ids are
    unique. together: rows in one batch, at least one group. A trajectory depends on seed, id and
    sample number, not on its company. temperature 0: greedy, for tests with group 1.
    Raises BadParameter for repeated ids, sizes below 1, a negative temperature or seed.
    """
    for name, value in (("group", group), ("together", together)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadParameter(f"{name}={value!r} is refused; accepted: an integer >= 1.")
    if not 0 <= temperature < float("inf") or seed < 0:
        raise BadParameter(
            f"temperature={temperature!r}, seed={seed!r} is refused; accepted: both >= 0."
        )
    ids = [request.id for request in requests]
    if len(set(ids)) < len(ids):
        raise BadParameter("requests hold an id twice; accepted: each once, it names the group.")
    step, found = max(1, together // group), []
    for first in range(0, len(requests), step):
        part = requests[first : first + step]
        found += _groups(model, environment, part, group, seed, temperature)
    return found


def _groups(model, environment, requests, group, seed, temperature) -> list[Rollout]:
    from repro.toolsearcher.generation import Batch

    rows = [
        Rollout(request.id, sample, environment.start(request.text))
        for request in requests
        for sample in range(group)
    ]
    draws = [lots(seed, row.request, row.sample) for row in rows]
    batch = Batch(model, [row.episode.prompt for row in rows[::group]], group)
    live = list(range(len(rows)))
    while live:
        episodes = [rows[i].episode for i in live]
        limits = [environment.room(episode) for episode in episodes]
        turns = batch.generate(limits, environment.end, [draws[i] for i in live], temperature)
        before = [len(episode.pieces) for episode in episodes]
        environment.step(episodes, [t.ids for t in turns], [t.old for t in turns])
        stay = [at for at, episode in enumerate(episodes) if not episode.ended]
        if stay:
            batch.keep(stay)
            batch.append([_unread(episodes[at], before[at]) for at in stay])
        live = [live[at] for at in stay]
    return rows


def _unread(episode: Episode, before: int) -> list[int]:
    """The turn's last token, which was sampled and not read, and all that came after the turn."""
    pieces = episode.pieces[before:]
    return [*pieces[0].ids[-1:], *(i for piece in pieces[1:] for i in piece.ids)]


def lots(seed: int, request: str, sample: int) -> np.random.Generator:
    """The random numbers of one trajectory."""
    return np.random.default_rng([seed, zlib.crc32(request.encode()), sample])


def scripted(environment: Environment, request: Any, turns: Sequence[str]) -> Rollout:
    """The trajectory in which the policy says `turns`, up to where it ends; `old` is 0.

    A turn longer than there is room is cut, as a sampled one would be.
    """
    made = Rollout(request.id, 0, environment.start(request.text))
    for text in turns:
        if made.episode.ended:
            break
        ids = environment.tokenizer(text, add_special_tokens=False)["input_ids"]
        room = environment.room(made.episode)
        environment.step([made.episode], [[*ids, environment.end][:room]])
    return made
