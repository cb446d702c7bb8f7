"""Train one arm: draw groups, reward them, step; saved so that a killed run goes on where it was.

MaD-RL (arXiv 2609.31644) as rebuilt here: the update is GRPO's with the clipped ratio of whole
answers, without a KL penalty [U]. Every random draw of update s comes from a generator seeded by
(seed, s), so arms of one seed draw with the same numbers, and a resumed run needs no saved state
of a generator.
"""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from repro import files
from repro.errors import BadParameter
from repro.mad_rl import advantages, divergences, policy, rewards, tasks

REWARDED = (*divergences.NAMES, "correctness", "shuffled", "zero_lr")
ARMS = (*REWARDED, "supervised")


@dataclass(frozen=True)
class Settings:
    """What all arms of a comparison share.

    group: answers a prompt. cap: tokens an answer. rate: Adam's learning rate at the first update,
    from where it falls in a line to 0 behind the last. passes: updates on
    one draw; with 1 the ratio is 1 and nothing is clipped. scale, clip: see `advantages`.
    every: updates between checkpoints.
    """

    seed: int = 42
    group: int = 16
    cap: int = 4
    rate: float = 1e-3
    passes: int = 1
    scale: str = "none"
    clip: float = 0.2
    every: int = 5

    def __post_init__(self):
        for name, least in (("group", 2), ("cap", 1), ("passes", 1), ("every", 1)):
            if getattr(self, name) < least:
                raise BadParameter(
                    f"{name}={getattr(self, name)} is refused; accepted: {least} or more."
                )
        if not 0 <= self.rate < 1:
            raise BadParameter(f"rate={self.rate} is refused; accepted: 0 or more, below 1.")


@dataclass
class Trained:
    """What training left: the adapter, a row of numbers an update, and what was used.

    history: per update loss, gradient norm, mean reward, shares of invalid answers and of silent
    groups. used: as `repro.compare` wants it; forward passes are those of scoring.
    first_rollout: hash of the first update's answers.
    """

    adapter: dict[str, Any]
    history: list[dict[str, float]] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=dict)
    first_rollout: str | None = None


USED = ("generated_tokens", "scored_tokens", "trained_tokens", "forward_passes", "seconds")


def train(
    model: Any,
    arm: str,
    target: Any,
    questions: Sequence[Sequence[tasks.Question]],
    end: int,
    settings: Settings,
    checkpoint: Path | None = None,
    watch: Callable[[int, dict[str, float]], None] | None = None,
) -> Trained:
    """Train `model`'s adapter in place on `questions` [updates][prompts] towards `target` [K].

    arm: one of `ARMS`. "shuffled" has Jensen-Shannon rewards for labels drawn by lot among the
    valid answers; "zero_lr" is "js" with a learning rate of 0; "supervised" sees right answers
    drawn from the target.
    checkpoint: file written every few updates and at the end; if it is there, training goes on
    from it. Raises BadParameter for an arm that is not known, or a checkpoint of another run.
    """
    import torch

    if arm not in ARMS:
        raise BadParameter(f"arm={arm!r} is refused; accepted: {', '.join(ARMS)}.")
    target = divergences.distribution(target)
    rate = 0.0 if arm == "zero_lr" else settings.rate
    optimizer = torch.optim.AdamW(policy.weights(model).values(), rate, weight_decay=0.0)
    made = Trained(policy.snapshot(model), used=dict.fromkeys(USED, 0.0))
    name = _name(arm, target, questions, settings, policy.fingerprint(made.adapter))
    if checkpoint is not None and checkpoint.exists():
        _resume(checkpoint, name, model, optimizer, made)
    for update in range(len(made.history), len(questions)):
        clock = time.monotonic()
        for part in optimizer.param_groups:  # near the target rewards are noise: smaller steps
            part["lr"] = rate * (1 - update / len(questions))
        row = _update(model, optimizer, arm, target, questions[update], end, settings, update, made)
        made.used["seconds"] += time.monotonic() - clock
        made.history.append(row)
        last = update == len(questions) - 1
        if checkpoint is not None and (last or (update + 1) % settings.every == 0):
            _save(checkpoint, name, model, optimizer, made)
        if watch is not None:
            watch(update, row)
    made.adapter = policy.snapshot(model)
    return made


def _update(model, optimizer, arm, target, questions, end, settings, update, made) -> dict:
    """One update; the numbers of its row."""
    import torch

    generator = torch.Generator().manual_seed(settings.seed * 100_003 + update)
    rng = np.random.default_rng([settings.seed, 2, update])
    if arm == "supervised":
        drawn = [_right(q, target, settings.group, rng) for q in questions]
        pay, row = np.ones((len(questions), settings.group)), {"reward": 0.0, "invalid": 0.0}
        silent = np.zeros(len(questions), bool)
    else:
        drawn = [
            policy.sample(model, q.prompt, settings.group, settings.cap, end, generator)
            for q in questions
        ]
        if update == 0:
            made.first_rollout = files.digest([[list(a) for a in d] for d in drawn])
        made.used["generated_tokens"] += sum(len(a) for d in drawn for a in d)
        paid = np.stack(
            [_paid(arm, q, d, target, rng) for q, d in zip(questions, drawn, strict=True)]
        )
        pay, silent = advantages.advantages(paid, settings.scale), advantages.no_signal(paid)
        bad = [tasks.category(q, a) < 0 for q, d in zip(questions, drawn, strict=True) for a in d]
        row = {"reward": float(paid.mean()), "invalid": float(np.mean(bad))}
    old: list[Any] = [None] * len(questions)
    loss = norm = 0.0
    for _ in range(settings.passes):
        optimizer.zero_grad()
        loss = 0.0
        for at, (q, answers) in enumerate(zip(questions, drawn, strict=True)):
            kinds = sorted(set(answers))
            weight = np.array([pay[at][[a == k for a in answers]].sum() for k in kinds])
            logp = policy.score(model, q.prompt, kinds)
            if old[at] is None:
                old[at] = logp.detach()
            gain = _gain(arm, logp, old[at], torch.tensor(weight).to(logp), settings)
            part = -gain.sum() / (settings.group * len(questions))
            part.backward()
            loss += part.item()
            tokens = sum(len(k) for k in kinds)
            made.used["trained_tokens"] += tokens
            made.used["scored_tokens"] += tokens
            made.used["forward_passes"] += 1
        grad = torch.nn.utils.clip_grad_norm_(policy.weights(model).values(), 1.0)
        norm = float(grad)
        if arm == "supervised" or not silent.all():  # Adam's momentum must not move on silence
            optimizer.step()
    return row | {"loss": loss, "gradient": norm, "silent": float(silent.mean())}


def _gain(arm, logp, old, weight, settings) -> Any:
    """What is climbed, one entry a distinct answer; `weight` sums the advantages of its copies."""
    if arm == "supervised":
        return weight * logp
    return advantages.surrogate((logp - old).exp(), weight, settings.clip)


def _paid(arm: str, question: tasks.Question, answers, target, rng) -> np.ndarray:
    """Rewards [G] of one prompt's answers."""
    categories = np.array([tasks.category(question, a) for a in answers])
    if arm == "correctness":
        return rewards.correctness(categories >= 0)
    lot = rng.integers(0, target.size, categories.size)
    if arm == "shuffled":
        categories = np.where(categories >= 0, lot, categories)
    name = arm if arm in divergences.NAMES else "js"
    return rewards.group(name, categories, target)


def _right(question: tasks.Question, target: np.ndarray, group: int, rng) -> list[tuple]:
    return [question.answers[k] for k in rng.choice(target.size, group, p=target)]


def _name(arm, target, questions, settings, start) -> str:
    """What a checkpoint must have been made from to be gone on with."""
    asked = [[list(q.prompt), list(map(list, q.answers))] for step in questions for q in step]
    return files.digest([arm, target.tolist(), asked, asdict(settings), start])


def _save(path: Path, name: str, model, optimizer, made: Trained) -> None:
    """Whole or not at all: a kill while writing leaves the earlier checkpoint."""
    import torch

    state = {
        "name": name,
        "adapter": policy.snapshot(model),
        "optimizer": optimizer.state_dict(),
        "history": made.history,
        "used": made.used,
        "first_rollout": made.first_rollout,
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_atomic(path, buffer.getvalue())


def _resume(path: Path, name: str, model, optimizer, made: Trained) -> None:
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is none of its own
        raise BadParameter(
            f"checkpoint={path.name} is not readable ({type(error).__name__}); "
            "accepted: a whole checkpoint. Remove it to start anew."
        ) from error
    if state["name"] != name:
        raise BadParameter(
            f"checkpoint={path.name} is of another run; accepted: one with the same arm, target, "
            "questions, settings and start. Remove it to start anew."
        )
    policy.restore(model, state["adapter"])
    optimizer.load_state_dict(state["optimizer"])
    made.history, made.used = state["history"], state["used"]
    made.first_rollout = state["first_rollout"]
