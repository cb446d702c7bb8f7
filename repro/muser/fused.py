"""Item vectors from ids and semantics, trained together with what reads a user's history.

Source: arXiv 2609.23677 as the project's notes give it (sections 3.1 and 3.5). That ids and
semantics are aligned and fused is reported; the gate and the form of the alignment are our
reconstruction. n items, d dimensions, semantic vectors z of dimension D. float32 on the CPU.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from repro.accept import count, one_of, positive
from repro.errors import BadParameter
from repro.muser import compression, controls, data, interests

PARTS = ("gate", "sum", "id", "semantics")
READERS = ("attention", "routing")
NEGATIVES = ("met", "all")


class Tower(nn.Module):
    """e_i = norm(W_b b_i + g_i * W_z z_i), g_i = sigmoid(W_g [b_i; W_z z_i; log(1 + n_i)]).

    z: [n, D], given and not trained. parts: ``gate`` is the formula, ``sum`` has g = 1, ``id`` and
    ``semantics`` keep one of the two terms. Raises BadParameter for z that is not finite.
    """

    def __init__(self, z: torch.Tensor, d: int, parts: str = "gate", seed: int = 0):
        super().__init__()
        if z.ndim != 2 or not torch.isfinite(z).all():
            raise BadParameter(f"z has shape {tuple(z.shape)}; accepted: [n, D], finite.")
        self.parts = one_of("parts", parts, PARTS)
        draw = torch.Generator().manual_seed(seed)
        wide = z.shape[1]

        def drawn(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(scale * torch.randn(*shape, generator=draw))

        # All parts are drawn in every arm, so that arms share their start.
        b = drawn(len(z), count("d", d), scale=0.1 * d**-0.5)  # an untrained id says little
        W_b = drawn(d, d, scale=d**-0.5)
        W_z = drawn(wide, d, scale=d**-0.5)
        W_g = drawn(2 * d + 1, d, scale=0.01)
        self.register_buffer("z", z.float())
        self.b, self.W_b = (b, W_b) if parts != "semantics" else (None, None)
        self.W_z = W_z if parts != "id" else None
        self.W_g = W_g if parts == "gate" else None

    def halves(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """W_b b and W_z z, [n, d] each; None for a part that is left out."""
        ids = None if self.b is None else self.b @ self.W_b
        return ids, None if self.W_z is None else self.z @ self.W_z

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        """e [n, d], rows of length 1. counts: [n], actions on each item so far."""
        ids, meaning = self.halves()
        if ids is None or meaning is None:
            return functional.normalize(meaning if ids is None else ids, dim=-1)
        if self.W_g is not None:
            known = torch.log1p(counts.float())[:, None]
            meaning = meaning * torch.sigmoid(torch.cat([self.b, meaning, known], -1) @ self.W_g)
        return functional.normalize(ids + meaning, dim=-1)


def alignment(ids: torch.Tensor, meaning: torch.Tensor, tau: float = 0.1) -> torch.Tensor:
    """Mean over items of -log softmax_j(cos(W_b b_i, W_z z_j) / tau) at j = i; both [B, d]."""
    positive("tau", tau)
    cos = functional.normalize(ids, dim=-1) @ functional.normalize(meaning, dim=-1).T
    return functional.cross_entropy(cos / tau, torch.arange(len(cos)))


@dataclass(frozen=True)
class Settings:
    """Sizes and weights that all arms share. queries: M. mu: weight of the alignment.

    drawn_from: negatives are drawn from the items ``met`` in training (see `pool`), or from ``all``
    of the catalogue, also those that have not arrived yet.
    """

    d: int = 16
    queries: int = 4
    tau: float = 0.07
    lam: float = 0.01
    mu: float = 0.1
    steps: int = 100
    batch: int = 32
    negatives: int = 64
    wanted: int = 5
    rate: float = 0.02
    drawn_from: str = "met"

    def __post_init__(self):
        one_of("drawn_from", self.drawn_from, NEGATIVES)
        for name in ("d", "queries", "steps", "batch", "negatives", "wanted"):
            count(name, getattr(self, name))
        positive("tau", self.tau)
        positive("rate", self.rate)
        if not (self.lam >= 0 and self.mu >= 0):
            raise BadParameter(f"lam={self.lam}, mu={self.mu} is refused; accepted: 0 or more.")


class Tokens:
    """Histories and plans of users as flat arrays, so that a batch is pooled in one step."""

    def __init__(self, rows: data.Rows, plans: list[compression.Plan]):
        for history, plan in zip(rows.history, plans, strict=True):
            if len(history) != plan.length:
                raise BadParameter(
                    f"a plan covers {plan.length} actions of {len(history)}; accepted: all of them."
                )
        self._items = [torch.from_numpy(h) for h in rows.history]
        self._blocks = [torch.from_numpy(p.block()) for p in plans]
        self._sizes = [torch.from_numpy(p.stop - p.start) for p in plans]
        self.lengths = np.array([len(p) for p in plans])

    def of(self, e: torch.Tensor, users: np.ndarray) -> tuple[torch.Tensor, ...]:
        """Mean of e [n, d] in each block, [B, Lc, d]; true where there is a token; sizes [B, Lc].

        Lc is that of the longest of `users`.
        """
        longest = int(self.lengths[users].max())
        size = nn.utils.rnn.pad_sequence([self._sizes[u] for u in users], batch_first=True)
        place = torch.cat([self._blocks[u] + at * longest for at, u in enumerate(users)])
        items = torch.cat([self._items[u] for u in users])
        total = e.new_zeros(len(users) * longest, e.shape[1]).index_add(0, place, e[items])
        pooled = total.view(len(users), longest, -1) / size.clamp(min=1)[..., None]
        return pooled, size > 0, size


class Model(nn.Module):
    """A tower and a reader of tokens: M interests a user, [B, M, d]."""

    def __init__(self, tower: Tower, d: int, queries: int, reader: str = "attention", seed=0):
        super().__init__()
        self.tower, self.reader = tower, one_of("reader", reader, READERS)
        draw = torch.Generator().manual_seed(seed + 1)
        start = functional.normalize(torch.randn(queries, d, generator=draw), dim=-1)
        if reader == "routing":
            self.register_buffer("logits", torch.randn(queries, 4096, generator=draw))
            self.S = nn.Parameter(torch.eye(d) + 0.1 * torch.randn(d, d, generator=draw))
        else:
            self.queries = nn.Parameter(4 * start)

    def forward(self, tokens, mask, sizes):
        if self.reader == "routing":
            return controls.routing(tokens @ self.S, self.logits[:, : tokens.shape[1]], mask)
        return interests.attend(self.queries, tokens, mask, sizes)

    def size(self) -> int:
        """Trained numbers."""
        return sum(p.numel() for p in self.parameters())


def pool(parts: list[data.Rows]) -> np.ndarray:
    """Items that anybody has met in training, [items]: what negatives are drawn from.

    An item that is not there yet is nobody's negative. Drawn all the same, it is pushed away from
    every user before its first day, and the gain of its semantics is lost.
    """
    met = np.max([rows.counts for rows in parts], axis=0) > 0
    met[np.concatenate([items for rows in parts for items in rows.future])] = True
    return np.flatnonzero(met)


def train(
    model: Model, parts: list[tuple[data.Rows, Tokens]], seed: int, settings: Settings
) -> list[float]:
    """Train on the rows of each cut, in turn; the loss of each step.

    Negatives are uniform. The same seed draws the same users and negatives in every
    arm.
    """
    draw = np.random.default_rng(seed)
    step = torch.optim.AdamW(model.parameters(), settings.rate, weight_decay=0.0)
    known = pool([rows for rows, _ in parts])
    if settings.drawn_from == "all":
        known = np.arange(len(model.tower.z))
    log_q = torch.full((settings.negatives,), -float(np.log(len(known))))
    wanted = [torch.from_numpy(rows.wanted(settings.wanted)) for rows, _ in parts]
    counted = [torch.from_numpy(rows.counts) for rows, _ in parts]
    losses = []
    for at in range(settings.steps):
        (rows, tokens), good, counts = (x[at % len(parts)] for x in (parts, wanted, counted))
        users = draw.integers(len(rows), size=settings.batch)
        other = torch.from_numpy(draw.choice(known, settings.negatives))
        good, e = good[users], model.tower(counts)
        u = model(*tokens.of(e, users))
        chosen = torch.cat([good.flatten(), other])
        s = interests.score(interests.cosines(u, e[chosen]), settings.tau) / settings.tau
        mine = torch.arange(good.numel()).view(good.shape)
        loss = interests.next_k(
            s.gather(1, mine), s[:, good.numel() :], log_q, good[..., None] == other
        )
        loss = loss + settings.lam * interests.orthogonality(u)
        ids, meaning = model.tower.halves()
        if settings.mu and ids is not None and meaning is not None:
            some = chosen.unique()
            loss = loss + settings.mu * alignment(ids[some], meaning[some])
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(float(loss.detach()))
    return losses


@torch.no_grad()
def scores(model: Model, rows: data.Rows, tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Largest cosine of each item to any interest, [B, n]; and the interests, [B, M, d]."""
    e = model.tower(torch.from_numpy(rows.counts))
    u = model(*tokens.of(e, np.arange(len(rows))))
    return interests.score(interests.cosines(u, e), 0.0).numpy(), u.numpy()
