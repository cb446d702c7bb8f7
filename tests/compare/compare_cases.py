"""Made-up runs for the protocol's tests: every arm, seed and item, matched and complete."""

import hashlib

import numpy as np

from repro.compare import choice, manifest

ITEMS = {"train": 20, "validation": 200, "test": 300}
ARMS = {"plain": "baseline", "new": "candidate"}


def sha(*parts):
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def frozen(arms=ARMS, seeds=(42, 43, 44), items=ITEMS, **changed):
    splits = {
        name: manifest.split(
            {f"{name}-{i}": f"{name} question {i}" for i in range(n)}, "made", "r1"
        )
        for name, n in items.items()
    }
    given = dict(
        question="does it help?", metric="accuracy", direction="higher", margin=0.08, arms=arms,
        seeds=seeds, caps={"updates": 10, "tokens": 96}, splits=splits, checkpoint_rule="last",
    )  # fmt: skip
    return manifest.freeze(**given | changed)


def outcomes(frozen, split, right, draw):
    """0/1 scores; items share their difficulty between arms, so that pairing has its power."""
    ids = frozen["splits"][split]["ids"]
    hard = np.random.default_rng(7).random(len(ids))
    noise = np.random.default_rng(draw).normal(0, 0.02, len(ids))
    return {
        "scores": {i: float(h + e < right) for i, h, e in zip(ids, hard, noise, strict=True)},
        "unfinished": {},
    }


def run(frozen, arm, seed, right=0.5, test=False, **changed):
    role = frozen["arms"][arm]
    same = role in ("untouched", "zero_learning_rate")
    draw = [seed] if same else [seed, *arm.encode()]
    return {
        "manifest": manifest.digest(frozen),
        "arm": arm,
        "seed": seed,
        "caps": frozen["caps"],
        "settings": frozen["settings"],
        "looks": 0 if role == "untouched" else 1,
        "start": sha("start", seed),
        "order": sha("order", arm if role == "other_data_seed" else "", seed),
        "first_rollout": sha("rollout", arm if role == "other_data_seed" else "", seed),
        "checkpoint": sha("checkpoint", arm, seed),
        "used": {"generated_tokens": 1000, "scored_tokens": 2000, "trained_tokens": 1000,
                 "forward_passes": 50, "seconds": 9.5},
        "moved": 0.0 if same else 0.1,
        "bound": {"tokens": 0.2},
        "validation": outcomes(frozen, "validation", right, draw),
        "test": outcomes(frozen, "test", right, draw) if test else None,
        "sealed": None,
    } | changed  # fmt: skip


def runs(frozen, right, test=False):
    """right: arm -> share of items it solves."""
    return [
        run(frozen, arm, seed, right[arm], test)
        for arm in frozen["arms"]
        for seed in frozen["seeds"]
    ]


def finished(frozen, right):
    """Runs with test outcomes, under the choice that validation makes."""
    sealed = choice.seal(frozen, runs(frozen, right))
    return [r | {"sealed": sealed["id"]} for r in runs(frozen, right, test=True)], sealed
