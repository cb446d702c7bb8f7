"""Deliberate faults in `repro.mad_rl.simulation`: mistakes that a reader could make."""

import numpy as np

from repro.faults import Fault
from repro.mad_rl import divergences

_HOME = "repro.mad_rl.simulation:"

FAULTS = {
    "score_without_minus_p": Fault(
        "grad log p_k is taken as e_k instead of e_k - p",
        _HOME + "descent",
        lambda original: lambda name, p, t: -np.asarray(p) * divergences.derivative(name, p, t),
    ),
    "ascent": Fault(
        "the exact update climbs the divergence",
        _HOME + "descent",
        lambda original: lambda *arguments: -original(*arguments),
    ),
    "ways_forgotten": Fault(
        "groups are weighted without their multinomial coefficient",
        _HOME + "chances",
        lambda original: lambda counts, p: np.exp(counts @ np.log(p)),
    ),
    "group_mean_forgotten": Fault(
        "the group mean is never subtracted",
        _HOME + "standardised",
        lambda original: lambda r, counts, centre, scale: original(r, counts, False, scale),
    ),
    "oneself_counted": Fault(
        "leave-one-out counts the sample itself after all",
        "repro.mad_rl.rewards:without_itself",
        lambda original: (
            lambda counts, alpha=0.5: np.asarray(counts) / np.sum(counts, -1, keepdims=True)
        ),
    ),
    "mean_over_categories": Fault(
        "the group mean weighs categories alike instead of by their samples",
        _HOME + "standardised",
        lambda original: lambda r, counts, centre, scale: r - r.mean(-1, keepdims=True) * centre,
    ),
    "kl_swapped": Fault(
        "forward and reverse KL are exchanged in the rewards",
        "repro.mad_rl.rewards:by_category",
        lambda original: (
            lambda name, f, t: original(
                {"forward_kl": "reverse_kl", "reverse_kl": "forward_kl"}.get(name, name), f, t
            )
        ),
    ),
    "reward_sign": Fault(
        "rewards have the wrong sign",
        "repro.mad_rl.rewards:by_category",
        lambda original: lambda *arguments: -original(*arguments),
    ),
    "temperature_inverted": Fault(
        "the logits are multiplied by the temperature instead of divided",
        _HOME + "tempered",
        lambda original: lambda p, temperature: original(p, 1 / temperature),
    ),
    "bonus_of_the_reward": Fault(
        "the entropy bonus is weighted by the reward instead of by beta",
        _HOME + "with_entropy_bonus",
        lambda original: lambda reward, beta: original(reward, 1 / beta),
    ),
}
