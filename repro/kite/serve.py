"""Serving: a prompt in one piece or in chunks, then tokens one by one or several at a time.

Last-only prefill leaves no logits for the prompt, so prompt log-probs are refused there instead
of being made of what is not computed (vllm PR 22628).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from repro import accept
from repro.errors import BadParameter
from repro.kite.model import SST
from repro.kite.past import Past


@torch.no_grad()
def prefill(
    model: SST,
    tokens: Tensor,
    lengths: Sequence[int] | None = None,
    chunk: int = 0,
    past: Past | None = None,
    last_only: bool = True,
    prompt_logprobs: bool = False,
) -> tuple[Tensor, Past]:
    """Logits [B, V] after the last token of each row of `tokens` [B, T], and the cache.

    chunk: tokens a forward (0: all at once); only the chunk in which a row ends runs the Decoder
    for it, at that one position. last_only=False runs it everywhere, as a comparison.
    Raises BadParameter for an empty prompt, and for `prompt_logprobs`, which `prompt_scores` gives.
    """
    if prompt_logprobs:
        refuse_prompt_logprobs(last_only)
    accept.count("chunk", chunk, least=0)
    ends = [tokens.shape[1]] * len(tokens) if lengths is None else list(lengths)
    if not tokens.numel():
        model(tokens)  # says what is accepted
    for row, end in enumerate(ends):
        if accept.count(f"lengths[{row}]", end) > tokens.shape[1]:
            raise BadParameter(
                f"lengths[{row}]={end} is refused; accepted: at most {tokens.shape[1]}."
            )
    step = chunk or tokens.shape[1]
    final = [None] * len(ends)
    for start in range(0, max(ends), step):
        new = [min(max(end - start, 0), step) for end in ends]
        width = max(new)
        done = [(b, n - 1) for b, n in enumerate(new) if n and start + n == ends[b]]
        keep = torch.tensor(done, dtype=torch.long).reshape(-1, 2)
        piece = tokens[:, start : start + width]
        logits, past = model(piece, past, keep if last_only else None, new)
        for at, (row, column) in enumerate(done):
            final[row] = logits[at] if last_only else logits[row, column]
    return torch.stack(final), past


@torch.no_grad()
def generate(model: SST, logits: Tensor, past: Past, count: int) -> Tensor:
    """`count` greedy tokens [B, count] after `logits` [B, V]; `past` is continued."""
    found = []
    for _ in range(accept.count("count", count)):
        found.append(logits.argmax(-1, keepdim=True))
        logits = model(found[-1], past, 1)[0][:, -1]
    return torch.cat(found, 1)


@torch.no_grad()
def prompt_scores(model: SST, tokens: Tensor, logits_to_keep: int | Tensor | None = None) -> Tensor:
    """Log-probability [B, T - 1] of each token of a prompt [B, T] after the first, in score mode.

    Raises BadParameter when only some logits are kept.
    """
    if logits_to_keep is not None:
        refuse_prompt_logprobs(True)
    logits, _ = model(tokens)
    return logits[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]


def refuse_prompt_logprobs(last_only: bool) -> None:
    """Raises BadParameter: `prefill` has no logits to score a prompt with."""
    mode = "last-only mode computes" if last_only else "prefill returns"
    raise BadParameter(
        f"prompt_logprobs=True is refused: {mode} no logits of the prompt; accepted: "
        "prompt_scores, which runs both towers at every position."
    )
