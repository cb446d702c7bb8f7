"""The matched-FLOPs study: every arm gets the same analytic training FLOPs and its own schedule.

Arms of the notes' section 9.1, n = 2 layers a tower. Arms that grow share stage 1 of their seed and
width; its FLOPs count in full for each. All restart AdamW at the boundary.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from repro import accept
from repro.errors import BadParameter
from repro.kite import flops, training
from repro.kite.config import Config
from repro.kite.growth import stacked
from repro.kite.model import SST
from repro.kite.training import Recipe

N = 2  # layers of the source, and of each tower
HEAD_SIZE = 32


@dataclass(frozen=True)
class Kind:
    """One arm. grow: "" (one stage), "stack", or the `init` of `expand`; two_stages: after a
    stage 1 as the source, otherwise from the start; `layers` of a one-stage model.
    """

    what: str
    grow: str = ""
    two_stages: bool = False
    layers: int = N
    frozen: bool = False
    layer_map: tuple[int, ...] | None = None
    wide: bool = False


ARMS = {
    "source": Kind("the small model all the way"),
    "dense": Kind("twice the layers, from scratch", layers=2 * N),
    "grown dense": Kind("twice the layers, stacked copies at the boundary", "stack", True),
    "SST": Kind("a copied Decoder at the boundary", "copy", True),
    "SST, random Decoder": Kind("a random Decoder at the boundary", "random", True),
    "SST, from scratch": Kind("both towers from the start", "random"),
    "SST, frozen": Kind(
        "as SST, Prefiller and embedding fixed after it", "copy", True, frozen=True
    ),
    "SST, shuffled": Kind("as SST, layers read each other's KV", "copy", True, layer_map=(1, 0)),
    "wide": Kind("the small model, its FFN widened to the decode cost of SST", wide=True),
}


@dataclass
class Result:
    """What an arm of one width and seed did.

    steps, budget: of each stage, and the training FLOPs really spent. curve: rows of (training
    FLOPs, NLL on the select part). chosen, test: NLL [blocks] on the select and the test part.
    jump: select NLL right before and right after growing. prefill, decode: FLOPs a token; kv: bytes
    a token. fitted: NLL on training text.
    """

    arm: str
    width: int
    parameters: int
    steps: tuple[int, ...]
    spent: float
    prefill: float
    decode: float
    kv: int
    curve: list[tuple[float, float]] = field(default_factory=list)
    chosen: np.ndarray | None = None
    test: np.ndarray | None = None
    jump: tuple[float, float] | None = None
    fitted: float = float("nan")

    @property
    def select(self) -> float:
        """The last point of the curve."""
        return self.curve[-1][1]

    @property
    def loss(self) -> float:
        """Mean NLL over the test blocks."""
        return float(self.test.mean())


@dataclass(frozen=True)
class Views:
    """Windows that are looked at, each [..., T + 1]: select, test [blocks, ...], fitted."""

    select: np.ndarray
    test: np.ndarray
    fitted: np.ndarray


def source_config(width: int, layers: int = N) -> Config:
    """Modern style, heads of 32. Raises BadParameter for a width that they do not divide."""
    if width < HEAD_SIZE or width % HEAD_SIZE:
        raise BadParameter(f"width={width} is refused; accepted: a multiple of {HEAD_SIZE}.")
    return Config(width=width, layers=layers, heads=width // HEAD_SIZE)


def costs(arm: str, width: int, length: int) -> tuple[Config, int, float]:
    """Final configuration, Decoder layers, and training FLOPs a token of the last stage."""
    kind, config = ARMS[arm], source_config(width)
    if kind.wide:
        config = flops.widened(config, flops.forward(config, length, N), length)
    if kind.layers != N or kind.grow == "stack":
        config = source_config(width, 2 * N)
    above = N if kind.grow in ("copy", "random") else 0
    return config, above, flops.training(config, length, above, frozen=kind.frozen)


def plan(arm: str, width: int, budget: float, share: float, recipe: Recipe) -> tuple[int, ...]:
    """Steps of each stage: `share` of the FLOPs `budget` to stage 1, what is left to stage 2."""
    accept.between("share", share, 0.01, 0.99, ends=True)
    tokens = recipe.batch * recipe.length
    _, _, last = costs(arm, width, recipe.length)
    if not ARMS[arm].two_stages:
        return (flops.steps(budget, last * tokens),)
    one = flops.training(source_config(width), recipe.length) * tokens
    first = flops.steps(share * budget, one)
    return first, flops.steps(budget - first * one, last * tokens)


def run(
    width: int,
    arms: Sequence[str],
    budget: float,
    share: float,
    text: np.ndarray,
    views: Views,
    recipe: Recipe,
    seed: int,
    looks: int = 8,
) -> Iterator[Result]:
    """Train the `arms` of one width with `budget` FLOPs each; a result as each is done.

    looks: points of the curve in each stage.
    """
    accept.count("looks", looks)
    source: tuple[SST, list[tuple[float, float]]] | None = None
    for arm in arms:
        kind, steps = ARMS[arm], plan(arm, width, budget, share, recipe)
        config, above, last = costs(arm, width, recipe.length)
        tokens = recipe.batch * recipe.length
        one = flops.training(source_config(width), recipe.length) * tokens
        spent = sum(
            s * f
            for s, f in zip(
                steps, ([one] if kind.two_stages else []) + [last * tokens], strict=True
            )
        )
        prompt = flops.prefill(config, recipe.length, above) / recipe.length
        decode = flops.decode(config, recipe.length, above)
        found = Result(
            arm,
            width,
            config.parameters(above),
            steps,
            spent,
            prompt,
            decode,
            flops.kv_bytes(config),
        )
        torch.manual_seed(seed)
        begin, first = 0.0, 0
        if kind.two_stages:
            if source is None:
                model, curve = SST(source_config(width)), []
                _stage(model, text, steps[0], one, views, recipe, seed, looks, curve)
                source = model, curve
            model, found.curve = copy.deepcopy(source[0]), list(source[1])
            begin, first = steps[0] * one, steps[0]
        else:
            model = SST(config if not kind.grow else source_config(width))
        model = grow(model, kind, seed)
        if kind.two_stages:
            after = float(training.evaluate(model, views.select).mean())
            found.jump = found.curve[-1][1], after
            found.curve.append((begin, after))
        _stage(
            model,
            text,
            steps[-1],
            last * tokens,
            views,
            recipe,
            seed,
            looks,
            found.curve,
            begin,
            first,
        )
        found.chosen = training.evaluate(model, views.select).mean(-1)
        found.test = training.evaluate(model, views.test).mean(-1)
        found.fitted = float(training.evaluate(model, views.fitted).mean())
        yield found


def grow(model: SST, kind: Kind, seed: int) -> SST:
    """`model` as the arm's last stage trains it."""
    torch.manual_seed(seed + 10**6)  # what is drawn here does not depend on what stage 1 drew
    if kind.grow == "stack":
        return stacked(model)
    if kind.grow:
        model.expand(kind.grow, kind.layer_map)
    if kind.frozen:
        model.freeze_prefiller()
    return model


def _stage(
    model: SST,
    text: np.ndarray,
    steps: int,
    step: float,
    views: Views,
    recipe: Recipe,
    seed: int,
    looks: int,
    curve: list[tuple[float, float]],
    begin: float = 0.0,
    first: int = 0,
) -> None:
    """Train one stage, adding `looks` points to `curve`, the last one at its end."""
    when = {round(steps * (i + 1) / looks) for i in range(looks)}
    for done in training.train(model, text, steps, seed, recipe, first):
        if done in when:
            seen = float(training.evaluate(model, views.select).mean())
            curve.append((begin + done * step, seen))
