"""Sampling with one random stream a row: a problem's answer does not hang on its neighbours.

`rollout.write` draws for a batch as a whole, so the same problem would get another answer when its
batch is split over ranks. Here each row adds its own Gumbel noise to the logits and the largest
is taken, which is an exact draw from the (tempered, cut) distribution.
"""

from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd import packing, scoring


class RowNoise:
    """A logits processor: scores [B, V] plus Gumbel noise, row b from the stream of seeds[b]."""

    def __init__(self, seeds: Sequence[int], device: torch.device):
        self._streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        drawn = [torch.empty_like(row) for row in scores]
        for row, stream in zip(drawn, self._streams, strict=True):
            row.exponential_(generator=stream)
        return scores - torch.stack(drawn).log()


def write(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    most: int,
    temperature: float,
    seeds: Sequence[int],
    top_p: float = 1.0,
    top_k: int = 0,
) -> list[packing.Answer]:
    """One sampled answer of at most `most` tokens a prompt; row i is drawn from seeds[i] alone."""
    accept.count("most", most)
    accept.positive("temperature", temperature)
    if len(seeds) != len(prompts):
        raise BadParameter(f"{len(seeds)} seeds are refused; accepted: {len(prompts)}, one a row.")
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    packed = packing.pack(prompts, [()] * len(prompts), pad, side="left")
    where = next(model.parameters()).device
    steps: list[Any] = [transformers.TemperatureLogitsWarper(float(temperature))]
    if top_k:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        steps.append(transformers.TopPLogitsWarper(top_p))
    steps.append(RowNoise(seeds, where))
    with torch.no_grad(), scoring.without_dropout(model):
        made = model.generate(
            input_ids=packed.ids.to(where),
            attention_mask=packed.mask.to(where),
            max_new_tokens=most,
            do_sample=False,
            logits_processor=transformers.LogitsProcessorList(steps),
            pad_token_id=pad,
            eos_token_id=end,
        )
    return [packing.keep(row, (end,)) for row in made[:, packed.ids.shape[1] :].tolist()]
