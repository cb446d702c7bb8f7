"""The training experiment: which runs there are, and the files by which seeds are compared.

A run is an arm under a target. Arms that know no target (correctness, zero learning rate) are
trained once and judged under every target; "untrained" is the start itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from repro import compare, files
from repro.errors import BadParameter
from repro.mad_rl import divergences, policy, study_training, tasks, train

BLIND = ("correctness", "zero_lr")  # trained once, for all targets
ROLES = {
    "correctness": "baseline",
    "untrained": "untouched",
    "zero_lr": "zero_learning_rate",
    "shuffled": "placebo",
}
MARGIN = 0.03  # nats: the sampling floor of 16 samples and five categories


def plan(arms: str, targets: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The runs (arm, target name) of a list such as "js, l2"; the baseline is always there.

    A blind arm has the target name "any". Raises BadParameter for an arm that is not known.
    """
    names = dict.fromkeys(["correctness", *(a.strip() for a in arms.split(",") if a.strip())])
    if odd := [name for name in names if name not in train.ARMS]:
        raise BadParameter(f"arms={odd} is refused; accepted: {', '.join(train.ARMS)}.")
    return [(a, t) for a in names for t in (("any",) if a in BLIND else targets)]


def train_all(
    model: Any,
    runs: Sequence[tuple[str, str]],
    targets: Mapping[str, np.ndarray],
    questions: Sequence[Sequence[tasks.Question]],
    end: int,
    settings: train.Settings,
    folder: Path | None = None,
) -> dict[tuple[str, str], train.Trained]:
    """Train every run from the same start, the one that `model` has now; it has it again after.

    folder: where checkpoints lie; a run that is complete there is not trained again.
    """
    start, made = policy.snapshot(model), {}
    for arm, name in runs:
        policy.restore(model, start)
        target = targets[name] if name in targets else next(iter(targets.values()))
        file = None if folder is None else folder / f"{arm}-{name}.pt"
        made[arm, name] = train.train(model, arm, target, questions, end, settings, file)
    policy.restore(model, start)
    return made


def judged(model: Any, adapters: Mapping[Any, dict], questions: Sequence[tasks.Question]) -> dict:
    """Exact probabilities [n, K] of `questions` under each adapter; the start is put back."""
    start, found = policy.snapshot(model), {}
    for key, adapter in adapters.items():
        policy.restore(model, adapter)
        found[key] = study_training.probabilities(model, questions)
    policy.restore(model, start)
    return found


def of_target(found: Mapping[tuple[str, str], Any], name: str) -> Iterator[tuple[str, Any]]:
    """The arms that are judged under target `name`: its own and the blind ones."""
    for (arm, target), value in found.items():
        if target in (name, "any"):
            yield arm, value


def manifest(
    target: str, arms: Sequence[str], seeds: Sequence[int], caps: Mapping[str, float], asked: dict
) -> dict[str, Any]:
    """The frozen manifest of one target. asked: the questions of validation and test.

    The items of the training split are its topics: which orders are drawn is the seed's matter.
    """
    items = {"train": {topic.lower(): things for topic, things in tasks.TOPICS["train"].items()}}
    for split in ("validation", "test"):
        items[split] = {q.id: q.text.rsplit("\n", 1)[-1] for q in asked[split]}
    made = {
        split: compare.manifest.split(one, "repro.mad_rl.tasks", files.digest(tasks.TOPICS[split]))
        for split, one in items.items()
    }
    return compare.manifest.freeze(
        question=f"Does a divergence reward come nearer to the {target} mix than correctness?",
        metric="Jensen-Shannon divergence, invalid answers included",
        direction="lower",
        margin=MARGIN,
        arms={arm: ROLES.get(arm, "candidate") for arm in arms},
        seeds=seeds,
        caps=caps,
        splits=made,
        checkpoint_rule="the adapter after the last update",
    )


def as_run(
    frozen: Mapping[str, Any],
    arm: str,
    settings: train.Settings,
    made: train.Trained,
    start: dict,
    order: Sequence[Sequence[tasks.Question]],
    outcomes: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """One run as evidence/schema/comparison.json wants it. outcomes: split -> item -> score.

    A test that is not among the outcomes is not opened.
    """
    none, digest = arm == "untrained", files.digest
    test = outcomes.get("test")
    return {
        "manifest": compare.manifest.digest(frozen),
        "arm": arm,
        "seed": settings.seed,
        "caps": dict(frozen["caps"]),
        "settings": 1,
        "looks": 1,
        "start": policy.fingerprint(start),
        "order": digest([[q.id, list(q.prompt)] for step in order for q in step]),
        "first_rollout": made.first_rollout,
        "checkpoint": policy.fingerprint(made.adapter),
        "used": made.used or dict.fromkeys(train.USED, 0.0),
        "moved": 0.0 if none else policy.distance(start, made.adapter),
        "bound": {},
        "validation": {"scores": dict(outcomes["validation"]), "unfinished": {}},
        "test": None if test is None else {"scores": dict(test), "unfinished": {}},
        "sealed": None,
    }


def scores(
    questions: Sequence[tasks.Question], measured: study_training.Measured
) -> dict[str, float]:
    """Item -> main metric."""
    ids = [q.id for q in questions]
    return dict(zip(ids, measured.unconditional.tolist(), strict=True))


def caps(settings: train.Settings, updates: int, prompts: int) -> dict[str, float]:
    """What every arm may use."""
    own = asdict(settings)
    return {"updates": updates, "prompts": prompts, "group": own["group"], "tokens": own["cap"]}


def open_test(folder: Path, target: str) -> Path:
    """Seal the choice of all seeds by validation, then join the tests: a file for `repro compare`.

    folder: holds `<target>-<seed>.json` (validation alone) and `<target>-<seed>.test.json`, as the
    notebook leaves them. The tests are read only after the choice is sealed.
    """
    paths = [p for p in sorted(folder.glob(f"{target}-*.json")) if not p.stem.endswith(".test")]
    if not paths:
        raise BadParameter(
            f"folder={folder.name!r} has no {target}-*.json; accepted: one that has."
        )
    frozen, runs, _ = compare.load.load(paths)
    choice = compare.choice.seal(frozen, runs)
    compare.choice.open_test(choice, folder / "opened")
    tests = {p.stem: json.loads(p.with_name(f"{p.stem}.test.json").read_text()) for p in paths}
    for run in runs:
        scores = tests[f"{target}-{run['seed']}"][run["arm"]]
        run["test"], run["sealed"] = {"scores": scores, "unfinished": {}}, choice["id"]
    joined = folder / f"joined-{target}.json"
    files.write_atomic(
        joined, files.canonical({"manifest": frozen, "runs": runs, "sealed": choice}) + "\n"
    )
    return joined


def write(
    folder: Path, target: str, frozen: Mapping[str, Any], runs: Sequence[dict], tests: dict
) -> None:
    """Leave one seed's runs, tests apart, for `open_test`."""
    seed = runs[0]["seed"]
    value = {"manifest": frozen, "runs": list(runs)}
    files.write_atomic(folder / f"{target}-{seed}.json", files.canonical(value) + "\n")
    files.write_atomic(folder / f"{target}-{seed}.test.json", files.canonical(tests) + "\n")


def targets(text: str, peaked: str) -> dict[str, np.ndarray]:
    """The targets by name: "uniform", "peaked", or both; `peaked` is a text of `tasks.KINDS`."""
    from repro.mad_rl.study_simplex import parsed

    known = {"uniform": np.full(tasks.KINDS, 1 / tasks.KINDS), "peaked": parsed(peaked, "peaked")}
    if known["peaked"].size != tasks.KINDS:
        raise BadParameter(f"peaked={peaked!r} is refused; accepted: {tasks.KINDS} entries.")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(known):
        raise BadParameter(f"targets={text!r} is refused; accepted: uniform, peaked, or both.")
    return {name: divergences.distribution(known[name]) for name in names}
