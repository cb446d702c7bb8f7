"""Staleness against recall on synthetic users whose topics move on; what a refresh rule costs."""

import tempfile
import uuid
from pathlib import Path

import numpy as np
import torch

from repro.muser import cache, compression, interests, model, synthetic

ARMS = ("always fresh", "cached", "cached and short, fused", "short only")
RECENT = 32


def moving(
    world: synthetic.World, rng: np.random.Generator, length: int, every: int, future: int = 10
) -> synthetic.User:
    """A user of two topics, one of which is exchanged for a new one after `every` actions."""
    follow = list(rng.choice(len(world.topics), 2, replace=False))
    per_topic = len(world.topic) // len(world.topics)
    active = np.empty(length + future, int)
    for t in range(length + future):
        if t and t < length and t % every == 0:
            follow = [follow[1], rng.choice(np.setdiff1d(range(len(world.topics)), follow))]
        active[t] = follow[rng.random() < 0.5]
    items = active * per_topic + rng.integers(per_topic, size=len(active))
    times = np.cumsum(rng.exponential(600.0, length))
    old, new = np.split(items, [length])
    return synthetic.User(old, times, np.array(follow), -1, new, np.zeros(future, bool))


def tokens(world: synthetic.World, history: np.ndarray, window: int = 512) -> torch.Tensor:
    """Compressed tokens of the last `window` actions, the newest of them raw."""
    history = history[-window:]
    x = compression.gather(world.items, history)
    return compression.pool(x, compression.plan(len(x), RECENT, 256))


def curve(
    world: synthetic.World,
    users: list[synthetic.User],
    queries: torch.Tensor,
    stale: list[int],
    k: int,
    pull: float = 0.5,
    bias: float = -2.0,
) -> dict[str, np.ndarray]:
    """Recall [len(stale), users] of each arm when the cache was written n actions ago, n in stale.

    pull, bias: the fusion's weight on log(1 + n) and its offset, set by hand.
    """
    future = np.stack([u.future for u in users])
    w = torch.zeros(2 * queries.shape[1] + 2)
    w[-1] = pull
    fresh = model.users(queries, [tokens(world, u.history) for u in users])
    short = model.users(queries, [tokens(world, u.history[-RECENT:]) for u in users])

    def found(u):
        return model.recall(model.ranks(u, world.items, future), k)

    out = {arm: [] for arm in ARMS}
    for n in stale:
        ends = [len(u.history) - n for u in users]
        old = model.users(
            queries, [tokens(world, u.history[:e]) for u, e in zip(users, ends, strict=True)]
        )
        fused = torch.stack(
            [
                interests.fuse(a, b, u.times[-1] - u.times[e - 1], n, w, bias)
                for a, b, u, e in zip(old, short, users, ends, strict=True)
            ]
        )
        for arm, u in zip(ARMS, (fresh, old, fused, short), strict=True):
            out[arm].append(found(u))
    return {arm: np.stack(rows) for arm, rows in out.items()}


def served(
    users: list[synthetic.User], limits: cache.Limits, start: int, requests: int, port: int = 0
) -> dict[str, float]:
    """A request after every action from `start` on, through a real file, or Redis here at `port`.

    Shares: ``hit`` of requests that found an entry not due; ``saved``, 1 less the share that had
    to compute. new: mean actions that the served entry did not know. A due entry is computed
    before the next request.
    """
    hits, computed, unknown = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        place = f"redis://localhost:{port}/0" if port else Path(folder) / "users.sqlite"
        held = cache.connect(place)
        run = uuid.uuid4().hex  # a server may still hold users of a run before
        for number, u in enumerate(users):
            name = f"{run}-{number}"
            for n in range(start, start + requests):
                at, past = float(u.times[n - 1]), u.times[:n]
                got = held.read(name, "r1", at, past, limits)
                hits += got.state == "fresh"
                unknown.append(got.new if got.entry else 0)
                if got.state != "fresh":
                    made = cache.refresh(
                        held, name, "r1", at, past, lambda count: np.full((1, 1), float(count))
                    )
                    computed += made
    total = len(users) * requests
    return {"hit": hits / total, "saved": 1 - computed / total, "new": float(np.mean(unknown))}
