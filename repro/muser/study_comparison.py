"""All controls on one log at equal token budget: who finds warm items, who finds cold ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from repro import intervals
from repro.errors import BadParameter
from repro.muser import cold, compression, controls, data, fused, semantics

WAYS = ("compressed", "newest only", "uniform pooling", "full history")  # to shorten a history

# What each arm changes; the first one changes nothing.
ARMS: dict[str, dict] = {
    "ids and semantics": {},
    "plain sum": {"parts": "sum"},
    "no alignment": {"mu": 0.0},
    "ids only": {"parts": "id"},
    "semantics only": {"parts": "semantics"},
    "texts of other items": {"texts": "shuffled"},
    "future items as negatives": {"drawn_from": "all"},
    "newest only": {"way": "newest only"},
    "uniform pooling": {"way": "uniform pooling"},
    "one interest": {"queries": 1},
    "routing": {"reader": "routing"},
    "full history": {"way": "full history"},
}
PLAIN = ("popularity", "item-kNN")  # not trained, no tokens


@dataclass(frozen=True, eq=False)
class Arm:
    """ranks: of each test user's future items. tokens: mean a user. size: trained numbers.

    interests: [B, M, d] and items: [n, d], None for an arm without them.
    """

    ranks: list[np.ndarray]
    tokens: float
    size: int
    interests: np.ndarray | None = None
    items: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """One log: the test rows, every arm, and kinds of future items: name to masks, one a user."""

    rows: data.Rows
    arms: dict[str, Arm]
    kinds: dict[str, list[np.ndarray]]

    def recall(self, arm: str, k: int, kind: str = "all") -> np.ndarray:
        """Recall@k of each test user over the future items of a kind, [B]; NaN for none."""
        if kind not in self.kinds:
            raise BadParameter(f"kind={kind!r} is not known; accepted: {', '.join(self.kinds)}.")
        return data.recall(self.arms[arm].ranks, k, self.kinds[kind])


def plans(way: str, rows: data.Rows, recent: int, middle: int) -> list[compression.Plan]:
    """A plan for each history; all ways but the full history have as many tokens for a user."""
    if way not in WAYS:
        raise BadParameter(f"way={way!r} is not known; accepted: {', '.join(WAYS)}.")
    return [_plan(way, len(history), recent, middle) for history in rows.history]


def _plan(way: str, length: int, recent: int, middle: int) -> compression.Plan:
    shaped = compression.plan(length, recent, middle)
    if way == "compressed":
        return shaped
    if way == "uniform pooling":
        cut = np.linspace(0, length, len(shaped) + 1).astype(int)
        return compression.Plan(cut[:-1], cut[1:], np.full(len(shaped), compression.MIDDLE))
    return compression.plan(length, length, 0)


def shortened(way: str, rows: data.Rows, recent: int, middle: int) -> data.Rows:
    """For ``newest only``, the rows with the newest actions alone; otherwise the rows."""
    if way != "newest only":
        return rows
    keep = [len(p) for p in plans("compressed", rows, recent, middle)]
    return replace(rows, history=tuple(h[-n:] for h, n in zip(rows.history, keep, strict=True)))


def semantic(texts: tuple[str, ...], encoder: semantics.Encoder, cache=None) -> torch.Tensor:
    """Vectors [n, D] of the texts, through the item cache."""
    cache = cache or semantics.ItemCache()
    return torch.from_numpy(cache.vectors({str(i): t for i, t in enumerate(texts)}, encoder))


def compare(
    parts: list[data.Rows],
    z: torch.Tensor,
    arms: Mapping[str, Mapping],
    seed: int,
    settings: fused.Settings,
    recent: int,
    middle: int,
) -> Study:
    """Train every arm on all but the last of `parts`, with the same draws; test on the last.

    z: [n, D]. Nothing is chosen on the test rows, and no arm is tuned.
    """
    *_, test = parts
    found = {
        "popularity": Arm(data.ranks(controls.popularity(test), test), 0, 0),
        "item-kNN": Arm(data.ranks(controls.item_knn(test), test), 0, 0),
    }
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    for name, given in arms.items():
        changed = dict(given)
        way = changed.pop("way", "compressed")
        texts, reader = changed.pop("texts", "own"), changed.pop("reader", "attention")
        tower_parts = changed.pop("parts", "gate")
        mine = replace(settings, **changed)
        tower = fused.Tower(z[order] if texts == "shuffled" else z, mine.d, tower_parts, seed)
        model = fused.Model(tower, mine.d, mine.queries, reader, seed)
        short = [shortened(way, rows, recent, middle) for rows in parts]
        tokens = [fused.Tokens(r, plans(way, r, recent, middle)) for r in short]
        fused.train(model, list(zip(short[:-1], tokens[:-1], strict=True)), seed, mine)
        scores, u = fused.scores(model, test, tokens[-1])
        e = tower(torch.from_numpy(test.counts)).detach().numpy()
        length = float(tokens[-1].lengths.mean())
        found[name] = Arm(data.ranks(scores, test), length, model.size(), u, e)
    new = data.cold(test)
    kinds = {"all": [np.ones(len(c), bool) for c in new], "cold": new, "warm": [~c for c in new]}
    return Study(test, found, kinds)


def synthetic(
    seed: int,
    people: int,
    encoder: semantics.Encoder,
    arms: Mapping[str, Mapping],
    settings: fused.Settings,
    recent: int = 8,
    middle: int = 64,
    cache: semantics.ItemCache | None = None,
    catalogue: cold.Catalogue | None = None,
) -> Study:
    """`compare` on one drawn world; the texts are the same in every world unless given."""
    catalogue = catalogue or cold.catalogue(np.random.default_rng(0))
    world = cold.draw(np.random.default_rng(seed), catalogue, people)
    parts = cold.parts(world)
    z = semantic(catalogue.texts, encoder, cache)
    study = compare(parts, z, arms, seed, settings, recent, middle)
    study.kinds["returning"] = cold.returning(world, study.rows)
    return study


def pooled(studies: Sequence[Study], arm: str, k: int, kind: str) -> np.ndarray:
    """Recall@k of the users of all studies who want an item of this kind, [users]."""
    found = np.concatenate([study.recall(arm, k, kind) for study in studies])
    return found[np.isfinite(found)]


def difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b for the users for whom both are numbers."""
    return (a - b)[np.isfinite(a) & np.isfinite(b)]


def verdict(a: np.ndarray, b: np.ndarray) -> tuple[str, float, float]:
    """What a is to b, user by user, in words; and the 95 % interval of the mean difference.

    NaN for both ends with fewer than five users.
    """
    differences = difference(a, b)
    found = intervals.of_mean(differences)
    if found is None:
        return "too few users to compare with", float("nan"), float("nan")
    if not differences.any():
        return "uninformative: equal for every user,", *found
    low, high = found
    return "above" if low > 0 else "below" if high < 0 else "not distinguished from", low, high
