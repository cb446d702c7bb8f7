"""AgentKV (arXiv 2609.14872): recent queries of every phase vote, without decay.

    a_h(i) = mean over g in group h and over the stored queries of softmax(q k / sqrt d)_i
    keep   = the first `sink`, and the best of the rest by a

One buffer a phase (think, act, tool, others: here reasoning, action, observation, prefix) with its
newest ceil(q / 4) queries, q = 32. Old queries are not masked: they may look at entries that came
after them. That, the mean over the group and the absence of pooling are the notes' reading
(6.4), which no source settles. The paper compresses every 128 tokens; here the common trigger.
"""

from dataclasses import dataclass

import torch

from repro.actkv.accept import count, natural, one_of
from repro.actkv.policies.base import PHASES, Keys, Policy, attention, beyond, newest, observed


@dataclass(kw_only=True)
class AgentKV(Policy):
    """queries: stored in all. sink: None is 0 under a protected prefix, else the paper's 32."""

    queries: int = 32
    sink: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self.sink = natural(
            "sink", (0 if self.protected else 32) if self.sink is None else self.sink
        )
        self.size = -(-count("queries", self.queries) // len(PHASES))
        self.buffers: list[dict[str, torch.Tensor]] = [{} for _ in range(self.layers)]

    def observe(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, phase: str) -> None:
        buffer = self.buffers[layer]
        buffer[one_of("phase", phase, PHASES)] = newest(buffer.get(phase), queries, self.size)

    def scores(self, layer: int, length: int, budget: int, keys: Keys) -> torch.Tensor:
        beyond("sink", self.sink, budget)
        observed(next(iter(self.buffers[layer].values()), None))
        stored = torch.cat(list(self.buffers[layer].values()), 1)
        row = attention(stored, keys(layer), causal=False).mean((1, 2))
        row[:, self.protected : self.protected + self.sink] = torch.inf
        return row
