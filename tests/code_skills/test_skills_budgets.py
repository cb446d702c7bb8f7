"""Budgets, pairing, another process, crashes."""

import os
import signal
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.code_skills import controllers, engine, episode, menus, pool, record, results
from repro.code_skills.episode import Spec, play

TASKS = ("MiniHack-Room-Monster-5x5-v0", "MiniHack-Corridor-R3-v0", "MiniHack-LockedDoor-v0")


@pytest.fixture(scope="module")
def engines():
    made = {task: engine.Engine(task, 1) for task in TASKS}
    yield made
    for one in made.values():
        one.close()


@settings(max_examples=25)
@given(
    st.sampled_from(TASKS),
    st.sampled_from(menus.MODES),
    st.sampled_from(["core", "all"]),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 10**6),
)
def test_no_budget_is_ever_exceeded(engines, task, mode, skills, decisions, steps, seed):
    spec = Spec(task, mode, "random", seed, None, decisions, steps, skills=skills)
    played, counted = play(engines[task], spec), engines[task].steps
    assert not record.violated(played) and played["error"] is None
    assert sum(a["steps"] for a in played["actions"]) == played["primitive_steps"] == counted
    assert sum(a["turns"] for a in played["actions"]) == played["game_turns"]
    assert all(a["status"] in results.STATUSES for a in played["actions"])
    assert played["stop_reason"] in episode.STOPS
    for action in played["actions"]:
        if mode == "primitives":
            assert action["steps"] == 1


def test_a_spent_budget_cuts_a_skill_in_the_middle(engines):
    spec = Spec(TASKS[1], "skills", "listed", 3, None, 8, 5, names=("explore", "explore"))
    played = play(engines[TASKS[1]], spec)
    assert [a["status"] for a in played["actions"]] == ["budget"]
    assert played["primitive_steps"] == 5 and played["stop_reason"] == "primitive_budget"


def test_unknown_names_cost_a_decision_and_no_step(engines):
    spec = Spec(TASKS[0], "skills", "listed", 3, None, 2, 9, names=("dance", "dance"))
    played = play(engines[TASKS[0]], spec)
    assert played["decisions"] == 2 and played["primitive_steps"] == 0
    assert {a["status"] for a in played["actions"]} == {"not_applicable"}


def test_two_processes_play_the_same_bits():
    specs = [
        Spec(task, mode, controller, 11)
        for task in TASKS
        for mode in menus.MODES
        for controller in ("random", "script")
    ]
    first, second = pool.play_all(specs), pool.play_all(reversed(specs))
    assert first == second[::-1]
    assert len({one["trajectory_sha256"] for one in first}) > len(TASKS) * 2


def test_lgen_fixes_the_map_and_not_the_luck(engines):
    made = engines[TASKS[1]]
    one, other = (made.reset(engine.Seed(s, s, 7)) for s in (1, 2))
    assert (one.chars == other.chars).all()
    names = ("search",) * 3 + ("kick", "north") * 10
    fights = []
    for seed in (1, 2, 3):
        spec = Spec(TASKS[2], "primitives", "listed", seed, 7, 23, 64, names=names)
        fights.append(play(engines[TASKS[2]], spec))
    assert len({f["first_obs_sha256"] for f in fights}) == 1
    assert len({f["trajectory_sha256"] for f in fights}) > 1
    assert (made.reset(engine.Seed(1, 1, 8)).chars != one.chars).any()


def test_listed_decisions_repeat_an_episode(engines):
    spec = Spec(TASKS[0], "mixed", "random", 5)
    played = play(engines[TASKS[0]], spec)
    names = tuple(a["name"] for a in played["actions"])
    again = play(engines[TASKS[0]], replace(spec, controller="listed", names=names))
    assert again["trajectory_sha256"] == played["trajectory_sha256"]


def test_a_crash_is_an_episode_error_and_the_next_one_is_played():
    with pool.Player() as player:
        player.prove(TASKS[0], 3)
        os.kill(player._process.pid, signal.SIGSEGV)
        player._process.wait()
        lost = player.play(Spec(TASKS[0], "skills", "random", 3))
        assert lost["stop_reason"] == "error" and "ended with code -11" in lost["error"]
        assert player.play(Spec(TASKS[0], "skills", "random", 3))["error"] is None


def test_a_silent_child_is_given_up(monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE_S", 0.0)
    with pool.Player() as player:
        lost = player.play(Spec(TASKS[0], "skills", "random", 3))
    assert "no answer" in lost["error"]


def test_children_are_replaced(monkeypatch):
    monkeypatch.setattr(pool, "RECYCLE", 1)
    with pool.Player() as player:
        player.play(Spec(TASKS[0], "primitives", "random", 3, max_decisions=1))
        first = player._process.pid
        player.play(Spec(TASKS[0], "primitives", "random", 3, max_decisions=1))
        assert player._process.pid != first


def test_an_engine_that_raises_is_an_episode_error(engines, monkeypatch):
    def broken(self, *_):
        raise IndexError("no hero on the screen")

    monkeypatch.setattr(type(engines[TASKS[0]]._env), "step", broken)
    played = play(engines[TASKS[0]], Spec(TASKS[0], "primitives", "random", 3))
    assert played["stop_reason"] == "error" and "no hero" in played["error"]
    assert not played["success"]


def test_the_script_follows_its_rule(engines):
    made = play(engines[TASKS[2]], Spec(TASKS[2], "skills", "script", 3))
    assert made["success"] and made["actions"][0]["name"] in controllers.RULE
    keys = play(engines[TASKS[0]], Spec(TASKS[0], "primitives", "script", 3))
    assert keys["decisions"] == keys["primitive_steps"]


def test_somebody_outside_is_asked_for_every_decision():
    asked = []

    def ask(text, names):
        asked.append((text, names))
        return "search"

    with pool.Player() as player:
        spec = Spec(TASKS[0], "skills", "lm", 3, max_decisions=3)
        played = player.play(spec, ask)
    assert len(asked) == played["decisions"] and asked[0][1] == list(menus.CORE)
    assert "You see" in asked[0][0] and asked[-1][0].startswith("Your last action: search")
