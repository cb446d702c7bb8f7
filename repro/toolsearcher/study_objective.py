"""A group of rollouts as tokens of the real tokenizer, and their gradient in the real model.

The four trajectories are those of the worked example of credit. Tools and their documents are
BFCL's, drawn by a seed; requests, queries and answers are put together by rule from the documents
and the chosen sets. No policy wrote them: they are synthetic rollouts over real documents.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from repro import bfcl
from repro.toolsearcher import credit, objective, tokens
from repro.toolsearcher.answer import CLOSE, OPEN, read_answer
from repro.toolsearcher.credit_checks import ANSWERS, EVENTS, TARGETS
from repro.toolsearcher.tokens import Piece

ROLES = ("A", "B", "c", "x")  # the names of the worked example, each played by a real tool
JOB = (
    "Find tools. Search with <tool_call>{JSON}</tool_call>, once a turn. Then answer with names, "
    f"as in {OPEN}app.one, app.two{CLOSE}."
)
END = "<|im_end|>"


@dataclass(frozen=True)
class Rollout:
    """pieces: ids with their origin. trajectory: the same rollout as credit sees it."""

    pieces: list[Piece]
    trajectory: credit.Trajectory


def drawn_tools(seed: int) -> dict[str, dict[str, Any]]:
    """A tool for each role, by lot from all of BFCL's back ends: name, description, parameters."""
    library = []
    for app in bfcl.CLASSES:
        library += [{**doc, "name": f"{app}.{doc['name']}"} for doc in bfcl.functions(app)]
    lots = np.random.default_rng(seed).choice(len(library), len(ROLES), replace=False)
    return dict(zip(ROLES, (library[i] for i in lots), strict=True))


def purpose(tool: dict[str, Any]) -> str:
    """What a tool is for: the sentence of its description that follows the general one."""
    told = tool["description"].split("Tool description:")[-1].strip()
    return told.partition(". ")[0].rstrip(".")


def document(tool: dict[str, Any]) -> str:
    """The text that a search returns for a tool."""
    required = ", ".join(tool["parameters"].get("required", ())) or "none"
    return f"name: {tool['name']}\ndescription: {purpose(tool)}\nrequired: {required}\n"


def rollouts(tokenizer: Any, seed: int, document_tokens: int) -> list[Rollout]:
    """The worked group as tokens. A document longer than `document_tokens` keeps its head."""
    tools, made = drawn_tools(seed), []
    ids = lambda text: tuple(tokenizer(text, add_special_tokens=False).input_ids)  # noqa: E731
    request = " Then ".join(purpose(tools[t]) + "." for t in TARGETS)
    for events, answer in zip(EVENTS, ANSWERS, strict=True):
        start = f"<|im_start|>system\n{JOB}{END}\n<|im_start|>user\n{request}{END}\n"
        pieces = [Piece("prompt", ids(start)), Piece("template", ids("<|im_start|>assistant\n"))]
        seen: set[str] = set()
        for names in events:
            wanted = sorted(names & set(TARGETS) - seen) or sorted(names)
            query, seen = purpose(tools[wanted[0]]), seen | names
            call = {"name": "search", "arguments": {"query": query}}
            text = f"<tool_call>{json.dumps(call)}</tool_call>{END}"
            pieces += [Piece("sampled", ids(text)), Piece("template", ids("\n<|im_start|>tool\n"))]
            back = ids("<tool_response>\n")
            for at, name in enumerate(sorted(names), 1):
                back += _head(ids(f"{at}. {document(tools[name])}"), document_tokens, ids(" …\n"))
            pieces.append(Piece("returned", back + ids("</tool_response>")))
            pieces.append(Piece("template", ids(f"{END}\n<|im_start|>assistant\n")))
        final = f"{OPEN}{', '.join(tools[t]['name'] for t in answer.split(', '))}{CLOSE}"
        pieces.append(Piece("sampled", ids(final + END)))
        retrieved = tuple({tools[name]["name"] for name in names} for names in events)
        made.append(Rollout(pieces, credit.Trajectory("q", retrieved, read_answer(final))))
    return made


def targets(seed: int) -> list[str]:
    tools = drawn_tools(seed)
    return [tools[t]["name"] for t in TARGETS]


def _head(ids: tuple[int, ...], most: int, cut: tuple[int, ...]) -> tuple[int, ...]:
    return ids if len(ids) <= most else ids[: most - len(cut)] + cut


def spread(turn: np.ndarray) -> np.ndarray:
    """The turns when returned text is trained on as well: it takes the turn that asked for it."""
    return np.maximum.accumulate(turn, axis=-1)


@dataclass(frozen=True)
class Gradients:
    """Of the loss of one row of S tokens. logp: [S], by log-probability. logits, inputs: [S], norm
    of the gradient at each position's logits and at its input embedding. layers: flat gradients
    of the weights of some layers, by layer."""

    logp: np.ndarray
    logits: np.ndarray
    inputs: np.ndarray
    layers: dict[int, np.ndarray]


def gradients(
    model: Any,
    row: tokens.Row,
    arms: dict[str, tuple[np.ndarray, np.ndarray]],
    of: objective.Totals,
    layers: Sequence[int],
    **settings: Any,
) -> dict[str, Gradients]:
    """Gradients of the loss of `row` in the real model, on policy, one forward pass for all arms.

    arms: by name, the mask bool [S] and the advantage [S]. The policy is its own old policy and
    its own reference, so that the ratio is 1 and the KL term and its gradient are 0. settings: of
    `objective.objective`.
    """
    ids = torch.tensor(row.ids)[None].to(model.device)
    weights = {n: list(model.model.layers[n].parameters()) for n in layers}
    flat = [w for some in weights.values() for w in some]
    try:
        for weight in flat:
            weight.requires_grad_(True)
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded).logits
        logp = objective.token_logprobs(logits, ids)
        found = {}
        for at, (name, (mask, advantage)) in enumerate(arms.items()):
            given = torch.tensor(advantage)[None].to(logp), torch.tensor(mask)[None].to(ids.device)
            loss = objective.objective(logp, logp, *given, logp, of=of, **settings).loss
            wanted = [logp, logits, embedded, *flat]
            out = torch.autograd.grad(loss, wanted, retain_graph=at + 1 < len(arms))
            found[name] = _kept(out, weights)
    finally:
        for weight in flat:
            weight.requires_grad_(False)
    return found


def _kept(out: Sequence[torch.Tensor], weights: dict[int, list]) -> Gradients:
    rest, layers = list(out[3:]), {}
    for n, some in weights.items():
        mine, rest = rest[: len(some)], rest[len(some) :]
        layers[n] = torch.cat([g.flatten() for g in mine]).cpu().numpy()
    logp, logits, inputs = out[:3]
    norms = (v[0].norm(dim=-1).cpu().numpy() for v in (logits, inputs))
    return Gradients(logp[0].cpu().numpy(), *norms, layers)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of the angle between two flat gradients; 0 when one of them vanishes."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0
