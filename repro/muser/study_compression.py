"""Recall of a dormant interest at equal token budget: five ways to shorten a synthetic history."""

from dataclasses import dataclass

import numpy as np
import torch

from repro.errors import BadParameter
from repro.muser import compression, model, synthetic

ARMS = ("compressed", "compressed, weighed", "uniform pooling", "newest only", "full history")


@dataclass(frozen=True, eq=False)
class Found:
    """One arm: tokens a user, and each test user's recall of returning and of other items."""

    tokens: int
    dormant: np.ndarray
    active: np.ndarray


def spans(arm: str, length: int, recent: int, middle: int) -> compression.Plan:
    """The plan of an arm; all but the full history have as many tokens as ``compressed``."""
    if arm not in ARMS:
        raise BadParameter(f"arm={arm!r} is not known; accepted: {ARMS}.")
    shaped = compression.plan(length, recent, middle)
    if arm == "full history":
        return compression.plan(length, length, 0)
    if arm == "uniform pooling":
        cut = np.linspace(0, length, len(shaped) + 1).astype(int)
        return compression.Plan(cut[:-1], cut[1:], np.full(len(shaped), compression.MIDDLE))
    return shaped


def compare(
    world: synthetic.World,
    users: list[synthetic.User],
    recent: int,
    middle: int,
    k: int,
    seed: int,
    settings: model.Settings,
) -> dict[str, Found]:
    """Train each arm on the first half of `users`, with the same draws, and test on the others."""
    half = len(users) // 2
    future = np.stack([u.future for u in users])
    returns = np.stack([u.returns for u in users])
    found = {}
    for arm in ARMS:
        p = spans(arm, len(users[0].history), recent, middle)
        tokens = []
        for u in users:
            x = compression.gather(world.items, u.history)
            if arm == "newest only":
                tokens.append(x[-len(p) :])
            else:
                tokens.append(compression.pool(x, p))
        sizes = None
        if arm == "compressed, weighed":
            sizes = torch.from_numpy(p.stop - p.start).expand(len(users), -1)
        halves = (None, None) if sizes is None else (sizes[:half], sizes[half:])
        queries = model.train(tokens[:half], future[:half], world.items, seed, settings, halves[0])
        ranks = model.ranks(
            model.users(queries, tokens[half:], halves[1]), world.items, future[half:]
        )
        back = returns[half:]
        found[arm] = Found(len(p), model.recall(ranks, k, back), model.recall(ranks, k, ~back))
    return found


def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Differences a - b over the users for whom both are numbers."""
    return (a - b)[np.isfinite(a) & np.isfinite(b)]


def reuse(length: int, actions: int, recent: int, middle: int, align: str) -> float:
    """Share of the pooled blocks of `length` actions that are still there `actions` later."""
    before = compression.plan(length, recent, middle, align=align).pooled()
    if not before:
        raise BadParameter(f"length={length} has no pooled block; accepted: more than {recent}.")
    after = compression.plan(length + actions, recent, middle, align=align).pooled()
    return len(before & after) / len(before)
