"""A plain copy of a large buffer: the bandwidth that a kernel can reach on this device, today.

The share of it, beside the share of the nominal bandwidth, says what a kernel loses by itself. A
library's device copy is no such ceiling: on some devices it reaches two thirds of nominal.
"""

from math import ceil

import torch
from numba import types

from kernels.arrays import launch, tensor, words
from kernels.backend import cuda
from kernels.vector16 import load_global, store_global

THREADS = 256


# begin: stream
@cuda.jit
def stream(target, source):
    """Copy int32 words, 16 bytes a thread."""
    at = 4 * cuda.grid(1)
    if at < source.shape[0]:
        store_global(target, at, load_global(source, at))


# end: stream


def copy_(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy `source` [n] to `target` [n], flat, fp32, fp16 or bf16; traffic is twice the buffer."""
    tensor("source", source, "items"), tensor("target", target, "items", source)
    if target.shape != source.shape or target.dtype != source.dtype:
        raise ValueError(
            f"target is {target.dtype} {list(target.shape)}; accepted: {source.dtype} "
            f"{list(source.shape)}, as source."
        )
    flat = words("source", source, "items")
    grid = (ceil(flat.numel() / (4 * THREADS)),)
    launch(stream, grid, (THREADS,), words("target", target, "items"), flat)


PLAIN = {"stream": (stream, types.void(types.int32[::1], types.int32[::1]))}
