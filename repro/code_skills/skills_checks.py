"""What must hold of the skill library: glyphs, ways, seeds, budgets, prompts, interrupts.

Constants are those of the notes, section 7.3, for NLE 1.3.0; maps are made by hand; the rest plays
a few steps of real tasks. Everything is reached through the modules, so that a fault is seen.
"""

from functools import cache

import numpy as np

from repro.code_skills import astar, bot, controllers, engine, episode, glyphs, memory, menus
from repro.code_skills.engine import Seed
from repro.code_skills.results import Stop
from repro.code_skills.state import COLUMNS, ROWS, Frame

OFFSETS = {"pet": 381, "invisible": 762, "body": 1144, "object": 1906, "symbol": 2359}
SYMBOLS = {12: "doorway", 13: "open door", 16: "closed door", 19: "floor", 20: "floor",
           22: "corridor", 23: "stairs up", 24: "stairs down", 30: "sink", 32: "water",
           34: "lava", 46: "trap", 0: "unknown", 5: "wall"}  # fmt: skip


@cache
def _engine(task: str) -> engine.Engine:
    return engine.Engine(f"MiniHack-{task}-v0", 64)


def _bot(task: str, seed: int, budget: int = 64, mode: str = "skills") -> bot.Bot:
    made = bot.Bot(_engine(task), menus.menu(mode, "all"))
    made.engine.budget = budget
    made.start(Seed(seed, seed))
    return made


def drawn(*lines: str) -> tuple[astar.Grid, memory.LevelMemory]:
    """A grid from a picture: # wall, . floor, + a door that stands open, ^ trap."""
    known = memory.LevelMemory()
    codes = {"#": glyphs.WALL, ".": glyphs.FLOOR, "+": glyphs.OPEN, "^": glyphs.TRAP}
    for row, line in enumerate(lines):
        for column, sign in enumerate(line):
            known.terrain[row, column] = codes[sign]
    known.doors |= known.terrain == glyphs.OPEN
    return astar.grid(shown(), known), known


def shown(hp: int = 12, most: int = 12, message: str = "", creatures=(), level: int = 1) -> Frame:
    """A made-up frame: blank map, the hero at (0, 0)."""
    from nle import nethack

    picture = np.full((ROWS, COLUMNS), nethack.GLYPH_CMAP_OFF, np.int16)
    for row, column, glyph in creatures:
        picture[row, column] = glyph
    stats = np.zeros(27, np.int64)
    stats[[10, 11, 24]] = hp, most, level
    blank = (bytes(55 * 80), bytes(55), bytes(55))
    return Frame(picture, picture, stats, message.encode(), blank, (False,) * 3)


def glyph_ranges() -> None:
    """Creatures, pets, things and map symbols lie where the notes found them in NLE 1.3.0."""
    from nle import nethack

    found = [
        nethack.GLYPH_PET_OFF, nethack.GLYPH_INVISIBLE, nethack.GLYPH_BODY_OFF,
        nethack.GLYPH_OBJ_OFF, nethack.GLYPH_CMAP_OFF,
    ]  # fmt: skip
    assert found == [*OFFSETS.values()], f"offsets {found}"
    assert glyphs.creatures()[:381].all() and not glyphs.creatures()[381:762].any(), "creatures"
    assert glyphs.pets()[381:762].all() and glyphs.pets().sum() == 381, "pets"
    assert (glyphs.things()[1907:2359] >= 0).sum() > 440, "things"


def map_symbols() -> None:
    """Doors, stairs, water and dark floor are read as what they are."""
    table = glyphs.terrain()
    for at, name in SYMBOLS.items():
        found = glyphs.NAMES[table[OFFSETS["symbol"] + at]]
        assert found == name, f"symbol {at} reads {found}, not {name}"


def ways_by_hand() -> None:
    """Round a wall the way is the shorter side; among equals the fixed order of moves decides."""
    made, _ = drawn(".....", ".###.", ".....")
    way = astar.plan(made, (1, 0), [(1, 4)])
    assert way == [(0, 1), (0, 2), (0, 3), (1, 4)], f"way {way}"
    assert astar.plan(made, (0, 0), [(0, 0)]) == [], "already there"
    walled, _ = drawn("..#..", "###..")
    assert astar.plan(walled, (0, 0), [(0, 4)]) is None, "a way through a wall"


def doors_are_straight() -> None:
    """A door is entered and left without diagonals."""
    made, _ = drawn("...#...", "...+...", "...#...")
    way = astar.plan(made, (0, 2), [(0, 4)])
    assert way == [(1, 2), (1, 3), (1, 4), (0, 4)], f"way {way}"


def traps_cost_five() -> None:
    """A known trap is walked round where that costs less than five steps more, else crossed."""
    made, _ = drawn("###", ".^.", "...")
    assert (1, 1) not in astar.plan(made, (1, 0), [(1, 2)]), "walked into a trap"
    only, _ = drawn("###", ".^.", "###")
    assert astar.plan(only, (1, 0), [(1, 2)]) == [(1, 1), (1, 2)], "no other way"


def vain_moves_are_left_out() -> None:
    """A move that failed is not planned again."""
    made, known = drawn("...", "###")
    known.vain.add(((0, 0), (0, 1)))
    made = astar.grid(shown(), known)
    assert astar.plan(made, (0, 0), [(0, 2)]) is None, "the failed move is planned"


def ways_are_shortest() -> None:
    """On random maps a way costs what exhaustive relaxation finds."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        rows = rng.choice(list("...#^+"), size=(7, 9))
        rows[0, 0] = rows[6, 8] = "."
        made, _ = drawn(*("".join(row) for row in rows))
        way, best = astar.plan(made, (0, 0), [(6, 8)]), _relaxed(made, (0, 0)).get((6, 8))
        paid = None if way is None else sum(1 + int(made.cost[at]) for at in way)
        assert paid == best, f"a way costs {paid}, the shortest {best}"


def _relaxed(made: astar.Grid, start: tuple[int, int]) -> dict:
    found, changed = {start: 0}, True
    while changed:
        changed = False
        for at in [*found]:
            for to in astar.steps(made, at):
                paid = found[at] + 1 + int(made.cost[to])
                if paid < found.get(to, 999):
                    found[to], changed = paid, True
    return found


def floor_stays_under_things() -> None:
    """Terrain is remembered under a creature, and a thing on unseen ground counts as floor."""
    from nle import nethack

    known = memory.LevelMemory()
    door = nethack.GLYPH_CMAP_OFF + 13
    known.update(shown(creatures=[(3, 3, door)]))
    known.update(shown(creatures=[(3, 3, 5), (4, 4, 5)]))
    found = [glyphs.NAMES[known.terrain[at]] for at in ((3, 3), (4, 4))]
    assert found == ["open door", "floor"] and known.doors[3, 3], f"remembered {found}"


def a_seed_is_applied() -> None:
    """One seed gives one first picture twice, another seed another."""
    made = _engine("Room-5x5")
    first, again, other = (made.reset(Seed(s, s)).hash() for s in (7, 7, 8))
    assert first == again, "one seed, two games"
    assert first != other, "two seeds, one game"


def a_frame_is_a_copy() -> None:
    """A frame that was kept does not change with the game."""
    made = _bot("Room-5x5", 7)
    kept = made.frame
    before = kept.glyphs.copy(), kept.at
    for name in ("south", "east", "south"):
        made.engine.step(name)
    assert (kept.glyphs == before[0]).all() and kept.at == before[1], "a kept frame changed"


def a_budget_cuts_a_skill() -> None:
    """Out of steps in the middle: the skill ends with "budget" and the counter at the budget."""
    made = _bot("Room-15x15", 3, budget=5)
    result = made.call("goto_stairs")
    assert (result.status, result.steps) == ("budget", 5), f"{result}"
    assert made.engine.steps == 5, f"{made.engine.steps} steps"


def a_declined_skill_makes_no_step() -> None:
    """Without a door there is nothing to open: no step, and the decision counts."""
    made = _bot("Room-5x5", 3)
    result = made.call("open_door")
    assert (result.status, result.steps) == ("not_applicable", 0), f"{result}"
    assert made.call("dance").status == "not_applicable", "an unknown name"
    spec = episode.Spec("MiniHack-Room-5x5-v0", "skills", "listed", 3, max_decisions=2)
    played = episode.play(_engine("Room-5x5"), _named(spec, "open_door", "open_door", "search"))
    assert played["decisions"] == 2, f"{played['decisions']} decisions"
    assert (played["primitive_steps"], played["stop_reason"]) == (0, "decision_budget"), "free"


def _named(spec: episode.Spec, *names: str) -> episode.Spec:
    from dataclasses import replace

    return replace(spec, names=names, skills="all")


def a_question_comes_first() -> None:
    """While the game waits for a key no skill but an answer runs."""
    made = _bot("Room-5x5", 3)
    made.engine.step("kick")
    assert made.frame.prompt, "kicking asks for a direction"
    refused = made.call("goto_stairs")
    assert (refused.status, refused.steps) == ("not_applicable", 0), f"{refused}"
    assert made.call("cancel").status == "ok" and not made.frame.prompt, "Escape"


def interrupts_by_hand() -> None:
    """A creature that appears, a third of the health, a fall, another level: each interrupts."""
    made = _bot("Room-5x5", 3)
    made._quiet, made._health = False, 12
    cases = {
        "a creature appears": shown(creatures=[(3, 3, 5)]),
        "a third of the hit points lost": shown(hp=8),
        "you fall": shown(message="You fall through..."),
        "another level": shown(level=2),
        "": shown(hp=9),
    }
    for cause, after in cases.items():
        found = made._interrupt(shown(), after, False)
        assert found == cause, f"{found!r}, not {cause!r}"
    both = shown(creatures=[(3, 3, 5)])
    assert made._interrupt(both, both, False) == "", "a creature already in view"


def counters_agree() -> None:
    """The steps of all decisions sum to the engine's counter, and to the keys pressed."""
    made = _bot("Room-Random-15x15", 4, mode="mixed")
    lot, results = controllers.Random(1), []
    while not made.engine.over and len(results) < 12:
        try:
            results.append(made.call(lot.choose(made)))
        except Stop as stop:  # nothing may leave `call`
            raise AssertionError(f"a signal left call: {stop}") from stop
    total = sum(result.steps for result in results)
    assert total == made.engine.steps <= 64, f"{total} against {made.engine.steps}"


CHECKS = {
    check.__name__: check
    for check in (
        glyph_ranges,
        map_symbols,
        ways_by_hand,
        doors_are_straight,
        traps_cost_five,
        vain_moves_are_left_out,
        ways_are_shortest,
        floor_stays_under_things,
        a_seed_is_applied,
        a_frame_is_a_copy,
        a_budget_cuts_a_skill,
        a_declined_skill_makes_no_step,
        a_question_comes_first,
        interrupts_by_hand,
        counters_agree,
    )
}
