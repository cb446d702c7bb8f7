"""The language model on three menus: paired with the lot on the same menus and levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.code_skills import lm, menus, study_action_spaces, text
from repro.code_skills.bot import Bot
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.episode import Spec


@dataclass(frozen=True)
class Run:
    """Episodes of one menu with what each cost the model; tasks outer, seeds inner."""

    played: list[dict[str, Any]]
    usage: list[lm.Usage]

    def entropies(self) -> np.ndarray:
        """Entropy of every choice over the logarithm of its menu's size: 1 is a lot, [choices]."""
        pairs = [
            (h, n) for one in self.usage for h, n in zip(one.entropies, one.sizes, strict=True)
        ]
        return np.array([h / np.log(n) if n > 1 else 0.0 for h, n in pairs])

    def counts(self) -> dict[str, float]:
        """Means an episode: calls of the model, tokens read anew, tokens of scored names."""
        names = ("calls", "tokens_read", "tokens_scored")
        return {name: float(np.mean([getattr(u, name) for u in self.usage])) for name in names}


def play(
    chooser: lm.Chooser,
    mode: str,
    tasks: Sequence[str],
    numbers: Sequence[int],
    budget: int,
    decisions: int = 0,
    without: Sequence[str] = (),
    fault: str = "",
) -> Run:
    """The model on one menu, at most `decisions` (0: as many as steps) on every task and seed."""
    usage: list[lm.Usage] = []

    def asked(spec: Spec) -> Any:
        usage.append(lm.Usage())
        return chooser.start(spec, menus.menu(spec.mode, spec.skills, spec.without), usage[-1])

    found = study_action_spaces.play(
        tasks, numbers, budget, [(mode, "lm")], without, fault, asked, decisions
    )
    return Run(found[mode, "lm"], usage)


def scene(task: str, seed: int, mode: str, names: Sequence[str] = ()) -> tuple[str, str, list[str]]:
    """(head, what is seen, menu) on a level after the decisions `names`: one question put."""
    engine = Engine(f"MiniHack-{task}-v0", 64)
    try:
        bot = Bot(engine, menus.menu(mode))
        bot.start(Seed(seed, seed))
        for name in names:
            bot.call(name)
        head = text.instructions(bot.menu, text.goal(f"MiniHack-{task}-v0"))
        return head, text.observation(bot), list(bot.menu)
    finally:
        engine.close()


def scores(
    chooser: lm.Chooser, head: str, seen: str, names: Sequence[str]
) -> dict[str, np.ndarray]:
    """What each scoring rule makes of one question: {"tokens", *rules, "p"}, each [M]."""
    logp, lengths = chooser.logp(head, seen, names)
    without, _ = chooser.logp(head, text.split(seen)[0] + lm.NOTHING, names)
    made = {rule: lm.score(logp, lengths, without, rule) for rule in lm.RULES}
    p = np.exp(made[chooser.rule] - made[chooser.rule].max())
    return {"tokens": lengths} | made | {"p": p / p.sum()}


def repeats(played: Sequence[dict[str, Any]]) -> float:
    """Share of decisions that repeat the one before although it made no step."""
    pairs = [pair for e in played for pair in zip(e["actions"], e["actions"][1:], strict=False)]
    idle = [a["name"] == b["name"] for a, b in pairs if a["steps"] == 0]
    return float(np.mean(idle)) if idle else 0.0
