"""What the notebook on prompts does around them: short answers, scores, and text for tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.errors import BadParameter
from repro.recursive_opsd import losses, packing, scoring
from repro.recursive_opsd.problems import Problem
from repro.recursive_opsd.prompts import SolutionLeak


@dataclass(frozen=True)
class Signal:
    """What a richer prefix changes for one answer: KL a position [m], their mean, and Delta."""

    positions: np.ndarray
    kl: float
    delta: float


def greedy(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], most: int
) -> list[packing.Answer]:
    """The most likely continuation of each prompt, at most `most` tokens, as a batch."""
    end = tokenizer.eos_token_id
    packed = packing.pack(prompts, [()] * len(prompts), tokenizer.pad_token_id, side="left")
    with torch.inference_mode():
        made = model.generate(
            input_ids=packed.ids.to(model.device),
            attention_mask=packed.mask.to(model.device),
            max_new_tokens=most,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=end,
        )
    return [packing.keep(row, (end,)) for row in made[:, packed.ids.shape[1] :].tolist()]


def log_likelihoods(
    model: Any, prefixes: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad: int
) -> list[Tensor]:
    """log p of each answer token, [m_i] an answer."""
    with torch.inference_mode():
        scored = scoring.answer_logits(model, prefixes, answers, pad)
    return [
        losses.log_probs(logits)[range(len(ids)), list(ids)]
        for logits, ids in zip(scored, answers, strict=True)
    ]


def scored(model: Any, prefix: Sequence[int], answer: Sequence[int], pad: int) -> Tensor:
    """Logits [m, V] of the tokens of `answer` behind `prefix`."""
    with torch.inference_mode():
        return scoring.answer_logits(model, [prefix], [answer], pad)[0]


def signal(student: Tensor, teacher: Tensor, answer: Sequence[int]) -> Signal:
    """Compare the logits [m, V] that `answer` has behind the two prefixes (from `scored`)."""
    each = losses.position_losses(student, teacher)
    p, q = (losses.log_probs(x)[range(len(answer)), list(answer)] for x in (student, teacher))
    return Signal(each.cpu().numpy(), each.mean().item(), (q - p).mean().item())


def given(drawn: Sequence[Problem], at: int, other: bool) -> Problem:
    """Problem `at`, or the same question with the next one's solution: the placebo."""
    if not other:
        return drawn[at]
    return replace(drawn[at], solution=drawn[(at + 1) % len(drawn)].solution)


def stretches(roles: Sequence[str]) -> list[tuple[str, int, int]]:
    """(role, first token, tokens) of each run of equal roles."""
    found, at = [], 0
    for role, run in groupby(roles):
        size = len(list(run))
        found.append((role, at, size))
        at += size
    return found


def order(roles: Sequence[str]) -> list[str]:
    """The roles in the order in which they come."""
    return [role for role, _, _ in stretches(roles)]


def excerpt(text: str, most: int) -> str:
    """`text` on one line, its middle left out where it is longer than `most` characters."""
    line = " ".join(text.replace("`", "'").split())
    if len(line) <= most:
        return line
    half = most // 2
    return f"{line[:half]} … {line[-half:]}"


def refusal(call: Callable[[], Any]) -> str:
    """What `call` is refused with; "accepted" when it is not."""
    try:
        call()
    except (BadParameter, SolutionLeak) as error:
        return str(error)
    return "accepted"
