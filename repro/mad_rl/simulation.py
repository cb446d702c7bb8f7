"""A policy that is one softmax over K categories: what each reward does, without a network.

MaD-RL (arXiv 2609.31644). With logits z and p = softmax(z), grad log p_k = e_k - p, so the exact
descent of D and the expectation of a group's update can both be computed to machine precision:
the second by adding up all groups of G samples, each with its multinomial probability. Synthetic
throughout.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import gammaln, softmax

from repro.errors import BadParameter
from repro.mad_rl import advantages, combine, divergences, rewards


def descent(divergence: str, p: Any, target: Any) -> np.ndarray:
    """-dD/dz [..., K] at p = softmax(z): p_k (r_k - sum_j p_j r_j) with r = -dD/dp."""
    p = divergences.distribution(p, "p")
    r = -divergences.derivative(divergence, p, target)
    return p * (r - (p * r).sum(-1, keepdims=True))


@lru_cache(maxsize=8)
def all_groups(kinds: int, group: int) -> np.ndarray:
    """Every way in which `group` samples can fall into `kinds` categories: counts [M, K]."""
    if kinds < 2 or group < 2:
        raise BadParameter(f"kinds={kinds}, group={group} is refused; accepted: 2 or more of each.")
    places = group + kinds - 1
    bars = np.array([[-1, *c, places] for c in combinations(range(places), kinds - 1)])
    return np.diff(bars) - 1


def chances(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Multinomial probabilities [M] of the groups `counts` [M, K] under p [K], p > 0."""
    ways = gammaln(counts.sum(-1) + 1) - gammaln(counts + 1).sum(-1)
    return np.exp(ways + counts @ np.log(p))


def paid(
    divergence: str,
    counts: np.ndarray,
    target: Any,
    *,
    leave_one_out: bool = False,
    alpha: float | None = None,
    centre: bool = True,
    scale: str = "none",
) -> np.ndarray:
    """Advantages [..., K] of a sample of each category in groups with `counts` [..., K].

    centre: subtract the group's mean reward. scale: "none" or "group". Categories without a sample
    get 0. Rewards as in `rewards.group`, cut likewise.
    """
    if leave_one_out:
        alpha = (0.0 if divergence == "l2" else 0.5) if alpha is None else alpha
        f = rewards.without_itself(counts, alpha)
    else:
        f = rewards.frequencies(counts, alpha or 0.0)
    there = counts > 0
    r = np.where(there, rewards.by_category(divergence, f, target), 0.0)
    return standardised(np.clip(r, -rewards.CLIP, rewards.CLIP), counts, centre, scale)


def standardised(r: np.ndarray, counts: np.ndarray, centre: bool, scale: str) -> np.ndarray:
    """Rewards by category [..., K] as advantages, 0 where the group has no sample."""
    if scale not in ("none", "group"):
        raise BadParameter(f"scale={scale!r} is refused here; accepted: none, group.")
    share, there = counts / counts.sum(-1, keepdims=True), counts > 0
    mean = (share * r).sum(-1, keepdims=True)
    if scale == "group":
        spread = np.sqrt((share * (r - mean) ** 2).sum(-1, keepdims=True))
        return np.where(there, r - mean * centre, 0) / np.maximum(spread, advantages.FLOOR)
    return np.where(there, r - mean * centre, 0.0)


def expected_update(divergence: str, p: Any, target: Any, group: int, **options: Any) -> np.ndarray:
    """E[(1/G) sum_i A_i grad log p(c_i)] [K], over all groups of `group` samples.

    options: those of `paid`. p must have no zero entry.
    """
    p = divergences.distribution(p, "p")
    n = all_groups(p.size, group)
    a = paid(divergence, n, target, **options)
    weight = chances(n, p) @ (n / group * a)  # expected advantage mass of each category
    return weight - p * weight.sum()


def resting_point(
    divergence: str, target: Any, group: int, steps: int = 800, rate: float = 3.0, **options: Any
) -> np.ndarray:
    """Where following `expected_update` from the target ends: p [K].

    Equal to the target only if the estimator has no bias there.
    """
    z = np.log(divergences.distribution(target))
    for _ in range(steps):
        z = z + rate * expected_update(divergence, softmax(z), target, group, **options)
    return softmax(z)


def l2_resting_point(target: Any, group: int, leave_one_out: bool, centre: bool) -> np.ndarray:
    """The same for L2 in closed form, as derived in the notebook `simulation`; [K].

    The expected update is the gradient of a <t, p> - b |p|^2 / 2, so a t - b p is constant over
    categories where it rests. An entry below 0 means that the category dies out.
    """
    t = divergences.distribution(target)
    own, mean = 1 - 1 / group, 1 - 2 / group
    of_t, of_p = {
        (False, False): (1.0, own),
        (False, True): (own, own * mean),
        (True, False): (1.0, 1.0),
        (True, True): (own, mean),
    }[leave_one_out, centre]
    return (of_t * t - (of_t - of_p) / t.size) / of_p


def simulate(
    advantage: Callable[[np.ndarray], np.ndarray],
    start: Any,
    group: int,
    steps: int,
    rate: float,
    runs: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Sampled ascent of `runs` independent policies from `start` [K]: p [steps + 1, runs, K].

    advantage: counts [runs, K] -> advantages [runs, K], such as `paid` with everything else fixed.
    """
    z = np.tile(np.log(divergences.distribution(start, "start")), (runs, 1))
    path = [softmax(z, -1)]
    for _ in range(steps):
        p = path[-1]
        n = rng.multinomial(group, p)
        weight = n / group * advantage(n)
        z = z + rate * (weight - p * weight.sum(-1, keepdims=True))
        path.append(softmax(z, -1))
    return np.stack(path)


def simulate_joined(
    rule: str,
    divergence: str,
    start: np.ndarray,
    target: Any,
    group: int,
    steps: int,
    rate: float,
    rng: np.random.Generator,
    weight: float = 1.0,
) -> np.ndarray:
    """One policy over category and correctness under a rule of `combine`: p [K, 2] at the end.

    start: [K, 2], probability of (category, wrong) and (category, right).
    """
    kinds = start.shape[0]
    z = np.log(start).ravel()
    for _ in range(steps):
        p = softmax(z)
        drawn = rng.choice(2 * kinds, group, p=p)
        r = combine.combined(rule, divergence, drawn // 2, drawn % 2 == 1, target, weight)
        a = advantages.advantages(r[None])[0]
        mass = np.bincount(drawn, a / group, minlength=2 * kinds)
        z = z + rate * (mass - p * mass.sum())
    return softmax(z).reshape(kinds, 2)


def tempered(p: Any, temperature: float) -> np.ndarray:
    """p^(1/T), normalised, [K]: what another sampling temperature makes of a mix."""
    if not temperature > 0:
        raise BadParameter(f"temperature={temperature!r} is refused; accepted: above 0.")
    return softmax(np.log(divergences.distribution(p, "p")) / temperature)


def with_entropy_bonus(reward: Any, beta: float) -> np.ndarray:
    """The mix [K] that maximises E[reward] + beta * entropy: softmax(reward / beta)."""
    if not beta > 0:
        raise BadParameter(f"beta={beta!r} is refused; accepted: above 0.")
    return softmax(np.asarray(reward, dtype=np.float64) / beta)
