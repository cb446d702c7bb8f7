"""What the number of queries, the penalty and the temperature change on synthetic users."""

from dataclasses import dataclass, replace

import numpy as np

from repro.muser import compression, interests, model, synthetic


@dataclass(frozen=True, eq=False)
class Found:
    """One arm: each test user's recall; mean |cos| of two interests; share of dead queries.

    gap: largest distance of the soft score from the largest cosine. soft: recall by soft score.
    """

    recall: np.ndarray
    soft: np.ndarray
    alike: float
    dead: float
    gap: float


def compare(
    world: synthetic.World,
    users: list[synthetic.User],
    arms: dict[str, dict],
    k: int,
    seed: int,
    settings: model.Settings,
    plan: compression.Plan,
) -> dict[str, Found]:
    """Train each arm (changed settings) on the first half of `users`; test on the others."""
    half = len(users) // 2
    future = np.stack([u.future for u in users])
    tokens = [compression.pool(compression.gather(world.items, u.history), plan) for u in users]
    found = {}
    for name, changed in arms.items():
        queries = model.train(
            tokens[:half], future[:half], world.items, seed, replace(settings, **changed)
        )
        u = model.users(queries, tokens[half:])
        cos = interests.cosines(u, world.items.float())
        gap = interests.score(cos, 0.0) - interests.score(cos, settings.tau)
        hard, soft = (model.ranks(u, world.items, future[half:], t) for t in (0.0, settings.tau))
        found[name] = Found(
            model.recall(hard, k), model.recall(soft, k),
            model.collapsed(u), model.dead(u, world.items), float(gap.max()),
        )  # fmt: skip
    return found
