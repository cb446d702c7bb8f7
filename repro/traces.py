"""Real agent traces: executed BFCL tasks as SmolLM2 chat, every token labelled with its region.

A round is one call: the *observation* that the agent reads (tool result, next request, and the
chat headers that it did not write), the *reasoning* that it writes outside the action, the
*action* itself (arXiv 2609.31395, section 3). The true calls come without thoughts, so reasoning
holds only what closes a message and what precedes the completed opening marker. The *prefix* is
the system prompt with the tools and the first request; what follows the last call is a closing
observation, one round further on.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repro import bfcl
from repro.bfcl import Task, execute, tasks
from repro.errors import BadParameter

__all__ = ["LABELS", "Trace", "TraceSet", "execute", "load_traces", "render", "tasks"]

LABELS = ("prefix", "observation", "reasoning", "action")
PREFIX, OBSERVATION, REASONING, ACTION = range(4)
OPEN, CLOSE = "<tool_call>", "</tool_call>"
INTRO = (
    "You are an agent that works by calling functions. Call one at a time, as "
    f'{OPEN}{{"name": …, "arguments": {{…}}}}{CLOSE}; its result comes back in a message of the '
    "role tool. The functions are:"
)


@dataclass(frozen=True, eq=False)
class Trace:
    """One conversation of S tokens.

    ids: [S] int64. labels: [S] int8, index into `LABELS`. rounds: [S] int32, -1 in the prefix,
    then 0 … n_rounds - 1, and n_rounds in the closing observation. offsets: [S, 2] int32, the
    characters of `text` that each token stands for. tasks: ids of the tasks in it, in order.
    """

    ids: np.ndarray
    labels: np.ndarray
    rounds: np.ndarray
    offsets: np.ndarray
    text: str
    tasks: tuple[str, ...]

    @property
    def chained(self) -> bool:
        """Whether several tasks were put into one conversation."""
        return len(self.tasks) > 1

    @cached_property
    def n_rounds(self) -> int:
        return int(self.rounds[self.labels == ACTION].max(initial=-1)) + 1

    def __len__(self) -> int:
        return len(self.ids)

    def token_text(self, i: int) -> str:
        """The text of token `i`; a character made of several tokens is given with each."""
        start, stop = self.offsets[i]
        return self.text[start:stop]

    def spans(self, label: str) -> list[tuple[int, int, int]]:
        """(round, start, stop) of each unbroken run of tokens with `label` in one round."""
        if label not in LABELS:
            raise ValueError(f"label={label!r} is not known; accepted: {LABELS}.")
        cuts = np.flatnonzero(np.diff(self.labels) | np.diff(self.rounds)) + 1
        starts = np.concatenate([[0], cuts])
        stops = np.concatenate([cuts, [len(self)]])
        mine = self.labels[starts] == LABELS.index(label)
        return [
            (int(self.rounds[a]), int(a), int(b))
            for a, b in zip(starts[mine], stops[mine], strict=True)
        ]


@dataclass(frozen=True)
class TraceSet:
    """Sampled traces, and how many tasks were left out on the way, by reason."""

    traces: tuple[Trace, ...]
    left_out: dict[str, int]


def render(
    task: Task | Sequence[Task],
    tokenizer: Any,
    tools: str = "signature",
    markers: str = "included",
) -> Trace:
    """Execute `task` (or several, chained into one conversation) and label every token.

    tools: ``signature`` lists each function on one line, ``json`` as its full documentation.
    markers: ``included`` counts as action every token from the one that completes the opening
        marker to the one that completes the closing marker (the public code's choice; the paper
        does not say); ``excluded`` only the JSON between the markers.

    The text is tokenised once, as a whole; a token across a border belongs to the region in which
    it ends. Raises ValueError where the tokens do not give back the text.
    """
    chain = (task,) if isinstance(task, Task) else tuple(task)
    for name, value, accepted in (
        ("tools", tools, ("signature", "json")),
        ("markers", markers, ("included", "excluded")),
    ):
        if value not in accepted:
            raise BadParameter(f"{name}={value!r} is not known; accepted: {accepted}.")
    parts = _parts(chain, tools, markers)
    text = "".join(part for part, _, _ in parts)
    coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    if tokenizer.decode(coded["input_ids"]) != text:
        raise ValueError(f"the tokens of {chain[0].id} do not decode to its text")
    offsets = np.asarray(coded["offset_mapping"], np.int32)
    ends = np.cumsum([len(part) for part, _, _ in parts])
    where = np.searchsorted(ends, offsets[:, 1] - 1, side="right")  # part of the last character
    return Trace(
        ids=np.asarray(coded["input_ids"], np.int64),
        labels=np.asarray([label for _, label, _ in parts], np.int8)[where],
        rounds=np.asarray([at for _, _, at in parts], np.int32)[where],
        offsets=offsets,
        text=text,
        tasks=tuple(each.id for each in chain),
    )


def load_traces(
    tokenizer: Any,
    n: int,
    seed: int,
    category: str = "base",
    max_tokens: int = 8192,
    min_rounds: int = 1,
    chain_to: int | None = None,
    tools: str = "signature",
    markers: str = "included",
) -> TraceSet:
    """`n` traces from a random order of the tasks that `seed` fixes; no task is used twice.

    max_tokens: a longer task is left out and counted, never cut (8,192 is SmolLM2's context).
    min_rounds: so many calls at least. chain_to: chain tasks until a trace has this many tokens
    (a trace ends shorter only where the next task would take it over max_tokens).
    Raises BadParameter where fewer than `n` traces can be made.
    """
    if n < 1 or seed < 0 or not 1 <= (1 if chain_to is None else chain_to) <= max_tokens:
        raise BadParameter(
            f"n={n}, seed={seed}, chain_to={chain_to}, max_tokens={max_tokens}: accepted: n >= 1, "
            "seed >= 0, chain_to None or from 1 to max_tokens."
        )
    pool = tasks(category)
    traces, left_out = [], Counter()
    chain, trace = (), None  # the trace under construction

    def close(reached: bool = True) -> None:
        nonlocal chain, trace
        if chain and not reached:
            left_out["too few tasks left to chain"] += len(chain)
        elif chain and trace.n_rounds < min_rounds:
            left_out[f"fewer than {min_rounds} rounds"] += len(chain)
        elif chain:
            traces.append(trace)
        chain, trace = (), None

    for i in np.random.default_rng(seed).permutation(len(pool)):
        alone = render(pool[i], tokenizer, tools, markers)
        if len(alone) > max_tokens:
            left_out[f"longer than {max_tokens} tokens"] += 1
            continue
        both = render((*chain, pool[i]), tokenizer, tools, markers) if chain else alone
        if len(both) > max_tokens:
            close()
            both = alone
        chain, trace = (*chain, pool[i]), both
        if len(traces) < n and len(trace) >= (chain_to or 0):
            close()
        if len(traces) == n:
            return TraceSet(tuple(traces), dict(left_out))
    close(reached=False)
    raise BadParameter(
        f"n={n}: the {len(pool)} tasks of category {category!r} give only {len(traces)} traces; "
        f"left out: {dict(left_out) or 'none'}."
    )


def _parts(chain: tuple[Task, ...], tools: str, markers: str) -> list[tuple[str, int, int]]:
    """(text, label, round) in the order of the conversation."""
    system = _message("system", f"{INTRO}\n{bfcl.offer(chain, tools)}")
    parts = [(system, PREFIX, -1)]
    current = 0
    for task in chain:
        for turn, (asked, steps) in enumerate(zip(task.turns, execute(task), strict=True)):
            if new := task.withheld.get(turn):
                listed = bfcl.listing(task.classes, lambda name, new=new: name in new, tools)
                asked = f"These functions can be called from now on:\n{listed}\n{asked}".strip()
            region = (PREFIX, -1) if len(parts) == 1 else (OBSERVATION, current)
            parts.append((_message("user", asked), *region))
            for made, result in steps:
                body = json.dumps(
                    {"name": made.name, "arguments": made.arguments}, ensure_ascii=False
                )
                inside = ACTION if markers == "included" else REASONING
                parts += [
                    ("<|im_start|>assistant\n", OBSERVATION, current),
                    (OPEN[:-1], REASONING, current),
                    (OPEN[-1], inside, current),
                    (body, ACTION, current),
                    (CLOSE, inside, current),
                    ("<|im_end|>", REASONING, current),
                    ("\n" + _message("tool", result), OBSERVATION, current + 1),
                ]
                current += 1
    return parts


def _message(role: str, content: str) -> str:
    if "<|im_" in content:
        raise ValueError(f"a message of role {role} contains a chat marker: {content[:80]!r}")
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"
