"""The training study: splits, looks, verdicts, its files for `repro compare`, bad arguments."""

import json

import pytest

from repro import compare
from repro.errors import BadParameter, MissingAsset
from repro.recursive_opsd import arms, evaluate, loop, study_origin, study_training, sums


def test_no_sum_is_in_two_splits_in_any_order():
    task = sums.task("sums", (200, 60, 100))
    pairs = {
        split: {tuple(sorted(map(int, p.name.split("+")))) for p in asked}
        for split, asked in task.splits.items()
    }
    assert [len(pairs[s]) for s in sums.SPLITS] == [200, 60, 100]
    assert len(set.union(*pairs.values())) == 360
    assert all(sum(map(int, p.name.split("+"))) == int(p.answer) for p in task.splits["test"])
    again = sums.task("sums", (200, 60, 100))
    assert again.splits == task.splits  # of no seed


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: sums.task("products", (1, 1, 1)), "products"),
        (lambda: sums.task("sums", (1, 1, 5000)), "test=5000 is refused"),
        (lambda: sums.task("sums", (0, 1, 1)), "train=0 is refused"),
        (lambda: study_training.plan("dce, dpo"), "arm='dpo' is refused; accepted: dce"),
        (lambda: loop.schedule(2, 3), "looks=3 is refused; accepted: 1 to the 2 updates"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(BadParameter, match=says):
        call()


def test_the_baseline_is_published_opsd_and_comes_first():
    chosen = study_training.plan("sft, dce")
    assert list(chosen) == ["opsd", "sft", "dce"]
    assert (chosen["opsd"].schedule, chosen["opsd"].placement) == ("frozen", "instruction_last")


def test_validation_is_scored_evenly_and_at_the_end():
    assert loop.schedule(6, 2) == [3, 6] and loop.schedule(5, 1) == [5]


@pytest.mark.parametrize(
    "text, ended, right",
    [("Answer: 12", True, 1.0), ("7 + 5 = 12", True, 1.0), ("7 + 5 = 12", False, 0.0),
     ("Answer: 13", True, 0.0), ("", True, 0.0)],
)  # fmt: skip
def test_a_finished_right_answer_scores(text, ended, right):
    assert evaluate.score(text, ended, "12") == right


def test_verdicts_of_one_seed():
    items = [str(i) for i in range(40)]
    wrong, right = dict.fromkeys(items, 0.0), dict.fromkeys(items, 1.0)
    assert study_training.verdict(wrong, right)[0] == "better"
    assert study_training.verdict(right, wrong)[0] == "worse"
    assert study_training.verdict(right, right)[4] == "identical on every item"
    assert study_training.verdict(wrong, right, moved=0.0)[4] == "never moved"
    few = items[:4]
    told = study_training.verdict(dict.fromkeys(few, 0.0), dict.fromkeys(few, 1.0))
    assert told[0] == "uninformative" and told[4] == "4 items"
    one = wrong | {"0": 1.0}
    assert study_training.verdict(wrong, one, margin=0.01)[4] == "would not have seen the margin"
    assert study_training.verdict(wrong, one, margin=0.5)[0] == "not distinguished"


def seed_left(folder, seed):
    """What one seed leaves: opsd solves the first half, dce all, of validation and test."""
    task = sums.task("sums", (6, 20, 30))
    caps = {"updates": 1, "batch": 1, "tokens": 4}
    names = ["opsd", "dce", arms.UNTRAINED]
    frozen = study_training.manifest("?", names, [42, 43, 44], caps, task)
    start, weights = {"w": _tensor(seed)}, {"w": _tensor(seed) + 1}
    first = "f" * 64

    def scores(split, arm):
        asked = task.splits[split]
        half = len(asked) if arm == "dce" else len(asked) // 2
        return {p.name: float(i < half) for i, p in enumerate(asked)}

    left, tests = [], {}
    order = [p.name for p in task.splits["train"]]
    for name in names:
        look = {"scores": scores("validation", name), "unfinished": {}}
        made = loop.Trained(weights, first_rollout=first) if name != arms.UNTRAINED else None
        left.append(study_training.as_run(frozen, name, seed, start, order, made, look, 1))
        if name == arms.UNTRAINED:
            left[-1]["looks"] = 0
        held = scores("test", name)
        tests[name] = evaluate.Judged(held, held, {}, 3.0, 0.0)
    study_training.write(folder, "training", frozen, left, tests)


def _tensor(seed):
    import torch

    return torch.full((2,), float(seed))


def test_three_seeds_go_through_the_protocol(tmp_path):
    with pytest.raises(BadParameter, match="has no training-"):
        study_training.open_test(tmp_path, "training")
    for seed in (42, 43, 44):
        seed_left(tmp_path, seed)
    held = json.loads((tmp_path / "training-42.json").read_text())
    assert all(run["test"] is None for run in held["runs"])  # the test lies apart until the choice
    joined = study_training.open_test(tmp_path, "training")
    found = compare.report.report(*compare.load.load([joined]))
    assert found.opened and found.chosen == "dce" and found.arms["dce"].verdict == "better"


def test_the_public_run_is_repeated_at_its_budget(monkeypatch):
    settings = study_origin.settings(42)
    assert (settings.rate, settings.most, study_origin.UPDATES) == (5e-6, 96, 2)
    assert list(study_origin.ARMS) == ["frozen", "dynamic", "dce"]
    monkeypatch.setattr(sums, "_gsm8k", lambda: (_ for _ in ()).throw(MissingAsset("absent")))
    assert study_origin.task(4).name == "sums"  # and says so by its name
