"""The training experiment: its arms, one seed's verdict, and the files by which seeds are compared.

The baseline is OPSD as published, user side and frozen. Every arm shares start, problems and their
order, updates, token caps and first answers with it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repro import compare, files
from repro.compare import paired
from repro.errors import BadParameter
from repro.recursive_opsd import arms, checkpoint, evaluate, loop, sums, train

BASELINE = "opsd"
ROLES = {
    BASELINE: "baseline",
    arms.UNTRAINED: "untouched",
    "zero_rate": "zero_learning_rate",
    "placebo": "placebo",
}
MARGIN = 0.1  # of accuracy: the smallest difference that would matter on this task
FEWEST = 6  # with fewer items, all signs alike still have p = 2 * 2**-n above 0.05


def plan(names: str) -> dict[str, arms.Arm]:
    """The arms of a list such as "dce, sft" by name; the baseline is always there, and first."""
    given = (name.strip() for name in names.split(","))
    return {name: arms.arm(name) for name in [BASELINE, *(n for n in given if n)]}


def train_all(
    model: Any,
    tokenizer: Any,
    chosen: Mapping[str, arms.Arm],
    settings: arms.Settings,
    task: sums.Task,
    updates: int,
    looks: int = 1,
    probes: int = 4,
    folder: Path | None = None,
) -> tuple[dict[str, loop.Trained], dict[str, Any]]:
    """Every arm from the start that `model` has now, and the look of that start, untrained.

    probes: validation problems of the held-out KL. folder: where checkpoints lie.
    """
    start = checkpoint.snapshot(model)
    asked = task.splits["validation"]
    fixed = evaluate.probe(model, tokenizer, asked[:probes], task.wording, settings.most)

    def look(now: Any) -> dict[str, Any]:
        found = evaluate.judged(now, tokenizer, asked, task.wording, settings.most)
        return loop.as_look(found, evaluate.held_out(now, fixed))

    before, made = {"step": 0} | look(model), {}
    for name, arm in chosen.items():
        checkpoint.restore(model, start)
        run = train.Training(
            model,
            tokenizer,
            arm,
            settings,
            task.splits["train"],
            task.wording,
            task.places,
        )
        file = None if folder is None else folder / f"{name}.pt"
        made[name] = loop.train(run, updates, look, looks, file)
    checkpoint.restore(model, start)
    return made, before


def tested(
    model: Any, tokenizer: Any, made: Mapping[str, loop.Trained], task: sums.Task, most: int
) -> dict[str, evaluate.Judged]:
    """The test under every chosen checkpoint and, first, under the start; which is put back."""
    start = checkpoint.snapshot(model)
    weights = {arms.UNTRAINED: start} | {name: trained.weights for name, trained in made.items()}
    found = {}
    for name, saved in weights.items():
        checkpoint.restore(model, saved)
        found[name] = evaluate.judged(model, tokenizer, task.splits["test"], task.wording, most)
    checkpoint.restore(model, start)
    return found


def verdict(
    baseline: Mapping[str, float],
    arm: Mapping[str, float],
    margin: float = MARGIN,
    moved: float = 1.0,
) -> tuple[str, float, tuple[float, float], float, str]:
    """Word, mean gain, its 95 % interval, the detectable gain, and the reason, of one seed.

    baseline, arm: item -> score, higher is better. The words are those of `repro.compare`.
    *uninformative*: identical, never moved, fewer than `FEWEST` items, or nothing as small as
    `margin` would have been seen. One seed: the interval is of items only.
    """
    d = np.array([[arm[item] - baseline[item] for item in baseline]])
    low, high = paired.interval(d)
    seen = paired.detectable(d)
    if not d.any():
        word, why = "uninformative", "identical on every item"
    elif moved == 0:
        word, why = "uninformative", "never moved"
    elif d.size < FEWEST:
        word, why = "uninformative", f"{d.size} items"
    elif low > 0 or high < 0:
        word, why = ("better" if low > 0 else "worse"), "interval on one side of 0"
    elif seen > margin:
        word, why = "uninformative", "would not have seen the margin"
    else:
        word, why = "not distinguished", "interval holds 0"
    return word, float(d.mean()), (low, high), seen, why


def manifest(
    question: str,
    names: Sequence[str],
    seeds: Sequence[int],
    caps: Mapping[str, float],
    task: sums.Task,
    roles: Mapping[str, str] = ROLES,
) -> dict[str, Any]:
    """The frozen manifest: the problems of every split by id and text."""
    splits = {
        split: compare.manifest.split(
            {p.name: p.question for p in asked},
            f"repro.recursive_opsd.sums:{task.name}",
            files.digest([[p.question, p.solution] for p in asked]),
        )
        for split, asked in task.splits.items()
    }
    return compare.manifest.freeze(
        question=question,
        metric="finished right answers, greedy",
        direction="higher",
        margin=MARGIN,
        arms={name: roles.get(name, "candidate") for name in names},
        seeds=seeds,
        caps=caps,
        splits=splits,
        checkpoint_rule="best of the looks at validation, the earlier one on a tie",
    )


def as_run(
    frozen: Mapping[str, Any],
    arm: str,
    seed: int,
    start: Mapping[str, Any],
    order: Sequence[str],
    made: loop.Trained | None,
    look: Mapping[str, Any],
    looks: int,
) -> dict[str, Any]:
    """One run as evidence/schema/comparison.json wants it, its test not opened.

    made: None for the untrained start. look: the chosen look at validation.
    """
    weights = start if made is None else made.weights
    return {
        "manifest": compare.manifest.digest(frozen),
        "arm": arm,
        "seed": seed,
        "caps": dict(frozen["caps"]),
        "settings": 1,
        "looks": looks,
        "start": checkpoint.fingerprint(start),
        "order": files.digest(list(order)),
        "first_rollout": None if made is None else made.first_rollout,
        "checkpoint": checkpoint.fingerprint(weights),
        "used": dict.fromkeys(loop.USED, 0.0) if made is None else made.used,
        "moved": checkpoint.moved(start, weights),
        "bound": {},
        "validation": {"scores": look["scores"], "unfinished": look["unfinished"]},
        "test": None,
        "sealed": None,
    }


def write(
    folder: Path,
    name: str,
    frozen: Mapping[str, Any],
    runs: Sequence[dict],
    tests: Mapping[str, evaluate.Judged],
) -> None:
    """Leave one seed's runs, tests apart, for `open_test`."""
    seed = runs[0]["seed"]
    value = {"manifest": frozen, "runs": list(runs)}
    files.write_atomic(folder / f"{name}-{seed}.json", files.canonical(value) + "\n")
    held = {a: {"scores": t.scores, "unfinished": t.unfinished} for a, t in tests.items()}
    files.write_atomic(folder / f"{name}-{seed}.test.json", files.canonical(held) + "\n")


def open_test(folder: Path, name: str) -> Path:
    """Seal the choice of all seeds by validation, then join the tests: a file for `repro compare`.

    folder: holds `<name>-<seed>.json` (validation alone) and `<name>-<seed>.test.json`. The tests
    are read only after the choice is sealed.
    """
    paths = [p for p in sorted(folder.glob(f"{name}-*.json")) if not p.stem.endswith(".test")]
    if not paths:
        raise BadParameter(f"folder={folder.name!r} has no {name}-*.json; accepted: one that has.")
    frozen, runs, _ = compare.load.load(paths)
    choice = compare.choice.seal(frozen, runs)
    compare.choice.open_test(choice, folder / "opened")
    tests = {p.stem: json.loads(p.with_name(f"{p.stem}.test.json").read_text()) for p in paths}
    for run in runs:
        run["test"], run["sealed"] = tests[f"{name}-{run['seed']}"][run["arm"]], choice["id"]
    joined = folder / f"joined-{name}.json"
    value = {"manifest": frozen, "runs": runs, "sealed": choice}
    files.write_atomic(joined, files.canonical(value) + "\n")
    return joined
