"""One forward pass over given answers: the logits that predict each answer token, row by row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from repro.errors import BadParameter
from repro.recursive_opsd import packing


def answer_logits(
    model: Any,
    prefixes: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    pad: int,
    side: str = "right",
) -> list[Tensor]:
    """For each answer the logits [m_i, V] of its tokens, float32, by its own offset.

    Only the answer's positions go through the output layer: logits over a whole batch would not
    fit (49,152 entries a position). `model`: a causal language model of transformers, also inside
    LoRA. Gradients flow unless the caller switched them off.
    """
    packed = packing.pack(prefixes, answers, pad, side)
    where = next(model.parameters()).device
    body, head = model.get_decoder(), model.get_output_embeddings()
    hidden = body(
        input_ids=packed.ids.to(where),
        attention_mask=packed.mask.to(where),
        position_ids=packed.positions.to(where),
        use_cache=False,
    ).last_hidden_state
    return [head(rows).float() for rows in answer_rows(hidden, packed)]


def answer_rows(states: Tensor, packed: packing.Packed) -> list[Tensor]:
    """From states [B, L, d] the rows [m_i, d] that predict the answer tokens."""
    return [
        state[first : first + length]
        for state, first, length in zip(states, packed.first, packed.lengths, strict=True)
    ]


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Evaluation mode inside, the earlier mode afterwards: with dropout q differs from p by lot."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


def same_width(student: Any, teacher: Any) -> None:
    """Raises BadParameter unless both output layers have one width (never by tokenizer length)."""
    widths = [m.get_output_embeddings().weight.shape[0] for m in (student, teacher)]
    if widths[0] != widths[1]:
        raise BadParameter(
            f"vocabulary widths {widths[0]} (student) and {widths[1]} (teacher) are refused; "
            "accepted: equal ones."
        )


def trainable(model: Any) -> dict[str, torch.nn.Parameter]:
    """Parameters that are trained, by name.

    Raises BadParameter unless there are some and all are float32: bfloat16 master weights lose
    small updates.
    """
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise BadParameter("model has no trainable parameter; accepted: at least one.")
    for name, parameter in found.items():
        if parameter.dtype != torch.float32:
            raise BadParameter(f"{name} is {parameter.dtype}; accepted: torch.float32 to train.")
    return found
