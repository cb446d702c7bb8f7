"""A synthetic world in which items have texts and arrive over time, so that some are cold.

Section 8 of the project's notes on arXiv 2609.23677: users with a dormant interest, item texts
drawn from topic word lists, items that never occur in training. Everything is drawn; nothing here
is about people. Days run from 0 to 100; from day 50 on there is a cut every ten days, and the last
cut, at day 90, is the test.
"""

from dataclasses import dataclass

import numpy as np

from repro.accept import between, count
from repro.muser import data

DAY = 86_400.0
CUTS = tuple(day * DAY for day in (50, 60, 70, 80, 90))
END = 100 * DAY
ARRIVALS = (0.0, *CUTS)  # an item is there from one of these times on
SHARES = (0.5, 0.1, 0.1, 0.1, 0.1, 0.1)  # of a topic's items

TOPICS = {
    "gardening": "soil seeds compost tulips pruning greenhouse roses watering shovel mulch",
    "astronomy": "telescope galaxy nebula comet orbit planets eclipse stars crater moon",
    "cooking": "recipe oven garlic simmer pastry spices frying dough butter kitchen",
    "sailing": "mast harbour rudder anchor knots regatta keel tides hull rigging",
    "chess": "opening endgame bishop checkmate gambit rook pawn castling tournament knight",
    "football": "goalkeeper penalty striker offside dribble league stadium referee corner cup",
    "painting": "canvas brush watercolour portrait easel pigment varnish gallery sketch landscape",
    "medicine": "surgeon vaccine diagnosis nurse dosage symptoms clinic therapy infection patient",
    "railways": "locomotive signal carriage platform timetable gauge tunnel freight sleeper steam",
    "birds": "feathers nesting warbler migration plumage owl finch binoculars eggs heron",
    "music": "violin rhythm melody chord orchestra drummer piano concert harmony choir",
    "computers": "keyboard compiler software processor memory database network pixels server code",
}
COMMON = "a short film about how why with from old new best my day guide part story".split()


@dataclass(frozen=True, eq=False)
class Catalogue:
    """topic: [n] int. arrives: [n] seconds. texts: n, all different."""

    topic: np.ndarray
    arrives: np.ndarray
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class World:
    """log: the actions. follow: [users, 2] topics. dormant: [users] the one that sleeps.

    back: [users] which of the `CUTS` it comes back after.
    """

    catalogue: Catalogue
    log: data.Log
    follow: np.ndarray
    dormant: np.ndarray
    back: np.ndarray


def catalogue(
    rng: np.random.Generator, per_topic: int = 80, words: int = 4, topics: int = 12
) -> Catalogue:
    """Texts of `words` words of the topic among 6 common ones, in any order."""
    count("per_topic", per_topic, 10)
    count("topics", topics, 4)
    between("topics", topics, 4, len(TOPICS), ends=True)
    between("words", words, 1, 10, ends=True)
    texts: list[str] = []
    for name in list(TOPICS)[:topics]:
        own = TOPICS[name].split()
        mine: dict[str, None] = {}  # in the order that they were drawn
        while len(mine) < per_topic:
            drawn = [*rng.choice(own, words, replace=False), *rng.choice(COMMON, 6)]
            mine[" ".join(rng.permutation(drawn))] = None
        texts += mine
    sizes = np.diff([0, *(int(per_topic * s) for s in np.cumsum(SHARES)[:-1]), per_topic])
    arrives = np.tile(np.repeat(ARRIVALS, sizes), topics)
    return Catalogue(np.repeat(np.arange(topics), per_topic), arrives, tuple(texts))


def draw(
    rng: np.random.Generator,
    catalogue: Catalogue,
    people: int = 150,
    length: int = 200,
    after: int = 10,
    fresh: float = 0.5,
) -> World:
    """Users with about `length` actions before day 50 and `after` between each two later cuts.

    A user follows two topics. A third, the dormant one, takes turns up to day 25 and returns after
    one of the cuts, for half of the actions up to the next. From day 50 on an action is, with
    chance `fresh`, on an item that arrived at the cut before it. Within a topic old items
    are drawn in proportion to 1 / sqrt(rank).
    """
    count("people", people)
    count("length", length, 4)
    count("after", after)
    between("fresh", fresh, 0, 1, ends=True)
    topics = len(np.unique(catalogue.topic))
    picks = np.stack([rng.choice(topics, 3, replace=False) for _ in range(people)])
    back = rng.integers(len(CUTS), size=people)
    shelves, rows = _shelves(catalogue), []
    for user in range(people):
        times = np.sort(rng.uniform(0, CUTS[0], length + rng.integers(-length // 4, length // 4)))
        spans = zip(CUTS, (*CUTS[1:], END), strict=True)
        times = np.concatenate([times, *(np.sort(rng.uniform(a, b, after)) for a, b in spans)])
        period = np.searchsorted(CUTS, times, side="right") - 1  # -1 before the first cut
        awake = (times < CUTS[0] / 2) | (period == back[user])
        chance = np.where(period < 0, 1 / 3, 1 / 2) * awake
        sleeper = rng.random(len(times)) < chance
        topic = np.where(sleeper, picks[user, 2], rng.choice(picks[user, :2], len(times)))
        new = (period >= 0) & (rng.random(len(times)) < fresh)
        where = zip(topic, period, new, rng.random(len(times)), times, strict=True)
        for z, p, is_new, chance, t in where:
            items, below = shelves[z, p, is_new]
            rows.append((user, items[np.searchsorted(below, chance)], t))
    log = data.log(
        "synthetic", *zip(*rows, strict=True), catalogue.texts,
        "Users, texts and arrivals are drawn.", "The parts do what they say on drawn users.",
    )  # fmt: skip
    return World(catalogue, log, picks[:, :2], picks[:, 2], back)


def _shelves(c: Catalogue) -> dict[tuple[int, int, bool], tuple[np.ndarray, np.ndarray]]:
    """(topic, period, new) to items and cumulative chances; period -1 is before the first cut."""
    found = {}
    for topic in np.unique(c.topic):
        for period, since in enumerate(ARRIVALS, -1):
            for new in (False, True):
                there = c.arrives == since if new else c.arrives <= since
                items = np.flatnonzero((c.topic == topic) & there)
                weight = np.ones(len(items)) if new else np.arange(1, len(items) + 1) ** -0.5
                found[topic, period, new] = items, np.cumsum(weight) / weight.sum()
    return found


def parts(world: World, wanted: int = 10) -> list[data.Rows]:
    """Rows at each cut up to the next; the last are the test."""
    spans = zip(CUTS, (*CUTS[1:], END + DAY), strict=True)
    return [data.at(world.log, cut, until, wanted) for cut, until in spans]


def returning(world: World, rows: data.Rows) -> list[np.ndarray]:
    """Of each user's future items: bool, of the topic that was dormant until this cut."""
    waking = world.back[rows.users] == CUTS.index(rows.cut)
    return [
        (world.catalogue.topic[items] == world.dormant[user]) & wakes
        for user, items, wakes in zip(rows.users, rows.future, waking, strict=True)
    ]
