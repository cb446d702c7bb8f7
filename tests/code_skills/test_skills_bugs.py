"""The public bug reports that this library is built against, one test or stated exclusion each.

Numbers are those of the project's notes on arXiv 2609.31076, section 8.
"""

import gc
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from repro.code_skills import engine, episode, menus, pool, tasks
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.results import Stop
from repro.errors import BadParameter

ROOM = "MiniHack-Room-Random-5x5-v0"


@pytest.fixture(scope="module")
def room():
    made = Engine(ROOM, 10_000)
    yield made
    made.close()


def test_1_reset_with_a_seed_does_not_seed_the_game(room):
    """The day this fails, the engine was repaired and `Engine._seed` can go."""
    first = (
        room._env.reset(seed=42)[0]["glyphs"].copy(),
        room._env.reset(seed=42)[0]["glyphs"].copy(),
    )
    others = [room._env.reset(seed=42)[0]["blstats"].copy() for _ in range(4)]
    same = (first[0] == first[1]).all() and all((o == others[0]).all() for o in others)
    assert not same
    assert room.reset(Seed(42, 42)).hash() == room.reset(Seed(42, 42)).hash()


def test_2_a_list_of_level_seeds_is_never_passed(room):
    assert room._env.unwrapped._level_seeds is None


def test_3_the_level_generator_has_its_own_seed():
    made = Engine("MiniHack-Corridor-R3-v0", 50)
    maps = [made.reset(Seed(core, core, 7)).chars for core in (1, 2, 3)]
    made.close()
    assert all((one == maps[0]).all() for one in maps)


def test_4_memory_stays_bounded_over_resets(room):
    import psutil

    process = psutil.Process()
    for seed in range(1, 60):
        room.reset(Seed(seed, seed))
    gc.collect()
    before = process.memory_info().rss
    for seed in range(1, 151):
        room.reset(Seed(seed, seed))
    gc.collect()
    assert (process.memory_info().rss - before) / 150 < 20_000  # bytes a reset
    assert pool.RECYCLE <= 1000


def test_5_a_crash_in_a_reset_is_an_episode_error():
    """As in `test_skills_budgets`, here with a process that aborts by itself."""
    with pool.Player() as player:
        player._process = subprocess.Popen(
            [sys.executable, "-c", "import os; input(); os.abort()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        lost = player.play(episode.Spec(ROOM, "skills", "random", 3))
    assert lost["stop_reason"] == "error" and "code -6" in lost["error"]


def test_6_one_engine_a_process_at_a_time(monkeypatch):
    """The child closes one engine before it makes another: macOS takes only one."""
    from repro.code_skills.child import Child

    child = Child(None, None)
    first = child._engine(ROOM, "full")
    gone = []
    monkeypatch.setattr(first, "close", lambda real=first.close: (gone.append(1), real()))
    assert child._engine(ROOM, "full") is first
    child._engine("MiniHack-Room-5x5-v0", "full").close()
    assert gone == [1] and len(child._engines) == 1
    assert platform.system() in ("Linux", "Darwin")


@pytest.mark.parametrize("part", ["Boxoban", "MultiRoom", "Crossing", "-Custom-"])
def test_7_and_13_broken_tasks_are_excluded_with_a_reason(part):
    assert not any(part in name for name in tasks.runnable())
    name = next(n for n in engine.load().registry if n.startswith("MiniHack-") and part in n)
    with pytest.raises(BadParameter, match="is excluded: "):
        tasks.chosen(name)


def test_8_the_hero_is_found_without_the_picture():
    made = Engine("MiniHack-Sokoban1a-v1", 60)
    spec = episode.Spec("MiniHack-Sokoban1a-v1", "mixed", "random", 4, None, 40, 60, skills="all")
    played = episode.play(made, spec)
    assert played["error"] is None
    frame = made.reset(Seed(4, 4))
    row, column = frame.at
    assert chr(frame.chars[row, column]) == "@"
    made.close()


def test_9_other_versions_are_refused(monkeypatch):
    monkeypatch.setitem(engine.PINS, "nle", "9.9.9")
    with pytest.raises(Exception, match="nle 1.3.0 is installed; accepted: 9.9.9"):
        Engine(ROOM, 5)


def test_10_attributes_are_read_from_the_unwrapped_environment(room):
    wrapped = engine.load().make("MiniHack-Room-5x5-v0")
    with pytest.raises(AttributeError):
        wrapped.actions  # noqa: B018
    wrapped.close()
    assert room.has("kick") and room.limit > 0


def test_11_second_keys_are_found_by_their_code(room):
    room.reset(Seed(3, 3))
    assert room.step("kick").prompt
    assert not room.step("north").prompt
    assert all(room.has(chr(code)) for code in range(ord("a"), ord("z") + 1))
    made = Engine("MiniHack-Room-5x5-v0", 5, "task")
    made.reset(Seed(3, 3))
    with pytest.raises(Stop, match="no key for 'kick'"):
        made.step("kick")
    made.close()


def test_12_the_keys_that_are_read_are_asked_for(room):
    seen = room._env.reset()[0]
    assert set(seen) == {*engine.state.KEYS}
    assert room.reset(Seed(3, 3)).inventory


def test_numpy_arrays_of_a_frame_are_its_own(room):
    frame = room.reset(Seed(3, 3))
    kept = frame.glyphs.copy()
    for _ in range(3):
        room.step("search")
    room.step("south")
    assert (frame.glyphs == kept).all()
    assert not np.shares_memory(frame.glyphs, room.frame.glyphs)


def test_nothing_is_left_behind(room):
    """A closed environment takes its temporary folder with it."""
    made = Engine(ROOM, 5)
    made.reset(Seed(1, 1))
    folder = made._env.unwrapped.nethack._vardir
    made.close()
    del made
    gc.collect()
    assert not os.path.exists(folder)


def test_menus_hold_names_that_the_engine_knows(room):
    room.reset(Seed(1, 1))
    for name in menus.PRIMITIVES:
        assert room.has(name)
