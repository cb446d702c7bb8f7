"""Batched sampling from a causal model over several turns, with one cache for all rows.

Rows are padded on the left, also inside later turns, so the cache holds gaps. They are masked, and
positions count the real tokens of each row, so no row depends on what shares its batch but for the
last digits. Which columns are real is kept from the start and never read off the ids: with this
tokenizer the pad id is the end-of-turn id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Sampled:
    """One turn of one row: ids drawn (the end token included if it came) and, for each, its
    log-probability in the distribution that it was drawn from."""

    ids: list[int]
    old: list[float]


class Batch:
    """Rows that grow together. `last` is the next-token logits [rows, vocabulary]."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], group: int = 1):
        """Read what all prompts begin with once, then the rest of each once; then `group` rows of
        each, side by side."""
        from transformers import DynamicCache

        self.model, self.device = model, model.device
        self.cache = DynamicCache(config=model.config)
        self.mask = torch.zeros((1, 0), dtype=torch.long, device=self.device)
        same = _common(prompts)
        if same:
            self._read([prompts[0][:same]])
        self._repeat(len(prompts))
        self.last = self._read([ids[same:] for ids in prompts])
        self._repeat(group)
        self.last = self.last.repeat_interleave(group, 0)

    def _repeat(self, times: int) -> None:
        if times > 1 and self.mask.shape[1]:
            self.cache.batch_repeat_interleave(times)
        self.mask = self.mask.repeat_interleave(times, 0)

    def __len__(self) -> int:
        return len(self.mask)

    @torch.inference_mode()
    def _read(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Append ids to each row (0 or more, one row at least 1); logits after the last of each."""
        width = max(map(len, rows))
        new = [[0] * (width - len(ids)) + [1] * len(ids) for ids in rows]
        ids = [[0] * (width - len(ids)) + list(ids) for ids in rows]
        fresh = torch.tensor(new, device=self.device)
        self.mask = torch.cat([self.mask, fresh], dim=1)
        places = (self.mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        out = self.model(
            input_ids=torch.tensor(ids, device=self.device),
            attention_mask=self.mask,
            position_ids=places,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1].float()

    def append(self, rows: Sequence[Sequence[int]]) -> None:
        """Read ids that nobody sampled, or that were sampled and not yet read; 1 or more a row."""
        self.last = self._read(rows)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        chosen = torch.tensor(list(rows), dtype=torch.long, device=self.device)
        self.cache.batch_select_indices(chosen)
        self.mask, self.last = self.mask[chosen], self.last[chosen]

    def generate(
        self,
        limits: Sequence[int],
        end: int,
        draws: Sequence[np.random.Generator],
        temperature: float = 1.0,
    ) -> list[Sampled]:
        """One turn of every row: up to `limits` tokens each (1 or more), until token `end`.

        draws: one generator a row and one number a token, so a row's text depends on its own
        generator alone. temperature 0 takes the likeliest token; `old` is then that of
        temperature 1. The last token of each row is not yet read: `append` it.
        """
        turns = [Sampled([], []) for _ in limits]
        open_rows = list(range(len(limits)))
        while open_rows:
            spread = self.last[open_rows] / (temperature or 1.0)
            old = torch.log_softmax(spread, dim=-1)
            if temperature:
                lots = [draws[row].random() for row in open_rows]
                picked = _inverse(old, torch.tensor(lots, dtype=torch.float64))
            else:
                picked = old.argmax(-1)
            said = old.gather(1, picked[:, None])[:, 0].tolist()
            for row, token, score in zip(open_rows, picked.tolist(), said, strict=True):
                turns[row].ids.append(token)
                turns[row].old.append(score)
            open_rows = [
                row
                for row in open_rows
                if turns[row].ids[-1] != end and len(turns[row].ids) < limits[row]
            ]
            if open_rows:
                reading = [[] for _ in limits]
                for row in open_rows:
                    reading[row] = turns[row].ids[-1:]
                self.last = self._read(reading)
        return turns


def _common(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; at least one of each is left over."""
    most = min(map(len, prompts)) - 1
    rows = np.array([ids[:most] for ids in prompts])
    differ = np.flatnonzero((rows != rows[0]).any(0))
    return int(differ[0]) if differ.size else most


def _inverse(old: torch.Tensor, lots: torch.Tensor) -> torch.Tensor:
    """Token of each row at which the summed probability passes its lot in [0, 1)."""
    summed = old.double().exp().cumsum(-1)
    aim = lots.to(summed.device)[:, None] * summed[:, -1:]
    return torch.searchsorted(summed, aim, right=True)[:, 0].clamp(max=old.shape[-1] - 1)
