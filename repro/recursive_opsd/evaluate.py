"""What a checkpoint answers, and how near it has come to what its start knew with the solution.

*Right* is the lenient score: the announced answer, else the last number; an answer that was cut
off at the cap scores 0 whatever its last number is. *Strict* wants an announced place.
*Held-out KL*: problems and answers never change, and neither do the two teachers, the start with
the own and with another problem's solution in view. So the change in KL is one number for all
arms, where a distance between parameters is Adam's step size (arXiv 2609.30652, Eq. 4 for the KL).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repro.errors import BadParameter
from repro.recursive_opsd import answers, losses, packing, prompts, rollout, scoring, srcl
from repro.recursive_opsd.problems import Problem


@dataclass(frozen=True)
class Judged:
    """Greedy answers of a checkpoint. scores, strict: 0 or 1 by problem; unfinished: by problem.

    tokens, leaked: mean length, and share of answers that speak of a solution they cannot see.
    """

    scores: dict[str, float]
    strict: dict[str, float]
    unfinished: dict[str, str]
    tokens: float
    leaked: float

    @property
    def right(self) -> float:
        return sum(self.scores.values()) / len(self.scores)


@dataclass(frozen=True)
class Probe:
    """Fixed held-out answers: student prefixes, ids, and log-probabilities [m_i, V] of teachers."""

    asked: list[tuple[int, ...]]
    ids: list[tuple[int, ...]]
    own: list[Tensor]
    other: list[Tensor]
    golds: list[tuple[int, ...]]
    pad: int


def score(text: str, ended: bool, gold: str, lenient: bool = True) -> float:
    """1 for a finished right answer, else 0."""
    return float(ended and answers.judge(text, gold, lenient=lenient).right)


def judged(
    model: Any,
    tokenizer: Any,
    asked: Sequence[Problem],
    wording: prompts.Wording,
    most: int,
    at_once: int = 32,
) -> Judged:
    """Greedy answers to `asked` with at most `most` tokens each, judged."""
    ids = [prompts.student(tokenizer, p, wording).ids for p in asked]
    made: list[packing.Answer] = []
    for first in range(0, len(ids), at_once):
        made += rollout.write(model, tokenizer, ids[first : first + at_once], most)
    texts = [tokenizer.decode(a.ids, skip_special_tokens=True) for a in made]
    rows = list(zip(asked, made, texts, strict=True))
    return Judged(
        scores={p.name: score(text, a.ended, p.answer) for p, a, text in rows},
        strict={p.name: score(text, a.ended, p.answer, lenient=False) for p, a, text in rows},
        unfinished={p.name: "truncated" for p, a, _ in rows if not a.ended},
        tokens=sum(map(len, made)) / len(made),
        leaked=rollout.leaked(texts),
    )


def probe(
    model: Any, tokenizer: Any, asked: Sequence[Problem], wording: prompts.Wording, most: int
) -> Probe:
    """Greedy answers of `model` as it is now to `asked`, scored behind both teachers' prefixes.

    The other solution is the next problem's. Raises BadParameter for fewer than two problems.
    """
    if len(asked) < 2:
        raise BadParameter(f"{len(asked)} probe problems are refused; accepted: 2 or more.")
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    student = [prompts.student(tokenizer, p, wording).ids for p in asked]
    ids = [a.ids for a in rollout.write(model, tokenizer, student, most)]
    views = []
    for by in (0, 1):
        given = [_with(p, asked[(at + by) % len(asked)]) for at, p in enumerate(asked)]
        rich = [prompts.teacher(tokenizer, p, "assistant", wording).ids for p in given]
        views.append(_log_probs(model, rich, ids, pad))
    golds = [(*tokenizer(p.solution, add_special_tokens=False)["input_ids"], end) for p in asked]
    return Probe(student, ids, *views, golds, pad)


def held_out(model: Any, probe: Probe) -> dict[str, float]:
    """own, other: mean over answers of the mean KL(start's teacher || student), nats a token.

    gold: mean over problems of -log p a token of the right solution in the student's prompt.
    """
    mine = _log_probs(model, probe.asked, probe.ids, probe.pad)
    found = {}
    for name, theirs in (("own", probe.own), ("other", probe.other)):
        each = [losses.forward_kl(q, p).mean() for q, p in zip(theirs, mine, strict=True)]
        found[name] = float(torch.stack(each).mean())
    with torch.no_grad():
        logits = scoring.answer_logits(model, probe.asked, probe.golds, probe.pad)
    gold = [srcl.token_losses(z, ids).mean() for z, ids in zip(logits, probe.golds, strict=True)]
    return found | {"gold": float(torch.stack(gold).mean())}


def _log_probs(model: Any, prefixes, ids, pad: int) -> list[Tensor]:
    with torch.no_grad():
        return [losses.log_probs(z) for z in scoring.answer_logits(model, prefixes, ids, pad)]


def _with(problem: Problem, other: Problem) -> Problem:
    return Problem(problem.name, problem.question, other.solution, problem.answer)
