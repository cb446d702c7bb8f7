"""Tiny models for the checks, and how they compare."""

from collections.abc import Callable

import torch

from repro.errors import BadParameter
from repro.kite.config import Config
from repro.kite.model import SST

TOLERANCE = 1e-5  # fp32; the notes ask for it
STYLES = {
    "modern": Config(width=16, heads=2, kv_heads=1, vocab=31),
    "origin": Config(width=16, vocab=31, style="origin"),
}


def tiny(style: str = "modern", grown: bool = True, init: str = "copy") -> SST:
    """A model of two tiny layers, or of two towers of two; in the origin style heads are 1."""
    torch.manual_seed(1)
    model = SST(STYLES[style]).eval()
    for part in (model.embedding, model.head):
        torch.nn.init.normal_(part.weight, std=0.5)
    if grown:
        model.expand(init)
    return model


def tokens(length: int = 12, batch: int = 2) -> torch.Tensor:
    return torch.randint(0, 31, (batch, length), generator=torch.Generator().manual_seed(3))


def near(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: {list(found.shape)}, {list(expected.shape)}"
    gap = (found - expected).detach().abs().max().item() if found.numel() else 0.0
    assert gap < TOLERANCE, f"{what}: differs by {gap:.2g}"


def refused(call: Callable, what: str) -> None:
    try:
        call()
    except BadParameter:
        return
    raise AssertionError(f"{what} is accepted")
