"""A synthetic world with a known answer: topics, items near them, users who switch slowly.

Section 8 of the project's notes: each user follows a few topics with a Markov switch; one more
topic is active only in the oldest actions and comes back at test time. Everything drawn here is
synthetic and says nothing about people.
"""

from dataclasses import dataclass

import numpy as np
import torch

from repro.errors import BadParameter


@dataclass(frozen=True, eq=False)
class World:
    """topics: [T, d] unit vectors. items: [n, d] unit vectors. topic: [n] int, of each item."""

    topics: np.ndarray
    items: torch.Tensor
    topic: np.ndarray


@dataclass(frozen=True, eq=False)
class User:
    """history: [L] item numbers, old to new. times: [L] seconds. follow: topics that stay active.

    future: [F] the next actions, in order. returns: [F] bool, of the dormant topic.
    """

    history: np.ndarray
    times: np.ndarray
    follow: np.ndarray
    dormant: int
    future: np.ndarray
    returns: np.ndarray


def world(
    rng: np.random.Generator, topics: int = 12, per_topic: int = 40, d: int = 16, noise: float = 0.5
) -> World:
    """Items at normalised topic + noise * unit-scale Gaussian / sqrt(d)."""
    if topics < 2 or per_topic < 1 or d < 2 or not noise >= 0:
        raise BadParameter(
            f"topics={topics}, per_topic={per_topic}, d={d}, noise={noise}; accepted: at least 2, "
            "1, 2 and 0."
        )
    centre = rng.normal(size=(topics, d))
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    topic = np.repeat(np.arange(topics), per_topic)
    items = centre[topic] + noise * rng.normal(size=(len(topic), d)) / d**0.5
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    return World(centre, torch.from_numpy(items), topic)


def user(
    world: World,
    rng: np.random.Generator,
    length: int = 2000,
    follow: int = 2,
    early: float = 0.5,
    stay: float = 0.98,
    future: int = 10,
) -> User:
    """One user: the dormant topic takes turns in the first `early` part of the history only.

    stay: chance that the next action keeps the topic. Each future action is of the dormant topic
    with even odds, and otherwise of one of the followed topics.
    """
    if length < 1 or future < 1 or not 0 <= early <= 1 or not 0 <= stay < 1:
        raise BadParameter(
            f"length={length}, future={future}, early={early}, stay={stay}; accepted: 1 or more, "
            "1 or more, 0 to 1, and 0 to below 1."
        )
    if not 1 <= follow < len(world.topics):
        raise BadParameter(f"follow={follow}; accepted: 1 to {len(world.topics) - 1}.")
    *held, dormant = rng.choice(len(world.topics), follow + 1, replace=False)
    first = int(early * length)
    active = np.concatenate(
        [_turns(rng, [*held, dormant], first, stay), _turns(rng, held, length - first, stay)]
    )
    returns = rng.random(future) < 0.5
    ahead = np.where(returns, dormant, rng.choice(held, future))
    per_topic = len(world.topic) // len(world.topics)
    topics = np.concatenate([active, ahead])
    drawn = topics * per_topic + rng.integers(per_topic, size=len(topics))
    times = np.cumsum(rng.exponential(600.0, length))
    old, new = np.split(drawn, [length])
    return User(old, times, np.array(held), int(dormant), new, returns)


def _turns(rng: np.random.Generator, topics: list[int], n: int, stay: float) -> np.ndarray:
    """n topics, [n]: each keeps the one before with chance `stay`, or is drawn anew."""
    anew = rng.random(n) > stay
    anew[:1] = True
    last = np.maximum.accumulate(np.where(anew, np.arange(n), 0))
    return rng.choice(topics, n)[last]
