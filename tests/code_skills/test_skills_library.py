"""The skill library on the real engine: golden tables, every skill, bad input."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.code_skills import astar, bot, engine, episode, glyphs, menus, summary, tasks, text
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.skills_checks import drawn, shown
from repro.errors import BadParameter
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/code_skills.json").read_text())
ROOM = "MiniHack-Room-5x5-v0"
_ENGINES = {}


def hero(task, seed=3, budget=400, mode="skills", action_set="full"):
    key = (task, action_set)
    if key not in _ENGINES:
        _ENGINES[key] = Engine(f"MiniHack-{task}-v0", budget, action_set)
    _ENGINES[key].budget = budget
    made = bot.Bot(_ENGINES[key], menus.menu(mode, "all"))
    made.start(Seed(seed, seed))
    return made


@pytest.fixture(scope="module", autouse=True)
def closed():
    yield
    while _ENGINES:
        _ENGINES.popitem()[1].close()


def test_glyphs_against_the_notes_and_the_engine():
    from nle import nethack

    golden, every = GOLDEN["glyphs"], range(nethack.MAX_GLYPH)
    for name, table in (
        ("monster", nethack.glyph_is_normal_monster),
        ("pet", nethack.glyph_is_pet),
        ("body", nethack.glyph_is_body),
        ("ridden", nethack.glyph_is_ridden_monster),
        ("object", nethack.glyph_is_normal_object),
        ("statue", nethack.glyph_is_statue),
    ):
        found = [g for g in every if table(g)]
        assert [found[0], found[-1]] == golden[name], name
    for at, name in golden["symbols"].items():
        assert glyphs.NAMES[glyphs.terrain()[golden["symbols_from"] + int(at)]] == name
    hostile = [g for g in every if glyphs.creatures()[g]]
    assert hostile[0] == 0 and golden["invisible"][0] in hostile
    assert not any(nethack.glyph_is_pet(g) or nethack.glyph_is_object(g) for g in hostile)
    assert glyphs.boulders().sum() == 1


@given(st.integers(0, 2**32 - 1))
def test_ways_are_legal(seed):
    rng = np.random.default_rng(seed)
    grid, _ = drawn(*("".join(row) for row in rng.choice(list("...#^+"), size=(6, 8))))
    way = astar.plan(grid, (0, 0), [(5, 7), (0, 7)])
    for at, to in zip([(0, 0), *(way or [])], way or [], strict=False):
        assert to in astar.steps(grid, at)
    assert way is None or way == astar.plan(grid, (0, 0), [(5, 7), (0, 7)])


MUST = [  # task, seed, decisions in order; the last must be ok or end the task
    ("Room-Random-15x15", 3, "goto_stairs"),
    ("Room-15x15", 3, "descend"),
    ("Corridor-R2", 3, "explore"),
    ("Corridor-R3", 3, "search"),
    ("LockedDoor", 3, "open_door"),
    ("LockedDoor", 3, "open_door goto_door"),
    ("Corridor-R3", 3, "explore goto_corridor"),
    ("Sink", 3, "goto_place"),
    ("Eat", 3, "goto_item"),
    ("Wear", 3, "pickup"),
    ("Eat", 3, "pickup eat"),
    ("Wear", 3, "pickup wear"),
    ("PutOn", 3, "pickup put_on"),
    ("Zap", 3, "pickup zap"),
    ("Read", 3, "pickup read"),
    ("Wield", 3, "pickup wield"),
    ("Levitate-Potion-Full", 3, "pickup quaff"),
    ("Levitate-Boots-Full", 3, "pickup levitate"),
    ("CorridorBattle", 3, "explore fight"),
    ("CorridorBattle", 3, "explore flee"),
    ("LavaCross-Levitate-Potion-Inv-Full", 3, "levitate cross_water"),
    ("Freeze-Lava-Full", 3, "pickup cross_water"),
    ("River-Narrow", 3, "push_boulder"),
]


@pytest.mark.parametrize(("task", "seed", "names"), MUST)
def test_a_skill_works_where_it_must(task, seed, names):
    made = hero(task, seed)
    *before, last = names.split()
    for name in before:
        made.call(name)
    result = made.call(last)
    assert result.status == "ok" or made.engine.success, result
    assert result.steps > 0


ANSWERS = ("yes", "no", "more", "cancel")
NOTHING_TO_DO = [name for name in menus.SKILLS if name not in ("goto_stairs", "descend", "search")]


@pytest.mark.parametrize("name", NOTHING_TO_DO)
def test_a_skill_declines_where_it_must(name):
    """A bare, lit 5 x 5 room that has been seen whole, and a hero without things."""
    made = hero("Room-5x5")
    made.memory.visited[:] = 1  # nothing is left to explore
    made.engine.frame.__dict__["inventory"] = []
    result = made.call(name)
    assert (result.status, result.steps, result.turns) == ("not_applicable", 0, 0), result
    assert not made.can(name) and result.reason


def test_goto_stairs_and_search_decline_too():
    made = hero("Corridor-R3")
    for name in ("goto_stairs", "descend"):
        assert made.call(name).status == "not_applicable"
    made.memory.terrain[:] = glyphs.NOTHING
    made.engine.step("kick")
    assert made.call("search").reason.startswith("a question is open")


@pytest.mark.parametrize(("name", "after"), [("cancel", ""), ("no", ""), ("yes", ""), ("more", "")])
def test_answers_close_a_question(name, after):
    made = hero("Room-5x5")
    made.engine.step("kick")
    assert made.frame.prompt and made.can(name)
    assert made.call(name).steps == 1


def test_a_third_of_health_interrupts_a_walk():
    made = hero("Room-15x15")
    real = made.engine._copy

    def hurt(observation):
        seen = real(observation)
        seen.stats[10] = 1
        return seen

    made.engine._copy = hurt
    try:
        result = made.call("goto_stairs")
    finally:
        del made.engine._copy
    assert (result.status, result.steps) == ("interrupted", 1)


def test_a_key_that_the_task_lacks_is_declined():
    made = hero("Room-5x5", mode="mixed", action_set="task")
    result = made.call("kick")
    assert (result.status, result.steps) == ("not_applicable", 0) and "no key" in result.reason


def test_boulder_plan_by_hand():
    from nle import nethack

    rock = int(np.flatnonzero(glyphs.boulders())[0])
    _, known = drawn(".....", ".....", ".....")
    known.terrain[1, 4] = glyphs.WATER
    view = shown(creatures=[(1, 2, rock)])
    assert nethack.glyph_is_object(rock)
    grid = astar.grid(view, known)
    stub = type("Stub", (), {})()
    stub.frame, stub.memory, stub.grid = view, known, lambda: astar.grid(view, known)
    stub.way = lambda goals: astar.plan(grid, (0, 0), goals)
    from repro.code_skills import skills_terrain

    assert skills_terrain.push_plan(stub) == [((1, 2), (1, 3)), ((1, 3), (1, 4))]


def test_text_for_the_model():
    made = hero("Room-5x5")
    seen = text.observation(made)
    assert "stairs down" in seen and "@" in seen and seen.startswith("Message: Hello")
    made.call("open_door")
    last, rest = text.split(text.observation(made))
    assert last == "Your last action: open_door (not_applicable).\n" and "Map:" in rest
    assert [text.where(*w) for w in ((-3, 0), (2, 2), (1, 5), (0, -1))] == [
        "3 steps north", "2 steps southeast", "5 steps east", "1 step west",
    ]  # fmt: skip
    head = text.instructions(menus.menu("mixed"), text.goal("MiniHack-LockedDoor-v0"))
    assert all(f"\n{name}: " in head for name in menus.menu("mixed")) and "behind a door" in head


def test_tasks_by_group():
    golden, names = GOLDEN["tasks"], tasks.runnable()
    every = [n for n in engine.load().registry if n.startswith("MiniHack-")]
    assert len(names) == golden["offline"] and len(every) == golden["registered"]
    for part in tasks.EXCLUDED:
        assert sum(part in name for name in every) == golden[part]
    assert tasks.chosen("all-discriminating") == list(tasks.DISCRIMINATING)


@pytest.mark.parametrize(("wins", "n", "low", "high"), GOLDEN["wilson"])
def test_wilson(wins, n, low, high):
    assert summary.wilson(wins, n) == pytest.approx((low, high), abs=2e-4)
    spread = summary.newcombe(wins, n, wins, n)
    assert spread[0] == pytest.approx(-spread[1]) and spread[1] > 0


BAD = [
    (lambda: Engine("MiniHack-Nothing-v0"), "task='MiniHack-Nothing-v0'", "not known"),
    (lambda: Engine(ROOM, 0), "primitive_budget=0", ">= 1"),
    (lambda: Engine(ROOM, 9, "some"), "action_set='some'", "full"),
    (lambda: hero("Room-5x5", seed=0), "core=0", ">= 1"),
    (lambda: hero("Room-5x5").engine.step("jump"), "key='jump'", "north"),
    (lambda: episode.Spec(ROOM, "skills", "random", 1, max_decisions=0), "max_decisions=0", ">= 1"),
    (
        lambda: episode.Spec(ROOM, "mixed", "lm", 1, primitive_budget=-1),
        "primitive_budget=-1",
        ">=",
    ),
    (lambda: menus.menu("keys"), "mode='keys'", "primitives"),
    (lambda: menus.menu("skills", "some"), "skills='some'", "core"),
    (lambda: menus.menu("skills", without=["dancing"]), "without='dancing'", "exploration"),
    (lambda: menus.menu("skills", without=menus.FAMILIES), "leaves no skill", "fewer"),
    (lambda: bot.check_menu(menus.menu("skills"), ["dance"]), "skill='dance'", "explore"),
    (lambda: tasks.chosen("MiniHack-None-v0"), "task='MiniHack-None-v0'", "122"),
    (lambda: tasks.chosen("MiniHack-MultiRoom-N2-v0"), "excluded", "minigrid"),
    (lambda: tasks.chosen("smoke,smoke"), "twice", "once"),
    (lambda: tasks.chosen(","), "names no task", "at least one"),
    (lambda: summary.wilson(1, 0), "n=0", "n >= 1"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
    assert isinstance(caught.value, BadParameter) or "wilson" in repr(call) or "n=0" in names
