"""Numbers from rows of logits, in blocks, so that [8192, 49152] does not fill the memory.

A row z [V] is shifted to a largest value of 0 and comes with ln Z, so ln P = z - ln Z. Blocks keep
float32 where the logits are float32; sums are float64.
"""

from typing import Any

import numpy as np

from repro.actkv.accept import count

_BLOCK = 1 << 24  # logits held at once, whatever the number of rows


def by_row(function, logits: Any, *columns: np.ndarray) -> np.ndarray:
    """`function(z, ln_z, *columns)` over rows in blocks; z [n, V] has its largest value at 0."""
    shape = shape_of(logits)
    flat = logits.reshape(-1, shape[-1]) if hasattr(logits, "reshape") else np.asarray(logits)
    flat = flat.reshape(-1, shape[-1])
    block = max(1, _BLOCK // shape[-1])
    parts = []
    for start in range(0, max(1, flat.shape[0]), block):
        rows = to_numpy(flat[start : start + block])
        if np.isnan(rows).any() or not np.isfinite(rows.max(-1)).all():
            raise ValueError("logits hold NaN, +inf or a row of -inf; accepted: numbers and -inf.")
        z = rows - rows.max(-1, keepdims=True)
        ln_z = np.log(np.exp(z).sum(-1, dtype=np.float64))
        parts.append(function(z, ln_z, *(c[start : start + block] for c in columns)))
    result = np.concatenate(parts)
    if not np.isfinite(result).all():
        raise ValueError(
            "logits give a token that is needed here probability 0, so its surprisal is infinite; "
            "accepted: raw logits, before top-p or top-k filtering."
        )
    return result.reshape((*shape[:-1], *result.shape[1:]))


def entropy(z: np.ndarray, ln_z: np.ndarray) -> np.ndarray:
    """H = ln Z - E[z] for z [n, V] shifted to a largest value of 0."""
    weighted = np.exp(z)
    weighted *= np.where(np.isneginf(z), 0, z)  # p ln p is 0 at p = 0
    return ln_z - weighted.sum(-1, dtype=np.float64) / np.exp(ln_z)


def top(z: np.ndarray, k: int) -> np.ndarray:
    """The k largest values of each row, in no particular order."""
    return np.partition(z, z.shape[-1] - k, axis=-1)[:, z.shape[-1] - k :].astype(np.float64)


def to_numpy(values: Any) -> np.ndarray:
    """A floating NumPy array; torch tensors by their own methods, so torch is not imported."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values if values.element_size() >= 4 else values.float()).numpy()
    values = np.asarray(values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def shape_of(logits: Any) -> tuple[int, ...]:
    shape = tuple(np.shape(logits))
    if not shape or not shape[-1]:
        raise ValueError(f"logits have shape {shape}; accepted: [..., V] with V >= 1.")
    return shape


def token_column(tokens: Any, logits: Any) -> np.ndarray:
    shape = shape_of(logits)
    if tokens is None:
        raise ValueError(
            "tokens=None is refused for kind='sampled_surprisal'; accepted: the sampled ids."
        )
    ids = np.asarray(tokens.cpu() if hasattr(tokens, "cpu") else tokens)
    if ids.shape != shape[:-1] or ids.dtype.kind not in "iu":
        raise ValueError(
            f"tokens have shape {ids.shape}, {ids.dtype}; accepted: integers {shape[:-1]}."
        )
    if ids.size and not (0 <= ids.min() and ids.max() < shape[-1]):
        raise ValueError(
            f"tokens span {ids.min()}..{ids.max()}; accepted: 0..V-1 = 0..{shape[-1] - 1}."
        )
    return ids.reshape(-1)


def accepted_k(top_k: int, logits: Any) -> int:
    if count("top_k", top_k) > (vocabulary := shape_of(logits)[-1]):
        raise ValueError(f"top_k={top_k} is refused; accepted: 1..V = 1..{vocabulary}.")
    return top_k
