"""Synthetic video streams with things to recall, and known truth about which frames matter.

A frame is a few patch vectors. A scene is one vector a patch, seen again in every frame with a
little noise. An *informative* frame shows one object: one of its patches is replaced by the code of
a key plus the code of a value. A question is the code of a key with the question mark's; the
answer is the value that was shown with it. (DeltaS, arXiv 2609.27470: the notes' section 9.)
"""

from dataclasses import dataclass

import numpy as np
import torch

from repro.errors import BadParameter

KINDS = {
    "static": "scenes that stand still, with cuts",
    "noise": "the same, and one frame in five is random",
    "returns": "two scenes by turns: A-B-A-B",
    "pan": "one scene that turns slowly and steadily",
    "alike": "scenes made of other objects: what counts looks like the scenery",
}


@dataclass(frozen=True)
class World:
    """The fixed codes: keys [K, F], values [V, F], mark [F]; drawn once, shared by all streams."""

    keys: torch.Tensor
    values: torch.Tensor
    mark: torch.Tensor
    patches: int = 4
    jitter: float = 0.05

    @staticmethod
    def draw(seed: int, keys: int = 32, values: int = 16, features: int = 32) -> "World":
        g = torch.Generator().manual_seed(seed)
        codes = torch.randn(keys + values + 1, features, generator=g)
        codes = codes / codes.norm(dim=-1, keepdim=True) * features**0.5 / 2
        return World(codes[:keys], codes[keys:-1], codes[-1])


@dataclass(frozen=True)
class Streams:
    """B streams. frames [B, T, P, F]; kind of each frame [B, T]: 0 repeat, 1 new scene,
    2 informative, 3 noise; place [B, n]: informative frame and patch as arrival number;
    questions [B, n, F], answers [B, n]."""

    frames: torch.Tensor
    kind: np.ndarray
    place: np.ndarray
    questions: torch.Tensor
    answers: torch.Tensor


def draw(
    world: World, seed: int, batch: int, frames: int, objects: int, kind: str = "static"
) -> Streams:
    """`batch` streams of `frames` frames with `objects` informative ones each.

    Raises BadParameter for an unknown kind, or more objects than keys or frames allow.
    """
    if kind not in KINDS:
        raise BadParameter(f"kind={kind!r} is refused; accepted: {', '.join(KINDS)}.")
    most = min(len(world.keys) - 1, frames // 2)
    if not 1 <= objects <= most:
        raise BadParameter(f"objects={objects} is refused; accepted: 1 to {most}.")
    rng = np.random.default_rng(seed)
    g = torch.Generator().manual_seed(seed)
    patches = world.patches
    keys = _draws(rng, batch, len(world.keys), len(world.keys))
    keys, others = keys[:, :objects], keys[:, objects:]
    values = rng.integers(0, len(world.values), (batch, objects))
    scene, label = _scenes(world, rng, g, batch, frames, kind, others)
    shown = scene + world.jitter * torch.randn(scene.shape, generator=g)
    at = 1 + _draws(rng, batch, objects, frames - 1)  # not in the first frame
    patch = rng.integers(0, patches, (batch, objects))
    rows = np.arange(batch)[:, None]
    code = world.keys[keys] + world.values[values]
    if kind == "noise":
        chosen = rng.random((batch, frames)) < 0.2
        chosen[:, 0] = False
        noise = torch.randn(shown.shape, generator=g)
        shown = torch.where(torch.from_numpy(chosen)[..., None, None], noise, shown)
        label[chosen] = 3
    shown[rows, at, patch] = code + world.jitter * torch.randn(code.shape, generator=g)
    label[rows, at] = 2
    questions = world.keys[keys] + world.mark
    return Streams(shown, label, at * patches + patch, questions, torch.from_numpy(values))


def _scenes(world, rng, g, batch, frames, kind, others):
    """The background [B, T, P, F] without noise, and the frame labels."""
    label = np.zeros((batch, frames), int)
    label[:, 0] = 1
    size = (world.patches, world.keys.shape[1])
    if kind == "pan":
        ends = torch.randn(2, batch, 1, *size, generator=g)
        turn = torch.arange(frames)[None, :, None, None] * 0.05
        return ends[0] * turn.cos() + ends[1] * turn.sin(), label
    cuts = rng.random((batch, frames)) < 1 / 20
    cuts[:, 0] = False
    label[cuts] = 1
    which = cuts.cumsum(1)
    if kind == "returns":
        which %= 2
    pool = torch.randn(batch, which.max() + 1, *size, generator=g)
    if kind == "alike":
        shape = (batch, pool.shape[1], world.patches)
        key = np.take_along_axis(
            others, rng.integers(0, others.shape[1], (batch, shape[1] * shape[2])), 1
        )
        value = rng.integers(0, len(world.values), shape)
        pool = world.keys[key.reshape(shape)] + world.values[value]
    return pool[np.arange(batch)[:, None], which], label


def _draws(rng, batch, count, of):
    """`count` different numbers below `of`, a row a stream, in random order."""
    return np.stack([rng.permutation(of)[:count] for _ in range(batch)])
