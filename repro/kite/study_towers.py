"""What the two_towers notebook shows of executed models: keys, values, modes, jumps, counts."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from repro.kite import flops, serve, training
from repro.kite.config import Config
from repro.kite.growth import stacked
from repro.kite.model import SST
from repro.kite.training import Recipe

WAYS = ("copied Decoder", "random Decoder", "copied, zero outputs", "stacked dense")


def source(config: Config, text: np.ndarray, steps: int, seed: int, recipe: Recipe) -> SST:
    """A stage-1 model trained for `steps` on `text`."""
    torch.manual_seed(seed)
    model = SST(config)
    for _ in training.train(model, text, steps, seed, recipe):
        pass
    return model


def grown(model: SST, way: str, seed: int) -> SST:
    """A copy of the stage-1 `model`, grown in one of `WAYS`."""
    torch.manual_seed(seed + 10**6)
    if way == "stacked dense":
        return stacked(model)
    other = copy.deepcopy(model)
    other.expand("random" if way == "random Decoder" else "copy")
    if way == "copied, zero outputs":
        for block in other.decoder:
            torch.nn.init.zeros_(block.out.weight), torch.nn.init.zeros_(block.ffn.down.weight)
    return other


@torch.no_grad()
def kv(model: SST, ids: Tensor) -> dict[str, Tensor]:
    """Keys and values [B, h_kv, S, d_h] of each layer after `ids` [B, S], as copies."""
    _, past = model(ids)
    pairs = (("key", past.keys), ("value", past.values))
    return {f"layer {i + 1}, {n}": t.clone() for n, ts in pairs for i, t in enumerate(ts)}


def change(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """Largest absolute change of each tensor; exactly 0 only where all bits are equal."""
    found = {}
    for name, old in before.items():
        gap = float((old - after[name]).abs().max())
        same = torch.equal(old, after[name])
        found[name] = 0.0 if same else max(gap, float(np.finfo(np.float32).tiny))
    return found


def step(model: SST, ids: Tensor, only: str = "") -> SST:
    """A copy of `model` after one training step; only="Decoder": of its weights alone."""
    other = copy.deepcopy(model)
    weights = list(other.decoder_parameters() if only == "Decoder" else other.parameters())
    optimiser = torch.optim.AdamW(weights, 1e-2)
    training.loss(other, ids).mean().backward()
    optimiser.step()
    return other


def gradients(model: SST, ids: Tensor) -> dict[str, tuple[float, float]]:
    """Norm of the gradient of (the KV's squared norm, the loss) in each group of weights."""
    groups = {
        "Prefiller, W_K and W_V": [
            p for n, p in model.prefiller.named_parameters() if "key" in n or "value" in n
        ],
        "Prefiller, the last layer's W_K and W_V": [
            model.prefiller[-1].key.weight, model.prefiller[-1].value.weight
        ],
        "Decoder, W_Q": [block.query.weight for block in model.decoder],
        "Decoder, all": list(model.decoder_parameters()),
    }  # fmt: skip
    logits, past = model(ids[:, :-1])
    written = sum(t.square().sum() for t in (*past.keys, *past.values))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def size(of: Tensor, weights: list[Tensor]) -> float:
        grads = torch.autograd.grad(of, weights, retain_graph=True, allow_unused=True)
        return sum(float(g.square().sum()) for g in grads if g is not None) ** 0.5

    return {name: (size(written, group), size(loss, group)) for name, group in groups.items()}


@torch.no_grad()
def modes(model: SST, ids: Tensor, chunk: int) -> list[tuple[str, float, int, int]]:
    """Each mode: largest difference of its last logits to train mode's, and the positions at which
    Prefiller and Decoder ran, all rows together.
    """
    length = ids.shape[1]
    expected = model(ids)[0][:, -1]

    def one_by_one() -> Tensor:
        past = None
        for t in range(length):
            logits, past = model(ids[:, t : t + 1], past, 1)
        return logits[:, -1]

    ways: dict[str, Callable[[], Tensor]] = {
        "train or score, all positions": lambda: model(ids)[0][:, -1],
        "prefill, last only": lambda: serve.prefill(model, ids)[0],
        f"prefill in chunks of {chunk}, last only": lambda: serve.prefill(model, ids, chunk=chunk)[
            0
        ],
        "decode, token by token": one_by_one,
    }
    found = []
    for name, call in ways.items():
        with _counting(model) as seen, _counting(model, "prefiller") as first:
            gap = float((call() - expected).abs().max())
        found.append((name, gap, sum(first), sum(seen)))
    return found


def counts(config: Config, decoder_layers: int, length: int) -> list[tuple[str, float, int, int]]:
    """(what, formula, counted with explicit attention, counted with fused) for `length` tokens.

    The formula is that of explicit attention, the full square.
    """
    ids = torch.zeros(1, length, dtype=torch.long)
    above = {"square": True, "decoder_layers": decoder_layers}
    expected = {
        "training step": length * flops.training(config, length, **above),
        "forward, all positions": length * flops.forward(config, length, **above),
        "prefill, last only": flops.prefill(config, length, **above),
        "decode one token": flops.decode(config, length + 1, decoder_layers),
    }
    seen = {kind: _counted(config, decoder_layers, ids, kind) for kind in ("explicit", "fused")}
    return [(n, f, seen["explicit"][n], seen["fused"][n]) for n, f in expected.items()]


def _counted(config: Config, decoder_layers: int, ids: Tensor, kind: str) -> dict[str, int]:
    model, found = SST(config), {}
    if decoder_layers:
        model.expand("random", [layer % config.layers for layer in range(decoder_layers)])
    model.use_attention(kind)

    def count(name: str, call: Callable[[], object]) -> object:
        with FlopCounterMode(display=False) as counter:
            result = call()
        found[name] = counter.get_total_flops()
        return result

    count("training step", lambda: model(ids)[0].sum().backward())
    with torch.no_grad():
        count("forward, all positions", lambda: model(ids))
        _, past = count("prefill, last only", lambda: model(ids, None, 1))
        count("decode one token", lambda: model(ids[:, :1], past, 1))
    return found


class _counting:
    """While open, notes at how many positions (rows x columns) a tower of `model` runs."""

    def __init__(self, model: SST, tower: str = "decoder"):
        first = model.prefiller[0] if tower == "prefiller" else model
        self.runs, self.owner = bool(getattr(model, tower)), first
        self.name, self.seen = "write" if tower == "prefiller" else "decode", []

    def __enter__(self) -> list[int]:
        original = getattr(self.owner, self.name)

        def noted(stream: Tensor, *rest: object) -> object:
            self.seen.append(stream.shape[0] * stream.shape[1] * self.runs)
            return original(stream, *rest)

        setattr(self.owner, self.name, noted)
        return self.seen

    def __exit__(self, *_: object) -> None:
        delattr(self.owner, self.name)
