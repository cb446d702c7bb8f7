"""Checks are green, every fault turns one red, and what the notebooks call around them."""

import numpy as np
import pytest

from repro import digest, notebooks
from repro.code_skills import (
    lm,
    lm_controller_checks,
    menus,
    study_lm,
    study_skills,
)
from repro.code_skills import study_action_spaces as study
from repro.code_skills.episode import Spec
from repro.errors import BadParameter, ReproError


@pytest.mark.parametrize("name", ["skills", "action_spaces", "lm_controller"])
def test_notebooks_keep_the_contract(name):
    notebook = notebooks.read(f"code_skills/{name}")
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert "repro.code_skills.engine" in modules and not any("actkv" in m for m in modules)
    assert notebook.assets == (("smollm2-135m",) if name == "lm_controller" else ())


def test_the_library_needs_no_torch():
    _, packages = digest.closure("from repro.code_skills import pool, child")
    assert {"torch", "transformers"}.isdisjoint(packages) and "nle" in packages


def test_film_keeps_every_decision_and_every_square():
    shots = study_skills.film("LockedDoor", "skills", 3, most=4)
    assert [s.name for s in shots] == ["start", "open_door", "goto_stairs"]
    assert shots[-1].result.reason == "TASK_SUCCESSFUL"
    for before, after in zip(shots, shots[1:], strict=False):
        assert before.trail[-1] == after.trail[0]
    rows, columns = study_skills.box(shots)
    assert all(rows.start <= r < rows.stop for s in shots for r, _ in s.trail)
    assert columns.stop > columns.start and len(study_skills.lines(shots)) == 2


def test_parts_of_the_gap_by_hand():
    found = {
        ("primitives", "random"): 0.1,
        ("skills", "random"): 0.6,
        ("skills", "script"): 0.9,
        ("mixed", "random"): 0.3,
    }
    parts = study.parts(found)
    expected = {"menu": 0.5, "rule": 0.3, "whole": 0.8, "dilution": -0.3}
    assert parts == pytest.approx(expected)
    assert study.seeds(42, 2) == [42001, 42002] and study.ladder(6) == [1, 2, 4, 6]


def test_arms_are_played_in_order_and_paired():
    arms = [("skills", "random"), ("primitives", "script")]
    played = study.play(["Room-5x5", "LockedDoor"], [5, 6], 12, arms)
    keys = [[(e["task"], e["seed"]["core"]) for e in found] for found in played.values()]
    assert keys[0] == keys[1] and len(keys[0]) == 4
    assert all(len(study.of_task(found, "LockedDoor")) == 2 for found in played.values())
    use = study.use(played["primitives", "script"], 5)
    assert use["decisions"] == use["steps"] <= 5 and use["free"] == 0


def test_a_fault_reaches_the_other_process():
    arms = [("skills", "random")]
    free = study.play(["Room-5x5"], [5, 6, 7], 12, arms, fault="free_decisions", decisions=2)
    assert max(e["decisions"] for e in free["skills", "random"]) > 2


def test_an_episode_error_stops_a_study(monkeypatch):
    from repro.code_skills import pool

    broken = lambda specs, *_: [{"error": "made up", "task": s.task} for s in specs]  # noqa: E731
    monkeypatch.setattr(pool, "play_all", broken)
    with pytest.raises(ReproError, match="made up"):
        study.play(["Room-5x5"], [5], 12, [("skills", "random")])


@pytest.fixture(scope="module")
def chooser():
    return lm.Chooser(lm_controller_checks.tiny(), lm_controller_checks.Bytes())


def test_a_model_is_asked_once_a_decision(chooser):
    run = study_lm.play(chooser, "skills", ["Room-5x5"], [5, 6], 20, 3)
    for episode, usage in zip(run.played, run.usage, strict=True):
        assert len(usage.sizes) == episode["decisions"] <= 3
        assert set(usage.sizes) == {len(menus.CORE)}
        assert usage.calls >= usage.sizes.count(6) and usage.tokens_read > 0
    assert ((run.entropies() > 0) & (run.entropies() <= 1)).all()
    again = study_lm.play(chooser, "skills", ["Room-5x5"], [5, 6], 20, 3)
    assert [e["actions"] for e in again.played] == [e["actions"] for e in run.played]


def test_one_question_scored_by_all_rules(chooser):
    head, seen, names = study_lm.scene("Room-5x5", 5, "mixed", ["open_door"])
    made = study_lm.scores(chooser, head, seen, names)
    assert made["p"].sum() == pytest.approx(1) and set(made) == {"tokens", "p", *lm.RULES}
    assert np.allclose(made["mean"], made["sum"] / made["tokens"])
    assert seen.startswith("Your last action: open_door (not_applicable)")


def test_repeats_by_hand():
    def act(name, steps):
        return {"name": name, "steps": steps}

    one = {"actions": [act("a", 0), act("a", 0), act("b", 2), act("b", 0)]}
    assert study_lm.repeats([one]) == pytest.approx(0.5) and study_lm.repeats([]) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [({"rule": "best"}, "rule='best'"), ({"temperature": -1}, "temperature=-1")],
)
def test_bad_choosers(options, says):
    with pytest.raises(BadParameter, match=says):
        lm.Chooser(None, None, **options)


def test_spec_is_hashable_and_small():
    spec = Spec("MiniHack-Room-5x5-v0", "skills", "random", 1)
    assert hash(spec) and spec.names == ()
