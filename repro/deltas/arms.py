"""The arms of the comparison (notes, section 9.2): a signal each, under one policy and one budget.

Every maker takes a `Context` and returns a signal for `repro.deltas.runner`. Arms that only fix an
order in time (window, random, uniform) run without buckets, since their order is all they are.
Shapes: B streams, T tokens of a chunk, S cached tokens before it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from repro.deltas import drift
from repro.deltas.retention import RetentionPolicy
from repro.deltas.signals import SIGNALS, Seen
from repro.errors import BadParameter


@dataclass
class Context:
    """What an arm may need: place [B, n] is the truth, for the oracle alone."""

    policy: RetentionPolicy
    place: np.ndarray
    rng: np.random.Generator


def _newest(_: Context):
    return lambda seen: seen.index[:, -seen.inputs.shape[1] :]


def _random(at: Context):
    """A lot at birth and the best lots stay: at any time a random sample of the whole stream."""
    return lambda seen: at.rng.random(seen.inputs.shape[:2])


def _uniform(_: Context):
    """Radical inverse of the arrival number in base 3: low ones are spread evenly in time."""

    def signal(seen: Seen) -> np.ndarray:
        left, found, digit = seen.index[:, -seen.inputs.shape[1] :].copy(), 0.0, 1 / 3
        while left.any():
            found, left, digit = found + digit * (left % 3), left // 3, digit / 3
        return -(found + np.zeros(seen.inputs.shape[:2]))

    return signal


def _survivors(at: Context):
    """Evenly spaced among the *survivors*, again and again: survival decays with age."""

    def signal(seen: Seen) -> np.ndarray:
        policy, size = at.policy, seen.index.shape[1]
        score = np.zeros(seen.index.shape)
        free = size - policy.sinks - policy.window
        room = policy.budget - policy.sinks - policy.window
        if size > policy.budget:
            score[:, policy.sinks + np.linspace(0, free - 1, room).round().astype(int)] = 1
        return score

    return signal


def _input_change(_: Context):
    """Distance of the mean inputs of neighbouring chunks: needs no recurrent state at all."""
    last: list[torch.Tensor] = []

    def signal(seen: Seen) -> torch.Tensor:
        mean = seen.inputs.flatten(2).mean(1)
        found = (mean - last.pop()).norm(dim=-1) if last else mean.norm(dim=-1)
        last.append(mean)
        return found

    return signal


def _patch_change(_: Context):
    """The same patch by patch: distance of each token's input to that of its patch before."""
    last: list[torch.Tensor] = []

    def signal(seen: Seen) -> torch.Tensor:
        x = seen.inputs.flatten(2)
        found = (x - last.pop()).norm(dim=-1) if last else x.norm(dim=-1)
        last.append(x)
        return found

    return signal


def _new_entries(seen: Seen) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of the chunk's tokens in the first attention layer, [B, H, T, d]."""
    keys, values = seen.memory.attended()[0]
    count = seen.inputs.shape[1]
    return keys[:, :, -count:], values[:, :, -count:]


def _key_redundancy(_: Context):
    """InfiniPot-V's way: a key that points as its patch's key before is redundant."""
    last: list[torch.Tensor] = []

    def signal(seen: Seen) -> torch.Tensor:
        k = _new_entries(seen)[0]
        before = last.pop() if last else torch.zeros_like(k)
        last.append(k)
        return -torch.cosine_similarity(k, before, dim=-1).mean(1)

    return signal


def _window_attention(_: Context):
    """Attention that the newest chunk's queries pay: cached tokens are judged anew each time."""

    def signal(seen: Seen) -> torch.Tensor:
        return seen.memory.attention()[0].mean((1, 2))

    return signal


def _shuffled(_: Context):
    """Another stream's drift: the same numbers, at the same times, on the wrong chunks."""
    return lambda seen: _other(drift.drift(seen.before, seen.after))


def _other(score: torch.Tensor) -> torch.Tensor:
    if len(score) < 2:  # the placebo would be the signal itself
        raise BadParameter(
            f"arm='drift-shuffled' has {len(score)} stream; accepted: at least 2 side by side."
        )
    return score.roll(1)


def _oracle(at: Context):
    def signal(seen: Seen) -> np.ndarray:
        new = seen.index[:, -seen.inputs.shape[1] :]
        return (new[:, :, None] == at.place[:, None]).any(-1).astype(float)

    return signal


def _oracle_chunk(at: Context):
    """Knows the frames but not the patches: the most that a score a chunk can do."""
    token = _oracle(at)
    return lambda seen: token(seen).max(1)


def _named(name: str) -> Callable[[Context], Callable]:
    return lambda _: SIGNALS[name]


#: arm: maker, buckets (True: those of the policy), what it is
ARMS: dict[str, tuple[Callable[[Context], Callable], bool, str]] = {
    "window": (_newest, False, "the newest tokens"),
    "random": (_random, False, "a lot a token, drawn once"),
    "uniform": (_uniform, False, "evenly spaced over the whole stream"),
    "survivors": (_survivors, False, "evenly spaced over the survivors: a straw man"),
    "drift": (_named("drift"), True, "state drift, Eq. 3, in time buckets"),
    "drift-nobuckets": (_named("drift"), False, "state drift without buckets"),
    "drift-head": (_named("head"), True, "state drift, ratio head by head"),
    "drift-write": (_named("write"), True, "state drift without forgetting"),
    "drift-shuffled": (_shuffled, True, "another stream's state drift"),
    "decay": (_named("decay"), True, "forgetting alone"),
    "residual": (_named("residual"), True, "committed residual of each token"),
    "input-change": (_input_change, True, "distance of mean inputs, chunk to chunk"),
    "patch-change": (_patch_change, True, "distance of each patch to the same one before"),
    "key-norm": (lambda _: lambda s: -_new_entries(s)[0].norm(dim=-1).mean(1), True, "small keys"),
    "value-norm": (
        lambda _: lambda s: _new_entries(s)[1].norm(dim=-1).mean(1),
        True,
        "large values",
    ),
    "key-redundancy": (_key_redundancy, True, "keys unlike those of the same patch before"),
    "window-attention": (_window_attention, True, "what the newest chunk attends to"),
    "oracle-chunk": (_oracle_chunk, False, "knows which frames will be asked for"),
    "oracle": (_oracle, False, "knows which tokens will be asked for"),
}
