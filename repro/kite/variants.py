"""The same steps without any decision on the host, so that they can be compiled or captured.

`SST.forward` looks at lengths and rows in Python, which a CUDA graph cannot hold. Here prompt and
context are fixed, batch 1: the same blocks and weights, tensors only. The decode step writes slot
`context` of its own buffers each time it is called, so repeating it repeats the same work.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from repro import accept
from repro.errors import BadParameter
from repro.kite.blocks import angles
from repro.kite.model import SST, junction, source_layer

NAMES = ("served", "eager", "compiled", "graph")
WARM = 3  # calls on a side stream before a graph is captured


class Prefill(nn.Module):
    """ids [1, S] -> logits [1, V] after the last token, and the Prefiller's KV [1, h_kv, S, d_h].

    last_only=False runs Decoder and head at all positions, as a comparison.
    """

    def __init__(self, model: SST, prompt: int, last_only: bool = True):
        super().__init__()
        self.model, self.first = model, 0 if not last_only else accept.count("prompt", prompt) - 1
        _turns(self, model, torch.arange(prompt))

    def forward(self, ids: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        model, kept, turn = self.model, [], (self.cos, self.sin)
        e = h = model.embedding(ids)
        for block in model.prefiller:
            k, v = block.write(h, turn)
            kept.append((k, v))
            h = block.read(h, k, v, "causal" if ids.shape[1] > 1 else "all", turn)
        e, h, turn = (
            e[:, self.first :],
            h[:, self.first :],
            tuple(t[:, :, self.first :] for t in turn),
        )
        if model.decoder:
            h = junction(e, h)
        for layer, block in enumerate(model.decoder):
            k, v = kept[source_layer(model.layer_map, layer)]
            h = block.read(h, k, v, "all" if h.shape[1] == 1 else "causal", turn)
        return model.head(model.norm(h))[:, -1], kept


class Decode(nn.Module):
    """id [1, 1] -> logits [1, V], reading `context` cached tokens and its own.

    kept: the KV of the context, as `Prefill` gives it; copied into buffers with one slot more.
    """

    def __init__(self, model: SST, kept: list[tuple[Tensor, Tensor]]):
        super().__init__()
        self.model, self.context = model, kept[0][0].shape[2]
        _turns(self, model, torch.tensor([self.context]))
        for layer, (k, v) in enumerate(kept):
            for name, old in ((f"k{layer}", k), (f"v{layer}", v)):
                self.register_buffer(name, torch.cat([old, torch.zeros_like(old[:, :, :1])], 2))

    def forward(self, ids: Tensor) -> Tensor:
        model, turn = self.model, (self.cos, self.sin)
        e = h = model.embedding(ids)
        for layer, block in enumerate(model.prefiller):
            k, v = self._layer(layer)
            for kept, new in zip((k, v), block.write(h, turn), strict=True):
                kept[:, :, self.context :].copy_(new)
            h = block.read(h, k, v, "all", turn)
        if model.decoder:
            h = junction(e, h)
        for layer, block in enumerate(model.decoder):
            h = block.read(h, *self._layer(source_layer(model.layer_map, layer)), "all", turn)
        return model.head(model.norm(h))[:, -1]

    def _layer(self, layer: int) -> tuple[Tensor, Tensor]:
        return getattr(self, f"k{layer}"), getattr(self, f"v{layer}")


def _turns(step: nn.Module, model: SST, positions: Tensor) -> None:
    """Rotary angles [1, 1, T, d_h / 2] as buffers, in the model's own number format."""
    if model.config.style != "modern":
        raise BadParameter(
            f"style={model.config.style!r} is refused; accepted: modern, with rotary positions."
        )
    weight = model.embedding.weight
    turn = angles(positions[None].to(weight.device), model.config.head_size)
    for name, value in zip(("cos", "sin"), turn, strict=True):
        step.register_buffer(name, value.to(weight.dtype))


class Graph:
    """A call, captured once in a CUDA graph: `__call__` replays it into the same tensors.

    cuda: `torch.cuda`, or what stands for it in a test. The call must take no host decision and
    keep its inputs where they are.
    """

    def __init__(self, call: Callable[[], Any], cuda: Any = None):
        cuda = torch.cuda if cuda is None else cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(WARM):
                call()
        cuda.current_stream().wait_stream(side)
        self.graph = cuda.CUDAGraph()
        with cuda.graph(self.graph):
            self.output = call()

    def __call__(self) -> Any:
        self.graph.replay()
        return self.output


def variant(name: str, step: nn.Module, ids: Tensor, **options: Any) -> Callable[[], Any]:
    """A call without arguments: `step` on `ids`, "eager", "compiled" or captured as a "graph".

    options: for `torch.compile`. Raises BadParameter for a graph where there is no CUDA device.
    """
    accept.one_of("variant", name, NAMES[1:])
    if name == "graph" and ids.device.type != "cuda":
        raise BadParameter(
            f"variant='graph' on {ids.device.type} is refused; accepted: on a CUDA device."
        )
    if name == "compiled":
        step = torch.compile(step, fullgraph=True, dynamic=False, **options)

    def call() -> Any:
        with torch.no_grad():
            return step(ids)

    return Graph(call) if name == "graph" else call
