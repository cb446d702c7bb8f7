"""Sixteen bytes as fp32 numbers: four of fp32, eight of fp16 or bf16.

Kernels read a cache as 32-bit words. So one kernel body serves three element types, and bf16 needs
no type of its own: a bf16 number is the upper half of an fp32 number.
"""

from dataclasses import dataclass
from typing import Any

from kernels.backend import cuda
from kernels.vector16 import as_float, as_halves, load_shared, store_global, store_shared


@cuda.jit(device=True)
def _fp32(words):
    return as_float(words[0]), as_float(words[1]), as_float(words[2]), as_float(words[3])


@cuda.jit(device=True)
def _fp16(words):
    a, b = as_halves(words[0])
    c, d = as_halves(words[1])
    e, f = as_halves(words[2])
    g, h = as_halves(words[3])
    return a, b, c, d, e, f, g, h


@cuda.jit(device=True)
def _bf16(words):
    low, high = 16, -65536  # the shift for the lower number, the mask for the upper one
    a, b, c, d = words
    p, q, r, s = as_float(a << low), as_float(b << low), as_float(c << low), as_float(d << low)
    return (
        p,
        as_float(a & high),
        q,
        as_float(b & high),
        r,
        as_float(c & high),
        s,
        as_float(d & high),
    )


@cuda.jit(device=True)
def _dot4(x, y, at):
    p = load_shared(y, at)
    return x[0] * p[0] + x[1] * p[1] + x[2] * p[2] + x[3] * p[3]


@cuda.jit(device=True)
def _dot8(x, y, at):
    p, q = load_shared(y, at), load_shared(y, at + 4)
    low = x[0] * p[0] + x[1] * p[1] + x[2] * p[2] + x[3] * p[3]
    return low + x[4] * q[0] + x[5] * q[1] + x[6] * q[2] + x[7] * q[3]


@cuda.jit(device=True)
def _mix4(s, a, x, b):
    return s[0] * a + x[0] * b, s[1] * a + x[1] * b, s[2] * a + x[2] * b, s[3] * a + x[3] * b


@cuda.jit(device=True)
def _mix8(s, a, x, b):
    return (
        s[0] * a + x[0] * b,
        s[1] * a + x[1] * b,
        s[2] * a + x[2] * b,
        s[3] * a + x[3] * b,
        s[4] * a + x[4] * b,
        s[5] * a + x[5] * b,
        s[6] * a + x[6] * b,
        s[7] * a + x[7] * b,
    )


@cuda.jit(device=True)
def _stage4(y, at, x, scale):
    store_shared(y, at, (x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale))


@cuda.jit(device=True)
def _stage8(y, at, x, scale):
    store_shared(y, at, (x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale))
    store_shared(y, at + 4, (x[4] * scale, x[5] * scale, x[6] * scale, x[7] * scale))


@cuda.jit(device=True)
def _write4(y, at, x, scale):
    store_global(y, at, (x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale))


@cuda.jit(device=True)
def _write8(y, at, x, scale):
    store_global(y, at, (x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale))
    store_global(y, at + 4, (x[4] * scale, x[5] * scale, x[6] * scale, x[7] * scale))


@dataclass(frozen=True)
class Element:
    """How kernels handle one element type: device functions on `16 // bytes` fp32 numbers.

    unpack: four words -> the numbers.
    dot: (numbers, shared fp32 array, index) -> sum of products.
    mix: (sums, a, numbers, b) -> ``sums * a + numbers * b``.
    stage, write: (fp32 array, index, numbers, scale) stores the scaled numbers, in shared memory
    and in global memory.
    """

    bytes: int
    unpack: Any
    dot: Any
    mix: Any
    stage: Any
    write: Any


ELEMENTS = {
    "float32": Element(4, _fp32, _dot4, _mix4, _stage4, _write4),
    "float16": Element(2, _fp16, _dot8, _mix8, _stage8, _write8),
    "bfloat16": Element(2, _bf16, _dot8, _mix8, _stage8, _write8),
}

SHARED = 36 * 1024  # bytes of keys in shared memory; 48 KiB are there without asking


def tile_slots(dtype: str, dim: int) -> int:
    """Slots whose keys a program holds in shared memory: 64, or what fits (a power of two)."""
    if dtype not in ELEMENTS or dim < 1:
        raise ValueError(f"dtype={dtype!r}, dim={dim}; accepted: {', '.join(ELEMENTS)}, dim >= 1.")
    row = dim * ELEMENTS[dtype].bytes + 16
    return max(1, min(64, 1 << (SHARED // row).bit_length() - 1))
