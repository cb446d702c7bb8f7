"""A public three-seed diagnostic of this method, repeated at its budget with a small model.

What is known of it (a public repository's notes, label C): GSM8K, 4 problems a split, 2 updates at
5e-6, answers of at most 96 tokens, LoRA of rank 8 on queries and values, three arms that all have
the prompt of DCE. It chose the frozen teacher on validation, and every test difference was 0. Here
the model is another one, so only what follows from the budget itself can be looked at: steps of
1/4, cut answers, and a change of parameters that is the optimiser's step whatever the loss.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.errors import MissingAsset
from repro.recursive_opsd import checkpoint, evaluate, loop, study_training, sums
from repro.recursive_opsd.arms import Arm, Settings

ARMS = {
    "frozen": Arm(schedule="frozen", concise=0.1),  # its winner, and so the baseline
    "dynamic": Arm(concise=0.1),
    "dce": Arm(),
}
ROLES = {"frozen": "baseline"}
UPDATES, RATE, CAP, RANK = 2, 5e-6, 96, 8
PROJECTIONS = ("q_proj", "v_proj")


def settings(seed: int, most: int = CAP) -> Settings:
    """Its settings where they are known; two problems a step is ours."""
    return Settings(rate=RATE, batch=2, micro=2, most=most, seed=seed)


def task(problems: int) -> sums.Task:
    """`problems` in each split of GSM8K, or of sums where GSM8K is missing."""
    try:
        return sums.task("gsm8k", (problems,) * 3)
    except MissingAsset:
        return sums.task("sums", (problems,) * 3)


def adam_step(model: Any, updates: int = UPDATES, rate: float = RATE) -> float:
    """How far `updates` Adam steps carry the B matrices when every entry moves by `rate` each.

    B starts at 0, so in the first step only B has a gradient; entries whose gradient keeps its sign
    move by the full rate, whatever the loss or its size.
    """
    count = sum(
        p.numel() for name, p in model.named_parameters() if p.requires_grad and "lora_B" in name
    )
    return updates * rate * count**0.5


def rows(
    made: Mapping[str, loop.Trained],
    before: Mapping[str, Any],
    tests: Mapping[str, evaluate.Judged],
    start: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """One row an arm: accuracies, share of cut answers, distance, change in KL, verdict, reason."""
    found = []
    for name, trained in made.items():
        look, test = trained.chosen, tests[name]
        moved = checkpoint.moved(start, trained.weights)
        base = tests["frozen"].scores
        word, gain, _, _, why = study_training.verdict(base, test.scores, moved=moved)
        found.append(
            {
                "arm": name,
                "validation": sum(look["scores"].values()) / len(look["scores"]),
                "test": test.right,
                "gain": gain,
                "cut": len(test.unfinished) / len(test.scores),
                "moved": moved,
                "kl": look["kl_own"] - before["kl_own"],
                "verdict": "baseline" if name == "frozen" else word,
                "why": "" if name == "frozen" else why,
            }
        )
    return found


def manifest(seeds: Sequence[int], asked: sums.Task) -> dict[str, Any]:
    """What `repro compare` needs to judge the three seeds together."""
    return study_training.manifest(
        "Does a moving teacher beat a frozen one at the budget of a public diagnostic?",
        list(ARMS),
        seeds,
        {"updates": UPDATES, "batch": 2, "tokens": CAP},
        asked,
        ROLES,
    )


def train(
    model: Any, tokenizer: Any, own: Settings, asked: sums.Task, folder: Path | None = None
) -> tuple[dict[str, loop.Trained], dict[str, Any]]:
    """The three arms and the look of the start."""
    inside = None if folder is None else folder / "origin"
    probes = max(2, len(asked.splits["validation"]))
    return study_training.train_all(model, tokenizer, ARMS, own, asked, UPDATES, 1, probes, inside)


def note(run: Any, rows: Sequence[Mapping[str, Any]], problems: int) -> None:
    """Put what `rows` found into the record."""
    for row in rows:
        facts = {"split": "test", "n": problems, "direction": "none"}
        name = row["arm"]
        run.metric(f"origin_right_{name}", row["test"], unit="share", **facts)
        run.metric(f"origin_cut_{name}", row["cut"], unit="share", **facts)
        run.metric(f"origin_moved_{name}", row["moved"], unit="distance", **facts)
        run.metric(f"origin_change_kl_{name}", row["kl"], unit="nats", **facts)
        if name != "frozen":
            blind = row["verdict"] == "uninformative"
            run.metric(f"origin_uninformative_{name}", blind, unit="yes or no", **facts)
