"""How far a chunk moves the recurrent states (DeltaS, arXiv 2609.27470, Eq. 3), and its variants.

States are lists with one tensor [B, H, d_k, d_v] a linear layer; every result is [B], a number for
each of B sequences, or [B, T] where it says so. All arithmetic is float32 on the states' device.
Open in the sources [U], so an argument: whether the heads of a layer are pooled before the ratio
(`reduce`), and the floor `eps` of the denominator (1e-12 in the one public selector).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from repro.errors import BadParameter

REDUCE = ("layer", "head")


def copied(states: Sequence[Tensor]) -> list[Tensor]:
    """Copies in float32: caches update states in place, and a reference would show no move."""
    return [_full(s.detach()).clone() for s in states]


def drift(
    before: Sequence[Tensor], after: Sequence[Tensor], reduce: str = "layer", eps: float = 1e-12
) -> Tensor:
    """Eq. 3: mean over layers of |S+ - S-| / max(|S-|, eps), Frobenius norms. [B]

    reduce: "layer" pools the heads of a layer before the ratio, "head" takes the mean of the heads'
    ratios. The first chunk starts from zero: its drift is |S+| / eps, a very large number.
    Raises BadParameter for other arguments, states that do not pair up, NaN or infinity.
    """
    before, after = _pair(before, after)
    moved = [a - b for b, a in zip(before, after, strict=True)]
    return _ratio(moved, before, reduce, eps)


def write_drift(
    before: Sequence[Tensor],
    after: Sequence[Tensor],
    log_decay: Sequence[Tensor],
    reduce: str = "layer",
    eps: float = 1e-12,
) -> Tensor:
    """What was written and not merely forgotten: |S+ - (prod a_t) S-| / max(|S-|, eps). [B]

    log_decay: a tensor [B, T, H] a layer, the log-decays of the chunk's tokens.
    """
    before, after = _pair(before, after)
    kept = _kept(before, log_decay)
    moved = [a - k * b for b, a, k in zip(before, after, kept, strict=True)]
    return _ratio(moved, before, reduce, eps)


def decay_drift(
    before: Sequence[Tensor], log_decay: Sequence[Tensor], reduce: str = "layer", eps: float = 1e-12
) -> Tensor:
    """The drift of a chunk that writes nothing: |(1 - prod a_t) S-| / max(|S-|, eps). [B]

    With one head this is 1 - prod a_t. It is the part of `drift` that only the gates decide.
    """
    before, _ = _pair(before, before)
    moved = [(1 - k) * b for b, k in zip(before, _kept(before, log_decay), strict=True)]
    return _ratio(moved, before, reduce, eps)


def residual(committed: Sequence[Tensor]) -> Tensor:
    """Token by token beta * |e|, mean over layers and heads. [B, T]

    committed: a tensor [B, T, H] a layer. The rule of HOLA (arXiv 2607.02303): no division, so
    no start-up, and it tells the tokens of a chunk apart.
    """
    if not committed:
        raise BadParameter("committed is empty; accepted: [B, T, H] for each linear layer.")
    return torch.stack([_full(c).mean(-1) for c in committed]).mean(0)


def bound(before: Sequence[Tensor], log_decay: Sequence[Tensor], committed: Sequence[Tensor]):
    """Upper bounds of |S+ - S-| of each layer, head by head: forgetting + writing, [B, H] each.

    From |S_t - S_{t-1}| <= (1 - a_t) |S_{t-1}| + beta_t |e_t| over the tokens of the chunk.
    """
    found = []
    for s, g, c in zip(before, log_decay, committed, strict=True):
        size, forgot = s.norm(dim=(-2, -1)), s.new_zeros(s.shape[:2])
        for t in range(g.shape[1]):
            forgot = forgot + (1 - g[:, t].exp()) * size
            size = g[:, t].exp() * size + c[:, t]
        found.append((forgot, c.sum(1)))
    return found


def _full(x: Tensor) -> Tensor:
    """float32: bfloat16 has 8 bits, so a drift below about 0.4 % would vanish."""
    return x.float()


def _size(x: Tensor, reduce: str) -> Tensor:
    return x.norm(dim=(-2, -1)) if reduce == "head" else x.flatten(1).norm(dim=1)


def _ratio(moved: list[Tensor], before: list[Tensor], reduce: str, eps: float) -> Tensor:
    if reduce not in REDUCE:
        raise BadParameter(f"reduce={reduce!r} is refused; accepted: {REDUCE}.")
    if not eps > 0:
        raise BadParameter(f"eps={eps!r} is refused; accepted: a number above 0.")
    layers = []
    for m, b in zip(moved, before, strict=True):
        ratio = _size(m, reduce) / _size(b, reduce).clamp(min=eps)
        layers.append(ratio.mean(-1) if reduce == "head" else ratio)
    return torch.stack(layers).mean(0)


def _kept(before: list[Tensor], log_decay: Sequence[Tensor]) -> list[Tensor]:
    """Product of the decays over the chunk, [B, H, 1, 1] a layer."""
    if len(log_decay) != len(before):
        raise BadParameter(
            f"log_decay has {len(log_decay)} layers; accepted: {len(before)}, as the states."
        )
    for at, (g, b) in enumerate(zip(log_decay, before, strict=True)):
        if g.ndim != 3 or (g.shape[0], g.shape[2]) != tuple(b.shape[:2]):
            raise BadParameter(
                f"log_decay[{at}] has shape {list(g.shape)}; accepted: [{b.shape[0]}, T, "
                f"{b.shape[1]}]."
            )
    return [_full(g).sum(1).exp()[..., None, None] for g in log_decay]


def _pair(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    if not before or len(before) != len(after):
        raise BadParameter(
            f"before has {len(before)} layers and after {len(after)}; accepted: equally many, "
            "at least one."
        )
    for name, states in (("before", before), ("after", after)):
        for at, (s, like) in enumerate(zip(states, before, strict=True)):
            if s.ndim != 4 or s.shape != like.shape:
                raise BadParameter(
                    f"{name}[{at}] has shape {list(s.shape)}; accepted: [B, H, d_k, d_v], the same "
                    "before and after."
                )
            if not s.isfinite().all():
                raise BadParameter(
                    f"{name}[{at}] holds NaN or infinity; accepted: finite states. A drift of a "
                    "broken state would rank its chunk at random."
                )
    return [_full(s) for s in before], [_full(s) for s in after]
