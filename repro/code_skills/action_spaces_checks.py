"""What must hold of menus, budgets, pairing and sums before three action spaces are compared."""

from dataclasses import replace
from functools import cache

import numpy as np

from repro.code_skills import controllers, engine, episode, menus, record, summary

TASK = "MiniHack-Room-5x5-v0"
WILSON = {(0, 20): (0.0, 0.1611), (10, 20): (0.2993, 0.7007), (19, 20): (0.7639, 0.9911)}


@cache
def _engine() -> engine.Engine:
    return engine.Engine(TASK, 64)


def _play(mode: str = "mixed", decisions: int = 12, steps: int = 64, seed: int = 5, names=()):
    spec = episode.Spec(TASK, mode, "listed" if names else "random", seed)
    spec = replace(spec, max_decisions=decisions, primitive_budget=steps, names=tuple(names))
    return episode.play(_engine(), spec)


def mixed_is_the_union() -> None:
    """The mixed menu holds every skill and every key once."""
    keys, skills, mixed = (menus.menu(mode) for mode in menus.MODES)
    assert len(mixed) == len(keys) + len(skills), f"{len(mixed)} entries"
    found = {menus.key(name) for name, skill in mixed.items() if skill is None}
    assert found == set(keys), f"keys {found ^ set(keys)}"
    assert {n for n, s in mixed.items() if s} == set(skills), "skills"


def families_can_be_left_out() -> None:
    """Leaving a family out removes its skills and nothing else, from both menus."""
    for mode in ("skills", "mixed"):
        whole, less = (menus.menu(mode, without=w) for w in ((), ("exploration",)))
        gone = set(whole) ^ set(less)
        assert gone == {"explore", "search"}, f"{mode}: {gone}"


def a_key_costs_one_step() -> None:
    """In the primitives menu every decision is exactly one environment step."""
    played = _play("primitives", decisions=10)
    costs = {action["steps"] for action in played["actions"]}
    assert costs == {1} and played["primitive_steps"] == played["decisions"], f"costs {costs}"


def both_budgets_hold() -> None:
    """No episode of a random menu uses more decisions or steps than it has."""
    for mode in menus.MODES:
        for decisions, steps in ((3, 64), (64, 9), (1, 1)):
            played = _play(mode, decisions, steps)
            assert not record.violated(played), f"{mode} {decisions} {steps}"
            assert len(played["actions"]) <= decisions, f"{len(played['actions'])} decisions"
            assert played["primitive_steps"] <= steps, f"{played['primitive_steps']} steps"


def free_decisions_count() -> None:
    """A decision that makes no step uses up a decision."""
    played = _play("skills", 3, names=["open_door"] * 40)
    assert (played["decisions"], played["primitive_steps"]) == (3, 0), f"{played['decisions']}"


def cutting_is_playing_less() -> None:
    """An episode cut after d decisions is the episode played with d decisions."""
    for seed in (5, 6):
        for mode in ("skills", "mixed"):
            long = _play(mode, 12, seed=seed)
            for d in range(1, 7):
                short = _play(mode, d, seed=seed)
                assert short["actions"] == long["actions"][:d], f"{mode}: other decisions"
                assert short["success"] == episode.within(long, d), f"{mode}: within {d}"


def menus_start_alike() -> None:
    """With one seed all three menus see the same first picture."""
    firsts = {_play(mode, 1)["first_obs_sha256"] for mode in menus.MODES}
    assert len(firsts) == 1, f"{len(firsts)} first pictures"


def the_lot_is_uniform() -> None:
    """Every entry is drawn equally often: chi-square of 4,000 draws below its 99.9 % point."""
    holder = type("Holder", (), {"menu": menus.menu("mixed")})()
    lot, names = controllers.Random(0), list(menus.menu("mixed"))
    drawn = [names.index(lot.choose(holder)) for _ in range(4000)]
    expected = 4000 / len(names)
    chi = ((np.bincount(drawn, minlength=len(names)) - expected) ** 2 / expected).sum()
    assert chi < 43.8, f"chi-square {chi:.0f} with {len(names) - 1} degrees of freedom"


def wilson_by_hand() -> None:
    """Wilson's interval at 0, 10 and 19 of 20 has the tabulated ends."""
    for (wins, n), ends in WILSON.items():
        found = summary.wilson(wins, n)
        assert np.allclose(found, ends, atol=6e-4), f"{wins} of {n}: {found}"


def sums_by_hand() -> None:
    """Two made-up episodes give the means, medians and rates worked out by hand."""
    one = {"name": "explore", "status": "interrupted", "steps": 4}
    two = {"name": "north", "status": "ok", "steps": 1}
    free = {"name": "fight", "status": "not_applicable", "steps": 0}
    head = {"task": "t", "mode": "mixed", "controller": "random", "budgets": [8, 64]}
    made = [
        head | {"success": True, "decisions": 1, "primitive_steps": 4, "actions": [one]},
        head
        | {"success": False, "decisions": 4, "primitive_steps": 3, "actions": [two] * 3 + [free]},
    ]
    (row,) = summary.summarise(made)
    found = [
        row[k] for k in ("n", "success", "mean_decisions", "median_primitive_steps",
                         "zero_step_rate", "interrupted_rate", "share_of_skill_decisions")
    ]  # fmt: skip
    assert found == [2, 0.5, 2.5, 3.5, 0.2, 0.2, 0.4], f"{found}"


CHECKS = {
    check.__name__: check
    for check in (
        mixed_is_the_union,
        families_can_be_left_out,
        a_key_costs_one_step,
        both_budgets_hold,
        free_decisions_count,
        cutting_is_playing_less,
        menus_start_alike,
        the_lot_is_uniform,
        wilson_by_hand,
        sums_by_hand,
    )
}
