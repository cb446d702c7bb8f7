"""The gated delta rule under DeltaS (arXiv 2609.27470, section 2): token by token, and chunked.

Per token: decay first, then the error against the *decayed* state, then the write, then the read:

    e_t = v_t - a_t S_{t-1}^T k_t
    S_t = a_t S_{t-1} + k_t (b_t e_t)^T
    o_t = S_t^T q_t / sqrt(d_k)

with a_t = exp(g_t) and keys and queries of length 1. Shapes: B sequences, T tokens, H heads; keys
on the rows of the state, as in `transformers` and `fla`. Everything is computed in float32.
"""

import torch
from torch import Tensor

_NORM = 1e-6  # under the root of the length, as in transformers


def unit(x: Tensor) -> Tensor:
    """Vectors of length 1 along the last dimension; a zero vector stays zero, without NaN."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + _NORM)


def recurrent(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """One token after the other: the reference.

    q, k [B, T, H, d_k], v [B, T, H, d_v], log_decay (g, at most 0) and beta [B, T, H], state
    [B, H, d_k, d_v] or None for zeros. Returns outputs [B, T, H, d_v], the new state, and the
    committed residual beta * |e| [B, T, H]. `state` is not changed.
    Raises ValueError for shapes that do not fit.
    """
    q, k, v, log_decay, beta, state = _ready(q, k, v, log_decay, beta, state)
    outs, residuals = [], []
    for t in range(q.shape[1]):
        state = state * log_decay[:, t].exp()[..., None, None]
        written = beta[:, t, :, None] * _error(state, k[:, t], v[:, t])
        state = state + k[:, t, :, :, None] * written[..., None, :]
        outs.append(_read(state, q[:, t]))
        residuals.append(written.norm(dim=-1))
    return torch.stack(outs, 1), state, torch.stack(residuals, 1)


def chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    chunk: int = 64,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same in blocks of `chunk` tokens, one triangular system a block; arguments as above.

    With c_i = sum_{j <= i} g_j inside a block and A_ij = b_i (k_i . k_j) exp(c_i - c_j) below the
    diagonal, (I + A) X = b (V - exp(c) K S) gives X_i = b_i e_i: what token i writes.
    """
    if chunk < 1:
        raise ValueError(f"chunk={chunk} is refused; accepted: at least 1.")
    q, k, v, log_decay, beta, state = _ready(q, k, v, log_decay, beta, state)
    outs, residuals = [], []
    for start in range(0, q.shape[1], chunk):
        here = slice(start, start + chunk)
        args = (x[:, here].transpose(1, 2) for x in (q, k, v, log_decay, beta))  # [B, H, T, ...]
        out, state, written = _block(*args, state)
        outs.append(out.transpose(1, 2))
        residuals.append(written.norm(dim=-1).transpose(1, 2))
    return torch.cat(outs, 1), state, torch.cat(residuals, 1)


def _error(decayed: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v - S^T k, against the state that has decayed already. [B, H, d_v]"""
    return v - (decayed * k[..., None]).sum(-2)


def _read(state: Tensor, q: Tensor) -> Tensor:
    return (state * q[..., None]).sum(-2) * q.shape[-1] ** -0.5


def _block(q, k, v, log_decay, beta, state):
    """One block. q, k, v [B, H, T, d], log_decay and beta [B, H, T]."""
    c = log_decay.cumsum(-1)
    ratio = _between(c)
    system = beta[..., None] * (k @ k.transpose(-1, -2)) * ratio
    wanted = beta[..., None] * (v - c.exp()[..., None] * (k @ state))
    # unitriangular: the diagonal is taken as 1, which is the I of I + A
    written = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    q = q * q.shape[-1] ** -0.5
    out = c.exp()[..., None] * (q @ state) + ((q @ k.transpose(-1, -2)) * ratio) @ written
    last = c[..., -1:]
    state = last.exp()[..., None] * state
    state = state + (k * (last - c).exp()[..., None]).transpose(-1, -2) @ written
    return out, state, written


def _between(c: Tensor) -> Tensor:
    """Decay from token j to token i of a block, exp(c_i - c_j), 0 for j > i. [B, H, T, T]"""
    later = torch.ones(c.shape[-1], c.shape[-1], dtype=torch.bool, device=c.device).triu(1)
    # Masked before the exponential: above the diagonal the exponent is positive and overflows.
    return (c[..., :, None] - c[..., None, :]).masked_fill(later, -torch.inf).exp()


def _ready(q, k, v, log_decay, beta, state):
    """All in float32, keys and queries of length 1, shapes checked."""
    shape = (*k.shape[:3], v.shape[-1])
    if q.ndim != 4 or q.shape != k.shape or v.shape != shape or not q.shape[1]:
        raise ValueError(
            f"q, k, v have shapes {list(q.shape)}, {list(k.shape)}, {list(v.shape)}; accepted: "
            "[B, T, H, d_k] twice and [B, T, H, d_v], T at least 1."
        )
    for name, x in (("log_decay", log_decay), ("beta", beta)):
        if x.shape != k.shape[:3]:
            raise ValueError(
                f"{name} has shape {list(x.shape)}; accepted: {list(k.shape[:3])}, as k."
            )
    wanted = (k.shape[0], k.shape[2], k.shape[3], v.shape[3])
    if state is None:
        state = torch.zeros(wanted, device=k.device)
    if state.shape != wanted:
        raise ValueError(f"state has shape {list(state.shape)}; accepted: {list(wanted)}.")
    q, k, v, log_decay, beta, state = (x.float() for x in (q, k, v, log_decay, beta, state))
    return unit(q), unit(k), v, log_decay, beta, state
