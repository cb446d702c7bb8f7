"""The language model as a policy: draw answers, score them exactly, with a small adapter to train.

MaD-RL (arXiv 2609.31644) trains a whole model; here LoRA adapters on the upper layers carry the
change. All probabilities are at temperature 1 unless said, over the whole vocabulary, as the ratio
of the clipped surrogate needs. Model: any causal LM of transformers. Lengths: S prompt, A answers.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from repro.errors import BadParameter


def with_adapter(model: Any, seed: int, rank: int, layers: int) -> Any:
    """`model` with LoRA on the query and value projections of its top `layers` layers.

    The adapter starts as the identity. Raises BadParameter for a rank or layers that do not fit.
    """
    from peft import LoraConfig, get_peft_model

    depth = model.config.num_hidden_layers
    if not 1 <= layers <= depth or rank < 1:
        raise BadParameter(
            f"layers={layers}, rank={rank} is refused; accepted: 1 to {depth}, and 1 or more."
        )
    torch.manual_seed(seed)
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=["q_proj", "v_proj"],
        layers_to_transform=list(range(depth - layers, depth)),
        lora_dropout=0.0,
    )
    return get_peft_model(model, config).train()


def weights(model: Any) -> dict[str, Any]:
    """The trainable tensors by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def snapshot(model: Any) -> dict[str, Any]:
    """A copy of them."""
    return {name: p.detach().cpu().clone() for name, p in weights(model).items()}


def restore(model: Any, saved: dict[str, Any]) -> None:
    """Put a `snapshot` back; raises BadParameter where names or shapes differ."""
    mine = weights(model)
    if {n: tuple(p.shape) for n, p in mine.items()} != {
        n: tuple(p.shape) for n, p in saved.items()
    }:
        raise BadParameter("saved adapter is of another shape; accepted: one of this model.")
    with torch.no_grad():
        for name, p in mine.items():
            p.copy_(saved[name])


def fingerprint(saved: dict[str, Any]) -> str:
    """SHA-256 of the adapter's bytes."""
    found = hashlib.sha256()
    for name in sorted(saved):
        found.update(name.encode() + saved[name].contiguous().numpy().tobytes())
    return found.hexdigest()


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Euclidean distance of two snapshots."""
    return float(sum(((one[n] - other[n]) ** 2).sum() for n in one) ** 0.5)


@torch.no_grad()
def sample(
    model: Any, prompt: Sequence[int], group: int, cap: int, end: int, generator: Any
) -> list[tuple[int, ...]]:
    """`group` answers to `prompt`, each up to and with `end`, or cut off after `cap` tokens.

    The prompt is read once. generator: a CPU `torch.Generator`, so that all devices draw alike.
    """
    from transformers import DynamicCache

    device = next(model.parameters()).device
    cache = DynamicCache(config=model.config)
    read = torch.tensor([list(prompt)], device=device)
    rows = torch.zeros(group, dtype=torch.long)  # the row of the cache that a sample stands on
    answers: list[list[int]] = [[] for _ in range(group)]
    for at in range(cap):
        logits = model(read, cache=cache, logits_to_keep=1).logits[:, -1]
        p = logits.float().cpu().softmax(-1)
        token = torch.multinomial(p[rows], 1, generator=generator)[:, 0].tolist()
        alive = [i for i in range(group) if end not in answers[i]]
        for i in alive:
            answers[i].append(token[i])
        alive = [i for i in alive if token[i] != end]
        if not alive or at == cap - 1:
            break
        # Samples that agree so far share a row: each beginning is read once.
        kinds = sorted({(int(rows[i]), token[i]) for i in alive})
        cache.batch_select_indices(torch.tensor([row for row, _ in kinds], device=device))
        for i in alive:
            rows[i] = kinds.index((int(rows[i]), token[i]))
        rows[[i for i in range(group) if i not in alive]] = 0
        read = torch.tensor([[t] for _, t in kinds], device=device)
    return [tuple(answer) for answer in answers]


def score(
    model: Any, prompt: Sequence[int], answers: Sequence[Sequence[int]], temperature: float = 1.0
) -> Any:
    """Log-probability [A] of each answer after `prompt`, differentiable.

    One pass: the answers stand one after another behind the prompt, each sees the prompt and
    itself only, and positions go on from the prompt.
    """
    if not temperature > 0:
        raise BadParameter(f"temperature={temperature!r} is refused; accepted: above 0.")
    device, start = next(model.parameters()).device, len(prompt)
    ids, owner, places = packed(prompt, answers)
    out = model(
        torch.tensor([ids], device=device),
        attention_mask=visible(owner)[None, None].to(device),
        position_ids=torch.tensor([places], device=device),
        use_cache=False,
        logits_to_keep=len(ids) - start + 1,
    )
    logp = (out.logits[0].float() / temperature).log_softmax(-1)  # row 0: after the prompt
    found, row = [], 1
    for answer in answers:
        rows = [0, *range(row, row + len(answer) - 1)]
        row += len(answer) - 1
        found.append(logp[rows, torch.tensor(list(answer), device=device)].sum())
    return torch.stack(found)


def packed(
    prompt: Sequence[int], answers: Sequence[Sequence[int]]
) -> tuple[list[int], list[int], list[int]]:
    """Prompt and answers in one row: token ids, the answer each belongs to (-1: prompt), positions.

    The last token of an answer is predicted and never read, so it is left out.
    """
    start = len(prompt)
    ids, owner, places = list(prompt), [-1] * start, list(range(start))
    for at, answer in enumerate(answers):
        body = list(answer)[:-1]
        ids += body
        owner += [at] * len(body)
        places += range(start, start + len(body))
    return ids, owner, places


def visible(owner: Sequence[int]) -> Any:
    """Which entries each entry may read, [n, n]: the prompt and its own answer, up to itself."""
    tags = torch.tensor(owner)
    sees = (tags[None] == tags[:, None]) | (tags[None] == -1)
    return sees & torch.ones(len(owner), len(owner)).tril().bool()
