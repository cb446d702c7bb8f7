"""From torch tensors to what a kernel takes, with every wrong tensor named.

A kernel sees a cache as one flat array of 32-bit words; distances come from the tensor's own
strides, so that any layout with contiguous rows will do, and offsets count 16-byte vectors.
"""

import numpy as np
import torch

from kernels.backend import cuda
from kernels.vector16 import SIMULATED

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def tensor(name: str, x: torch.Tensor, dims: str, like: torch.Tensor | None = None) -> torch.Tensor:
    """Check that `x` is a tensor with one dimension for each word of `dims`.

    With `like`, also that it lies on the same device. Returns `x` without gradient.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}={type(x).__name__}; accepted: a torch tensor [{dims}].")
    if x.ndim != len(dims.split()):
        raise ValueError(f"{name} has shape {list(x.shape)}; accepted: [{dims}].")
    if like is not None and x.device != like.device:
        raise ValueError(f"{name} is on {x.device}; accepted: {like.device}, as the rest.")
    return x.detach()


def words(name: str, x: torch.Tensor, dims: str) -> torch.Tensor:
    """The memory under `x` [`dims`] as flat 32-bit words, checked for 16-byte access.

    Raises TypeError for an element type without a kernel, ValueError for a wrong shape, device or
    for rows that are not contiguous and 16-byte aligned.
    """
    x = tensor(name, x, dims)
    if x.dtype not in DTYPES:
        raise TypeError(f"{name}.dtype={x.dtype}; accepted: {', '.join(map(str, DTYPES))}.")
    if x.device.type != ("cpu" if SIMULATED else "cuda"):
        raise ValueError(
            f"{name} is on {x.device}; accepted: a CUDA device, or the CPU under "
            "NUMBA_ENABLE_CUDASIM=1. On a CPU the reference of the same module does the work."
        )
    if not x.numel():
        raise ValueError(f"{name} has shape {list(x.shape)}; accepted: no empty dimension.")
    if x.stride(-1) != 1:
        raise ValueError(f"{name} has stride {x.stride(-1)} in its last dimension; accepted: 1.")
    size = x.element_size()
    steps = [x.shape[-1], *(s for s, n in zip(x.stride()[:-1], x.shape, strict=False) if n > 1)]
    if x.data_ptr() % 16 or any(s * size % 16 or not s for s in steps):
        raise ValueError(
            f"{name} has rows of {x.shape[-1] * size} bytes, strides {list(x.stride())} and its "
            f"start {x.data_ptr() % 16} bytes past a multiple of 16; accepted: multiples of 16."
        )
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((span,), (1,)).view(torch.int32)


def steps(x: torch.Tensor) -> list[int]:
    """Distance between neighbours in each dimension but the last, in 16-byte vectors."""
    return [s * x.element_size() // 16 for s in x.stride()[:-1]]


def integers(
    name: str, x: torch.Tensor, dims: str, like: torch.Tensor, least: int, most: int, check: bool
) -> torch.Tensor:
    """`x` as contiguous int32 on the device of `like`, its values within `least` … `most`.

    `check=False` skips the look at the values, which waits for the device.
    """
    x = tensor(name, x, dims, like)
    if x.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}.dtype={x.dtype}; accepted: torch.int32, torch.int64.")
    if check and x.numel():
        low, high = int(x.min()), int(x.max())
        if low < least or high > most:
            raise ValueError(f"{name} has values {low} … {high}; accepted: {least} … {most}.")
    return x.to(torch.int32).contiguous()


def host(x) -> np.ndarray:
    """A tensor of any device, or an array, as an array."""
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def float64(x) -> np.ndarray:
    """A float64 copy, for references."""
    return np.array(host(x.double() if isinstance(x, torch.Tensor) else x), np.float64)


def shaped(name: str, x: torch.Tensor, shape: tuple[int, ...], why: str) -> None:
    """Raise ValueError unless `x` has exactly `shape`; `why` says where that comes from."""
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} has shape {list(x.shape)}; accepted: {list(shape)}, {why}.")


def asked(queries: torch.Tensor, dims: str, keys: torch.Tensor, table: torch.Tensor, check: bool):
    """What score recovery and decoding share: queries [`dims`] of a pool `keys` [N, T, H, D].

    Returns the queries as words and the block table [R, P] as int32; `keys` is checked already.
    """
    given = tensor("queries", queries, dims, keys).contiguous()
    if given.dtype != keys.dtype:
        raise TypeError(f"queries.dtype={given.dtype}; accepted: {keys.dtype}, as keys.")
    blocks, _, heads, dim = keys.shape
    if given.shape[-2] % heads:
        raise ValueError(
            f"queries have {given.shape[-2]} heads; accepted: a multiple of {heads}, as keys."
        )
    shaped("queries", given, (*given.shape[:-1], dim), "with the head dim of keys")
    table = integers("table", table, "requests blocks", keys, 0, blocks - 1, check)
    shaped("table", table, (len(given), table.shape[1]), "one row per request")
    return words("queries", given, dims), table


def fitting(queries, keys, table, lengths, name: str) -> None:
    """What a reference needs before it indexes: heads, head dim, table and `lengths` that fit.

    queries [..., Q, D], keys [N, T, H, D], table [R, P], lengths of any shape, called `name`;
    arrays or tensors. (A negative block number would read the pool from its end, unnoticed.)
    """
    blocks, slots, heads, dim = keys.shape
    if queries.shape[-1] != dim or queries.shape[-2] % heads:
        raise ValueError(
            f"queries has shape {list(queries.shape)}; accepted: [..., Q, {dim}], Q a multiple of "
            f"{heads}, as keys."
        )
    if table.ndim != 2 or len(table) != len(queries) or len(lengths) != len(queries):
        raise ValueError(
            f"table has shape {list(table.shape)} and {name} {list(lengths.shape)}; accepted: one "
            f"row for each of {len(queries)} requests."
        )
    used = -(-int(lengths.max()) // slots)
    if int(lengths.min()) < 0 or used > table.shape[1]:
        raise ValueError(
            f"{name} has values {int(lengths.min())} … {int(lengths.max())}; accepted: 0 … "
            f"{table.shape[1] * slots}, the slots of table."
        )
    longest = lengths.reshape(len(table), -1).max(1)
    for row, length in zip(table, longest, strict=True):
        named = row[: -(-int(length) // slots)]
        if len(named) and not 0 <= int(named.min()) <= int(named.max()) < blocks:
            raise ValueError(
                f"table has values {int(named.min())} … {int(named.max())}; accepted: 0 … "
                f"{blocks - 1}."
            )


def launch(kernel, grid: tuple[int, ...], threads: tuple[int, ...], *args) -> None:
    """Start `kernel` on torch's current stream, so that it runs in order with torch's work."""

    def given(x):
        if not isinstance(x, torch.Tensor):
            return x
        return x.numpy() if SIMULATED else cuda.as_cuda_array(x, sync=False)

    stream = 0
    if not SIMULATED:
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    kernel[grid, threads, stream](*map(given, args))
