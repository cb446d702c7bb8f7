"""Deliberate faults in the rewards of MaD-RL: mistakes that a reader could make."""

import numpy as np

from repro.faults import Fault

_REWARDS, _ADVANTAGES = "repro.mad_rl.rewards:", "repro.mad_rl.advantages:"
_SWAPPED = {"forward_kl": "reverse_kl", "reverse_kl": "forward_kl"}


def _dropped(original):
    """Counts without the invalid column's share: the denominator is what is left."""

    def counts(categories, kinds):
        n = original(categories, kinds)
        n[-1] = 0
        return n if n.sum() >= 2 else original(categories, kinds)

    return counts


def _plain_standardised(original):
    def advantages(rewards, scale="none"):
        rewards = np.asarray(rewards, dtype=np.float64)
        centred = rewards - rewards.mean(-1, keepdims=True)
        if scale == "none":
            return centred
        with np.errstate(invalid="ignore", divide="ignore"):
            return centred / centred.std(-1 if scale == "group" else None, keepdims=True)

    return advantages


FAULTS = {
    "invalid_dropped": Fault(
        "invalid outputs leave the denominator, so being invalid costs nothing",
        _REWARDS + "counts",
        _dropped,
    ),
    "reward_sign": Fault(
        "rewards have the wrong sign: the mix is driven away from the target",
        _REWARDS + "by_category",
        lambda original: lambda *arguments: -original(*arguments),
    ),
    "kl_swapped_in_reward": Fault(
        "the rewards of forward and reverse KL are exchanged",
        _REWARDS + "by_category",
        lambda original: lambda name, f, t: original(_SWAPPED.get(name, name), f, t),
    ),
    "kl_swapped_in_metric": Fault(
        "the divergence that is reported as forward KL is reverse KL",
        "repro.mad_rl.divergences:divergence",
        lambda original: lambda name, p, t: original(_SWAPPED.get(name, name), p, t),
    ),
    "target_smoothing_forgotten": Fault(
        "reverse KL takes the logarithm of a target of 0",
        "repro.mad_rl.divergences:smoothed",
        lambda original: lambda target, epsilon: np.asarray(target, dtype=float),
    ),
    "pseudo_count_forgotten": Fault(
        "empty categories keep the frequency 0 although a pseudo-count is asked for",
        _REWARDS + "frequencies",
        lambda original: lambda counts, alpha=0.0: original(counts, 0.0),
    ),
    "scaled_without_renormalising": Fault(
        "the smoothed target sums to more than 1",
        "repro.mad_rl.divergences:smoothed",
        lambda original: lambda target, epsilon: np.maximum(np.asarray(target), epsilon),
    ),
    "pooled_over_prompts": Fault(
        "frequencies are read from the whole batch, not from the prompt's own group",
        _REWARDS + "batch",
        lambda original: (
            lambda divergence, groups, target, pooled=False, **options: original(
                divergence, groups, target, pooled=True, **options
            )
        ),
    ),
    "oneself_counted": Fault(
        "leave-one-out counts the sample itself after all",
        _REWARDS + "without_itself",
        lambda original: (
            lambda counts, alpha=0.5: np.asarray(counts) / np.sum(counts, -1, keepdims=True)
        ),
    ),
    "zero_deviation": Fault(
        "advantages divide by a deviation of 0: NaN where all rewards are equal",
        _ADVANTAGES + "advantages",
        _plain_standardised,
    ),
    "batch_mean": Fault(
        "the mean is the batch's, so easy prompts are pushed up as a whole",
        _ADVANTAGES + "advantages",
        lambda original: (
            lambda rewards, scale="none": (
                original(rewards, scale) + np.mean(rewards, -1, keepdims=True) - np.mean(rewards)
            )
        ),
    ),
    "clipped_both_ways": Fault(
        "the ratio is clipped outright: a sample that went astray is not brought back",
        _ADVANTAGES + "surrogate",
        lambda original: (
            lambda ratio, advantage, clip=0.2: ratio.clip(1 - clip, 1 + clip) * advantage
        ),
    ),
    "half_forgotten": Fault(
        "the Jensen-Shannon reward compares with the target instead of the mixture",
        _REWARDS + "by_category",
        lambda original: (
            lambda name, f, t: (
                original("reverse_kl", f, t) / 2 if name == "js" else original(name, f, t)
            )
        ),
    ),
    "gate_open": Fault(
        "wrong outputs count in the mix of right ones",
        "repro.mad_rl.combine:combined",
        lambda original: (
            lambda rule, divergence, categories, correct, target, weight=1.0: original(
                rule,
                divergence,
                categories,
                np.ones_like(correct) if rule == "gate" else correct,
                target,
                weight,
            )
        ),
    ),
}
