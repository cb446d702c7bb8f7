"""One update of recursive self-distillation, the same for every arm (arXiv 2609.30652, section 3).

Order of a step: sample answers from the student's prompt; rewrite and judge them (SRCL); score them
behind the teacher's prefix with the weights *before* the update; the student's losses and
gradients; one optimiser step. What the paper leaves open is a field of `arms.Settings`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.errors import BadParameter
from repro.recursive_opsd import (
    balance,
    gates,
    losses,
    means,
    packing,
    prompts,
    refresh,
    rollout,
    scoring,
    srcl,
)
from repro.recursive_opsd.arms import Arm, Settings
from repro.recursive_opsd.problems import Problem


class Training:
    """A model, its teacher and its optimiser on the way through `problems`.

    model: a causal language model whose trained parameters are float32; tokenizer as in `prompts`.
    places: gold -> where the gates look for answers in a rewrite, see `gates.book`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        arm: Arm,
        settings: Settings,
        problems: Sequence[Problem],
        wording: prompts.Wording = prompts.WORDING,
        places: Callable[[str], gates.Places] = gates.line_places,
    ):
        if len(problems) < 2:
            raise BadParameter(f"{len(problems)} problems are refused; accepted: 2 or more.")
        self.model, self.tokenizer, self.arm, self.settings = model.eval(), tokenizer, arm, settings
        self.wording, self.step, self.concise_weight = wording, 0, None
        self.places = places
        order = np.random.default_rng(settings.seed).permutation(len(problems))
        drawn = [problems[i] for i in order]  # the same order in every arm of a seed
        self.problems = _rotated(drawn) if arm.shuffled else drawn
        self.parameters = scoring.trainable(model)
        self.optimiser = torch.optim.AdamW(
            self.parameters.values(), lr=settings.rate * arm.rate, weight_decay=0.0
        )
        self.teacher = refresh.Teacher(model, arm.schedule, settings.decay, settings.every)

    def update(self) -> dict[str, Any]:
        """One step; returns what is worth logging, plain numbers and counts."""
        settings, arm = self.settings, self.arm
        batch = self._batch()
        asked = [prompts.student(self.tokenizer, p, self.wording).ids for p in batch]
        answers = rollout.write(
            self.model,
            self.tokenizer,
            asked,
            settings.most,
            settings.temperature,
            seed=1_000_003 * settings.seed + self.step,
            top_p=settings.top_p,
            top_k=settings.top_k,
        )
        texts = [self.tokenizer.decode(a.ids, skip_special_tokens=True) for a in answers]
        log: dict[str, Any] = {
            "step": self.step,
            "ended": sum(a.ended for a in answers),
            "generated_tokens": sum(map(len, answers)),
            "leaked": rollout.leaked(texts),
            "answers": [list(a.ids) for a in answers],
        }
        log |= dict.fromkeys(("trained_tokens", "scored_tokens", "forward_passes"), 0)
        total: list[Tensor | None] = [None] * len(self.parameters)
        if arm.guidance:
            found = self._guided(batch, asked, answers, log)
            total = balance.combined(total, found, (1.0, arm.guidance))
        if arm.supervised:
            found = self._supervised(batch, asked, log)
            total = balance.combined(total, found, (1.0, arm.supervised))
        if arm.concise:
            found = self._concise(batch, asked, answers, log)
            total = balance.combined(total, found, (1.0, self._weight(log)))
        self._move(total, log)
        return log

    def state(self) -> dict[str, Any]:
        """All that a resumed run needs; randomness needs nothing, it hangs on seed and step."""
        return {
            "arm": dataclasses.asdict(self.arm),
            "settings": dataclasses.asdict(self.settings),
            "problems": [p.name for p in self.problems],
            "step": self.step,
            "concise_weight": self.concise_weight,
            "weights": {n: p.detach().clone() for n, p in self.parameters.items()},
            "optimiser": self.optimiser.state_dict(),
            "teacher": self.teacher.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`; raises BadParameter when it is of another run."""
        mine = self.state()
        for part in ("arm", "settings", "problems"):
            if state[part] != mine[part]:
                raise BadParameter(f"checkpoint with another {part} is refused; accepted: its own.")
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.teacher.load(state["teacher"])
        self.step, self.concise_weight = state["step"], state["concise_weight"]

    def _batch(self) -> list[Problem]:
        size, first = self.settings.batch, self.step * self.settings.batch
        return [self.problems[(first + i) % len(self.problems)] for i in range(size)]

    def _guided(self, batch, asked, answers, log) -> list[Tensor | None]:
        """Gradients of L_G; answers whose teacher prefix does not fit are dropped and counted."""
        rich = [
            prompts.teacher(self.tokenizer, p, self.arm.placement, self.wording).ids for p in batch
        ]
        own = [a.ids for a in answers]
        kept, log["dropped"] = packing.within(rich, own, self._context())
        count = means.answered([len(own[i]) for i in kept])
        log["empty"] = len(kept) - count
        log["guidance_loss"] = 0.0

        def loss(part: list[int]) -> Tensor:
            ids, pad = [own[i] for i in part], self.tokenizer.pad_token_id
            log["scored_tokens"] += sum(map(len, ids))
            log["forward_passes"] += 1
            with self.teacher.weights() as teacher:
                seen = scoring.answer_logits(teacher, [rich[i] for i in part], ids, pad)
            mine = scoring.answer_logits(self.model, [asked[i] for i in part], ids, pad)
            temperature = self.settings.loss_temperature
            each = [
                losses.position_losses(p, q, self.arm.kind, temperature)
                for p, q in zip(mine, seen, strict=True)
            ]
            return means.answer_mean(each, count)

        return self._gradients(loss, kept, own, "guidance", log)

    def _supervised(self, batch, asked, log) -> list[Tensor | None]:
        """Gradients of -log p(solution, end), a mean within each solution, then over them."""
        end = self.tokenizer.eos_token_id
        coded = [self.tokenizer(p.solution, add_special_tokens=False)["input_ids"] for p in batch]
        golds = [(*ids, end) for ids in coded]
        kept, log["dropped"] = packing.within(asked, golds, self._context())

        def loss(part: list[int]) -> Tensor:
            own, ids = [asked[i] for i in part], [golds[i] for i in part]
            mine = scoring.answer_logits(self.model, own, ids, self.tokenizer.pad_token_id)
            each = [srcl.token_losses(p, g) for p, g in zip(mine, ids, strict=True)]
            return means.answer_mean(each, len(kept))

        return self._gradients(loss, kept, golds, "supervised", log)

    def _concise(self, batch, asked, answers, log) -> list[Tensor | None]:
        """Rewrite, judge, and the gradients of L_SRCL; no accepted rewrite: no term."""
        requests = [
            prompts.rewrite(self.tokenizer, p, a.ids, self.wording).ids
            for p, a in zip(batch, answers, strict=True)
        ]
        rewrites = rollout.write(self.model, self.tokenizer, requests, self.settings.most)
        limits = gates.Limits(least=self.settings.least)
        outcomes = []
        for problem, answer, rewrite in zip(batch, answers, rewrites, strict=True):
            text = self.tokenizer.decode(rewrite.ids, skip_special_tokens=True)
            candidate = gates.Candidate(rewrite.ids, rewrite.ended, text)
            found = gates.book(candidate, len(answer), self.places(problem.answer), limits)
            outcomes.append(found)
        booked = srcl.ledger(outcomes, [len(r) for r in rewrites])
        log["generated_tokens"] += sum(map(len, rewrites))
        log |= {"reasons": booked.reasons, "accepted": len(booked.accepted)}
        log["accepted_tokens"] = booked.tokens

        def loss(part: list[int]) -> Tensor:
            own, ids = [asked[i] for i in part], [rewrites[i].ids for i in part]
            mine = scoring.answer_logits(self.model, own, ids, self.tokenizer.pad_token_id)
            return srcl.loss(mine, ids, booked.tokens)

        learnt = [r.ids for r in rewrites]
        return self._gradients(loss, list(booked.accepted), learnt, "concise", log)

    def _gradients(self, loss, kept: list[int], targets, name: str, log) -> list[Tensor | None]:
        """Gradients of `loss` summed over micro-batches of `kept`; logs the value and its norm.

        targets: token ids [m_i] an example, counted as trained.
        """
        total: list[Tensor | None] = [None] * len(self.parameters)
        value, size = 0.0, self.settings.micro
        for first in range(0, len(kept), size):
            part = loss(kept[first : first + size])
            found = torch.autograd.grad(part, list(self.parameters.values()), allow_unused=True)
            total = balance.combined(total, found, (1.0, 1.0))
            value += part.item()
            log["forward_passes"] += 1
            log["trained_tokens"] += sum(len(targets[i]) for i in kept[first : first + size])
        log[f"{name}_loss"], log[f"{name}_norm"] = value, balance.norm(total)
        return total

    def _weight(self, log) -> float:
        """SRCL's weight: 1 alone, else chosen at the first step that has an accepted rewrite."""
        if self.arm.concise == 1:
            self.concise_weight = 1.0
        elif self.concise_weight is None and log["accepted"] and log["guidance_norm"]:
            norms = log["guidance_norm"], log["concise_norm"]
            self.concise_weight = balance.weight(*norms, self.arm.concise)
        log["concise_weight"] = self.concise_weight or 0.0
        return log["concise_weight"]

    def _move(self, gradients: Sequence[Tensor | None], log) -> None:
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.settings.cap)
        log["gradient_norm"] = float(norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.teacher.after_step()

    def _context(self) -> int:
        return self.model.config.max_position_embeddings


def _rotated(problems: Sequence[Problem]) -> list[Problem]:
    """Every problem with the solution of the next one: the placebo."""
    return [
        dataclasses.replace(problem, solution=problems[(at + 1) % len(problems)].solution)
        for at, problem in enumerate(problems)
    ]
