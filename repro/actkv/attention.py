"""Run the real model over a labelled trace: action attention per round, logits of generated tokens.

Teacher-forced, segment by segment, with a key-value cache: the same numbers as one forward pass
over the whole trace. Action tokens go through the eager attention, the only one that returns
probabilities, a few queries at a time and reduced at once; all other tokens through the model's
own, fast one. A trace has token `ids`, and per token a label (prefix, observation, reasoning or
action) and a round number that never falls. Generated tokens are those of reasoning and action.
The logits at position t-1 predict token t. (arXiv 2609.31395, sections 1 and 2.)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from repro.actkv.accept import count
from repro.traces import LABELS

GENERATED = ("reasoning", "action")


@dataclass(frozen=True)
class ActionRound:
    """One finished round of the trace."""

    round: int
    span: tuple[int, int] | None  # first action token and one past the last; None: no action
    length: int  # tokens cached when the round ends
    attention: np.ndarray | None  # float32 [layers, S], S = span[1]
    positions: np.ndarray  # generated tokens of this round
    logits: np.ndarray | None  # float32 [positions, V]; row i predicts token positions[i]


def action_rounds(
    model: Any,
    trace: Any,
    reduce: Callable[[np.ndarray], np.ndarray],
    logits: bool = False,
    chunk: int = 256,
    queries: int = 32,
) -> Iterator[ActionRound]:
    """Yield each round of `trace` with the attention of its action tokens.

    reduce: probabilities [H_k, G, A, S] -> [S], a mean over the A queries, such as
    `repro.actkv.eviction.action_attention`; blocks of `queries` action tokens are combined
    as in Algorithm 3, entries appended later being 0 for earlier queries. `chunk` bounds the other
    tokens a pass, and so the memory. A round of prefix tokens only is not yielded.

    Raises ValueError for a trace that is empty, inconsistent, or longer than the model's context.
    """
    ids, labels, rounds = _columns(model, trace)
    count("chunk", chunk), count("queries", queries)
    cache, predicted, state = DynamicCache(), {}, None
    for start, stop in _blocks(labels, rounds, chunk, queries):
        if state is None:
            state = _Mean()
        action = labels[start] == "action"
        wanted = _predicting(labels, start, stop) if logits else np.zeros(0, dtype=int)
        rows, maps = _forward(model, ids[start:stop], cache, wanted, action)
        predicted.update(zip((start + wanted + 1).tolist(), rows, strict=True))
        if action:
            state.add(np.stack([reduce(m) for m in maps]), stop - start)
        if stop < len(ids) and rounds[stop] == rounds[start]:
            continue
        here = np.flatnonzero(rounds == rounds[start])
        made = here[np.isin(labels[here], GENERATED) & (here > 0)]
        acted = here[labels[here] == "action"]
        if (labels[here] != "prefix").any():
            yield ActionRound(
                round=int(rounds[start]),
                span=(int(acted[0]), int(acted[-1]) + 1) if acted.size else None,
                length=stop,
                attention=state.value,
                positions=made,
                logits=_stacked([predicted.pop(int(t)) for t in made]) if logits else None,
            )
        state = None


def generated_logits(
    model: Any, trace: Any, chunk: int = 256
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (positions [n], float32 logits [n, V]) of the generated tokens, `chunk` tokens a pass.

    Row i predicts token positions[i]; the very first token of the trace has no prediction.
    """
    ids, labels, _ = _columns(model, trace)
    count("chunk", chunk)
    cache = DynamicCache()
    for start in range(0, len(ids), chunk):
        stop = min(start + chunk, len(ids))
        wanted = _predicting(labels, start, stop)
        rows, _ = _forward(model, ids[start:stop], cache, wanted, action=False)
        if wanted.size:
            yield start + wanted + 1, rows


class _Mean:
    """Mean over action tokens of rows [layers, S] whose S grows."""

    def __init__(self):
        self.value, self.seen = None, 0

    def add(self, rows: np.ndarray, tokens: int) -> None:
        old = np.zeros((rows.shape[0], 0)) if self.value is None else self.value
        old = np.pad(old, ((0, 0), (0, rows.shape[1] - old.shape[1])))
        self.seen += tokens
        self.value = (old + (rows - old) * (tokens / self.seen)).astype(np.float32)


@contextmanager
def _eager(model: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@torch.inference_mode()
def _forward(
    model: Any, ids: np.ndarray, cache: DynamicCache, wanted: np.ndarray, action: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Logits [wanted, V] and, for an action, probabilities [H_k, G, A, S] of each layer."""
    inputs = {
        "input_ids": torch.as_tensor(ids, device=model.device)[None],
        "cache": cache,
        "use_cache": True,
        "logits_to_keep": torch.as_tensor(wanted, device=model.device),
    }
    if not action:
        return _array(model(**inputs).logits[0]), []
    with _eager(model):
        out = model(**inputs, output_attentions=True)
    heads = model.config.num_key_value_heads  # query head h reads KV head h // G
    maps = [_array(a[0]).reshape(heads, -1, *a.shape[-2:]) for a in out.attentions]
    return _array(out.logits[0]), maps


def _blocks(
    labels: np.ndarray, rounds: np.ndarray, chunk: int, queries: int
) -> Iterator[tuple[int, int]]:
    """Runs of one label and round, cut into passes."""
    change = (labels[1:] != labels[:-1]) | (rounds[1:] != rounds[:-1])
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), len(labels)]
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        size = queries if labels[first] == "action" else chunk
        for start in range(first, last, size):
            yield start, min(start + size, last)


def _predicting(labels: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Offsets in start..stop-1 whose *next* token is generated."""
    return np.flatnonzero(np.isin(labels[start + 1 : stop + 1], GENERATED))


def _columns(model: Any, trace: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids, labels = np.asarray(trace.ids, dtype=np.int64), np.asarray(trace.labels)
    if labels.dtype.kind in "iu":  # codes of `repro.traces`
        labels = np.array(LABELS)[labels]
    rounds = np.asarray(trace.rounds, dtype=np.int64)
    limit = model.config.max_position_embeddings
    if not 0 < len(ids) <= limit:
        raise ValueError(f"trace has {len(ids)} tokens; accepted: 1..{limit}, the model's context.")
    if not len(ids) == len(labels) == len(rounds) or (np.diff(rounds) < 0).any():
        raise ValueError(
            f"trace has {len(ids)} ids, {len(labels)} labels and {len(rounds)} rounds; "
            "accepted: equally many, and rounds that never fall."
        )
    if unknown := set(labels.tolist()) - {"prefix", "observation", *GENERATED}:
        raise ValueError(
            f"trace labels {sorted(unknown)} are unknown; accepted: prefix, observation, "
            "reasoning, action."
        )
    return ids, labels, rounds


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def _stacked(rows: list[np.ndarray]) -> np.ndarray:
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)
