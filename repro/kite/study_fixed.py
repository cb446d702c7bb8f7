"""The public small comparison, repeated: 30 + 30 updates on one fixed batch, then told apart.

Width 32, contexts of 32 bytes, 8 windows, AdamW at 1e-3 (notes, 7.1 to 7.4). At equal FLOPs the two
towers take more updates than the deep model, because their layers are cheaper. Here the same arms
also take equal updates, with one batch and with fresh ones.
"""

import copy

import numpy as np
import torch

from repro import accept
from repro.kite import flops, training
from repro.kite.config import Config
from repro.kite.model import SST
from repro.kite.training import Recipe

CONFIG = Config(width=32, style="origin")
DEEP = Config(width=32, layers=4, style="origin")


def arms(first: int = 30, second: int = 30, length: int = 32) -> dict[str, tuple[Config, int, int]]:
    """Name -> configuration and updates of each stage; the optimiser is new in the second.

    FLOPs are those of explicit attention, the full square.
    """
    accept.count("first", first), accept.count("second", second)
    small, grown, deep = (
        flops.forward(config, length, above, square=True)
        for config, above in ((CONFIG, 0), (CONFIG, 2), (DEEP, 0))
    )
    return {
        "SST": (CONFIG, first, second),
        "dense, equal FLOPs": (
            DEEP,
            flops.steps(first * small, deep),
            flops.steps(second * grown, deep),
        ),
        "dense, equal updates": (DEEP, first, second),
        "source, equal updates": (CONFIG, first, second),
        "source, equal FLOPs": (CONFIG, first, flops.steps(second * grown, small)),
    }


def run(
    text: np.ndarray, windows: np.ndarray, seed: int, fresh: bool, first: int = 30, second: int = 30
) -> dict[str, np.ndarray]:
    """NLL [windows] of each arm after both stages."""
    found, kept = {}, {}
    recipe = Recipe(length=windows.shape[-1] - 1, batch=8, rate=1e-3, fresh=fresh, plain=True)
    for name, (config, one, two) in arms(first, second, recipe.length).items():
        if (config, one) not in kept:
            torch.manual_seed(seed)
            model = SST(config)
            for _ in training.train(model, text, one, seed, recipe):
                pass
            kept[config, one] = model
        model = copy.deepcopy(kept[config, one])
        if name == "SST":
            model.expand()
        for _ in training.train(model, text, two, seed, recipe, one):
            pass
        found[name] = training.evaluate(model, windows)
    return found
