"""A language model as controller: the menu entry is chosen by its likelihood.

Head (task, actions) and what is seen go before; then every entry is scored as the answer, its end
included, all in one pass: entries stand side by side and do not see each other. Longer names and
names that the model likes anyway would win unasked, so by default the score is

    s(a) = log p(a, end | head, last, seen) - log p(a, end | head, last, nothing seen),

with `last` the line about the action before. The choice is the largest of s(a) / temperature +
noise. The noise belongs to seed, turn and name, so an entry that two menus share has the same luck
in both. A menu of M entries has the chance level 1 / M whatever the scores are; so the random
controller on the same menu is the comparison.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from repro.code_skills import text
from repro.code_skills.episode import Spec
from repro.errors import BadParameter

RULES = ("calibrated", "sum", "mean")
PARAMETERS = {"model": "smollm2-135m", "score": "calibrated", "temperature": 1.0, "history": 1}
NOTHING = "You see: nothing of note."


@dataclass
class Usage:
    """What one episode cost: calls, tokens read anew, tokens of scored answers; entropy of each
    choice (nats) with the size of its menu."""

    calls: int = 0
    tokens_read: int = 0
    tokens_scored: int = 0
    entropies: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class Chooser:
    """Answers for the controller "lm"; heads are read once and kept."""

    def __init__(
        self, model: Any, tokenizer: Any, rule: str = "calibrated", temperature: float = 1.0
    ):
        if rule not in RULES:
            raise BadParameter(f"rule={rule!r} is not known; accepted: {', '.join(RULES)}.")
        if not temperature >= 0:
            raise BadParameter(f"temperature={temperature} is refused; accepted: >= 0.")
        self.model, self.tokenizer = model, tokenizer
        self.rule, self.temperature = rule, temperature
        self._heads: dict[str, Any] = {}
        self._neutral: dict[tuple[str, str, tuple[str, ...]], np.ndarray] = {}

    def start(self, spec: Spec, menu: dict, usage: Usage) -> Callable[[str, list[str]], str]:
        """Who answers in the episode of `spec` with `menu`; fills `usage` on the way."""
        head = text.instructions(menu, text.goal(spec.task))

        def ask(seen: str, names: list[str]) -> str:
            logp, lengths = self.logp(head, seen, names, usage)
            without = self._without(head, text.split(seen)[0], names, usage)
            scores = score(logp, lengths, without, self.rule)
            lot = noise(spec.seed, len(usage.sizes), names)
            pick = choose(scores, lot, self.temperature)
            usage.entropies.append(entropy(scores, self.temperature))
            usage.sizes.append(len(names))
            return names[pick]

        return ask

    @torch.inference_mode()
    def logp(
        self, head: str, seen: str, names: Sequence[str], usage: Usage | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(log p of each entry with its end, number of its tokens), both [M]."""
        cache, known = self._read(head)
        shown = self._ids(f"<|im_start|>user\n{seen}<|im_end|>\n<|im_start|>assistant\n")
        answers = [self._ids(f"{name}<|im_end|>") for name in names]
        ids = torch.tensor([shown + [t for a in answers for t in a]], device=self.model.device)
        where, mask = layout(known, len(shown), [len(a) for a in answers])
        hidden = self.model.base_model(
            ids,
            attention_mask=mask.to(self.model.device),
            position_ids=where.to(self.model.device),
            cache=cache,
            use_cache=True,
        ).last_hidden_state[0]
        cache.crop(-len(ids[0]))
        if usage is not None:
            usage.calls += 1
            usage.tokens_read += len(shown)
            usage.tokens_scored += sum(map(len, answers))
        return _answers(self.model, hidden, answers, len(shown)), np.array([*map(len, answers)])

    def _without(self, head: str, last: str, names: Sequence[str], usage: Usage) -> np.ndarray:
        """log p of each entry when nothing is seen, [M]; read once for each last action."""
        key = (head, last, tuple(names))
        if self.rule != "calibrated":
            return np.zeros(len(names))
        if key not in self._neutral:
            self._neutral[key] = self.logp(head, last + NOTHING, names, usage)[0]
        return self._neutral[key]

    def _read(self, head: str) -> tuple[Any, int]:
        """(cache with the head in it, its length)."""
        from transformers import DynamicCache

        if head not in self._heads:
            ids = self._ids(f"<|im_start|>system\n{head}<|im_end|>\n")
            cache = DynamicCache()
            self.model.base_model(
                torch.tensor([ids], device=self.model.device), cache=cache, use_cache=True
            )
            self._heads = {head: (cache, len(ids))}  # one head is kept at a time
        return self._heads[head]

    def _ids(self, words: str) -> list[int]:
        return self.tokenizer(words, add_special_tokens=False)["input_ids"]


def layout(known: int, shown: int, answers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions [1, Q] and mask [1, 1, Q, known + Q] (True: may look) of one pass.

    Q = shown + sum of `answers`. All answers start at the same position; each sees head, what is
    shown, and its own earlier tokens.
    """
    total = shown + sum(answers)
    where, sees = torch.arange(known, known + total), torch.zeros(total, known + total, dtype=bool)
    sees[:, :known] = True
    sees[:shown, known : known + shown] = torch.ones(shown, shown, dtype=bool).tril()
    start = shown
    for size in answers:
        rows = slice(start, start + size)
        where[rows] = torch.arange(known + shown, known + shown + size)
        sees[rows, known : known + shown] = True
        own = slice(known + start, known + start + size)
        sees[rows, own] = torch.ones(size, size, dtype=bool).tril()
        start += size
    return where[None], sees[None, None]


def _answers(model: Any, hidden: torch.Tensor, answers: list[list[int]], shown: int) -> np.ndarray:
    """Summed log p of each answer, [M], from hidden states [Q, width] of the pass."""
    rows, targets, owners, start = [], [], [], shown
    for at, answer in enumerate(answers):
        rows += [shown - 1, *range(start, start + len(answer) - 1)]
        targets += answer
        owners += [at] * len(answer)
        start += len(answer)
    logits = model.lm_head(hidden[torch.tensor(rows, device=hidden.device)]).float()
    each = logits.log_softmax(-1).cpu().numpy()[np.arange(len(targets)), targets]
    return np.bincount(owners, weights=each.astype(float), minlength=len(answers))


def score(logp: np.ndarray, lengths: np.ndarray, without: np.ndarray, rule: str) -> np.ndarray:
    """Scores [M] from log p [M], token counts [M] and log p when nothing is seen [M]."""
    if rule == "calibrated":
        return logp - without
    return logp / lengths if rule == "mean" else logp


def noise(seed: int, turn: int, names: Sequence[str]) -> np.ndarray:
    """Gumbel noise [M]; the same for the same seed, turn and name in any menu."""
    keys = ([seed, turn, zlib.crc32(name.encode())] for name in names)
    return np.array([np.random.default_rng(key).gumbel() for key in keys])


def choose(scores: np.ndarray, lot: np.ndarray, temperature: float) -> int:
    """Index of the choice; temperature 0 takes the largest score, the first among equals."""
    return int((scores if temperature == 0 else scores / temperature + lot).argmax())


def entropy(scores: np.ndarray, temperature: float) -> float:
    """Entropy of the choice, nats; 0 without temperature."""
    if temperature == 0:
        return 0.0
    p = np.exp((scores - scores.max()) / temperature)
    p /= p.sum()
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum())
