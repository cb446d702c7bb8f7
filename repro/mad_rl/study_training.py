"""What a trained policy answers, measured exactly, and what may be said of two arms.

Probabilities are [n, K]: n questions, K right answers; what is missing to 1 is invalid. Divergences
are Jensen-Shannon in nats. *Unconditional*: invalid is one more category, wanted with probability
0. *Conditional*: among valid answers only; says nothing of how many there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.compare import paired
from repro.mad_rl import divergences, policy, tasks

TEMPERATURES = (0.5, 0.7, 1.0, 1.5, 2.0)
FEWEST = 6  # with fewer, all signs alike still have p = 2 * 2**-n above 0.05


@dataclass(frozen=True)
class Measured:
    """Measures [n] of each question under one target; see the module for the two divergences.

    kinds: exp of the entropy among valid answers, the effective number of right answers in use.
    """

    unconditional: np.ndarray
    conditional: np.ndarray
    invalid: np.ndarray
    kinds: np.ndarray
    pooled: float


def probabilities(
    model: Any, questions: Sequence[tasks.Question], temperature: float = 1.0
) -> np.ndarray:
    """Exact probability [n, K] of every right answer."""
    import torch

    with torch.no_grad():
        each = [policy.score(model, q.prompt, q.answers, temperature) for q in questions]
    return torch.stack(each).double().exp().cpu().numpy()


def measured(p: np.ndarray, target: Any) -> Measured:
    """The measures of probabilities `p` [n, K]. pooled: conditional divergence of the mean mix."""
    target = divergences.distribution(target)
    valid = p.sum(-1, keepdims=True)
    invalid = np.maximum(1 - valid, 0.0)
    whole = np.concatenate([p, invalid], -1)
    whole /= whole.sum(-1, keepdims=True)
    among = p / np.maximum(valid, 1e-300)
    rows = np.broadcast_to(target, among.shape)
    wanted = np.concatenate([rows, np.zeros_like(valid)], -1)
    return Measured(
        unconditional=divergences.divergence("js", whole, wanted),
        conditional=divergences.divergence("js", among, rows),
        invalid=invalid[:, 0],
        kinds=np.exp(divergences.entropy(among)),
        pooled=float(divergences.divergence("js", p.sum(0) / p.sum(), target)),
    )


def sampled(
    model: Any, questions: Sequence[tasks.Question], group: int, cap: int, end: int, seed: int
) -> dict[str, np.ndarray]:
    """From `group` drawn answers a question [n]: distinct answers, distinct right ones, invalid."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = []
    for q in questions:
        drawn = policy.sample(model, q.prompt, group, cap, end, generator)
        found = np.array([tasks.category(q, a) for a in drawn])
        rows.append([len(set(drawn)), len(set(found[found >= 0])), (found < 0).mean()])
    distinct, right, invalid = np.array(rows, dtype=float).T
    return {"distinct": distinct, "right": right, "invalid": invalid}


def best_temperature(
    model: Any, questions: Sequence[tasks.Question], targets: Mapping[str, Any]
) -> dict[str, float]:
    """For each target the sampling temperature with the least unconditional divergence."""
    found = {t: probabilities(model, questions, t) for t in TEMPERATURES}
    return {
        name: min(found, key=lambda t, w=wish: measured(found[t], w).unconditional.mean())
        for name, wish in targets.items()
    }


def verdict(
    baseline: np.ndarray, arm: np.ndarray, margin: float, moved: float
) -> tuple[str, float, tuple[float, float], float]:
    """Word, mean gain, its 95 % interval and the detectable gain, of one seed; lower is better.

    baseline, arm [n]: paired by question. moved: how far the adapter went. The words are those of
    `repro.compare`: "better", "worse", "not distinguished", "uninformative". The last where the
    arms are identical, the policy never moved, nothing as small as `margin` would have been seen,
    or there are fewer than `FEWEST` questions. One seed: the interval is of questions only.
    """
    d = (baseline - arm)[None]
    low, high = paired.interval(d)
    seen = paired.detectable(d)
    if not d.any() or moved == 0 or d.size < FEWEST:
        word = "uninformative"
    elif low > 0 or high < 0:
        word = "better" if low > 0 else "worse"
    else:
        word = "uninformative" if seen > margin else "not distinguished"
    return word, float(d.mean()), (low, high), seen
