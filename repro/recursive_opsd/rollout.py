"""Answers written by the model itself: sampled by the student, or greedy for rewrites and tests."""

import re
from collections.abc import Sequence
from typing import Any

import torch

from repro import accept
from repro.recursive_opsd import packing, scoring

# A refreshed teacher may teach its student to speak of a solution that it does not see.
LEAKED = re.compile(
    r"\b(?:reference|given|verified|provided) solution|as (?:shown|given) above", re.IGNORECASE
)


def write(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    most: int,
    temperature: float = 0.0,
    seed: int = 0,
    top_p: float = 1.0,
    top_k: int = 0,
) -> list[packing.Answer]:
    """One answer of at most `most` tokens a prompt, as a batch; temperature 0 is greedy.

    The draw depends on `seed` alone and leaves torch's random state as it was, so a resumed run
    needs no saved state. Dropout is off.
    """
    accept.count("most", most)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    packed = packing.pack(prompts, [()] * len(prompts), pad, side="left")
    where = next(model.parameters()).device
    draw = dict(do_sample=False)
    if temperature:
        accept.positive("temperature", temperature)
        draw = dict(do_sample=True, temperature=temperature, top_p=top_p, top_k=top_k)
    devices = [where] if where.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad(), scoring.without_dropout(model):
        torch.manual_seed(seed)
        made = model.generate(
            input_ids=packed.ids.to(where),
            attention_mask=packed.mask.to(where),
            max_new_tokens=most,
            pad_token_id=pad,
            eos_token_id=end,
            **draw,
        )
    return [packing.keep(row, (end,)) for row in made[:, packed.ids.shape[1] :].tolist()]


def leaked(texts: Sequence[str]) -> float:
    """Share of `texts` that speak of a solution the student cannot see."""
    return sum(bool(LEAKED.search(text)) for text in texts) / max(1, len(texts))
