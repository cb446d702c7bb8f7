"""Skills that walk: to stairs, doors and things; exploring; searching for what is hidden."""

import numpy as np

from repro.code_skills import astar, glyphs
from repro.code_skills.results import Declined
from repro.code_skills.skill import Skill
from repro.code_skills.state import MOVES

EXPLORE, SEARCH = 24, 8  # steps of one call


def _stairs_ready(bot):
    goals = bot.memory.known(glyphs.DOWN)
    if not goals:
        raise Declined("no stairs down are known")
    if bot.frame.at in goals:
        raise Declined("already on the stairs")
    return _reachable(bot, goals, "stairs")


def _descend_ready(bot):
    if not (goals := bot.memory.known(glyphs.DOWN)):
        raise Declined("no stairs down are known")
    return _reachable(bot, goals, "stairs")


def _descend(bot, goals):
    if bot.frame.at not in goals and (said := bot.walk(goals)) != "there":
        return "failed", said
    bot.step("down")
    return "failed", bot.frame.message or "still on this level"


def _go(bot, goals):
    said = bot.walk(goals)
    return ("ok", "there") if said == "there" else ("failed", said)


def _item_ready(bot):
    goals = [(r, c) for r, c, _ in bot.frame.items if (r, c) != bot.frame.at]
    if not goals:
        raise Declined("no thing is in view")
    return _reachable(bot, goals, "thing")


def _place_ready(*kinds: int):
    words = " or ".join(glyphs.NAMES[kind] for kind in kinds)

    def ready(bot):
        goals = [s for kind in kinds for s in bot.memory.known(kind) if s != bot.frame.at]
        if not goals:
            raise Declined(f"no {words} is known")
        return _reachable(bot, goals, words)

    return ready


def frontier(bot) -> list[tuple[int, int]]:
    """Squares worth a visit: walkable, not visited, next to unknown rock, or a doorway."""
    memory, known = bot.memory, bot.memory.terrain
    unknown = np.pad(known == glyphs.NOTHING, 1)
    touching = np.zeros_like(known, bool)
    for down, right in MOVES.values():
        touching |= unknown[1 + down : 22 + down, 1 + right : 80 + right]
    doorway = np.isin(known, (glyphs.DOORWAY, glyphs.OPEN))
    wanted = bot.grid().free & (memory.visited == 0) & (touching | doorway)
    return [(int(r), int(c)) for r, c in np.argwhere(wanted)]


def _explore_ready(bot):
    goals = frontier(bot)
    if bot.way(goals) is None:
        raise Declined("nothing unseen can be reached")
    return goals


def _explore(bot, goals):
    stairs = set(bot.memory.known(glyphs.DOWN))
    things = {(r, c) for r, c, _ in bot.frame.items}

    def found():
        if set(bot.memory.known(glyphs.DOWN)) - stairs:
            return "stairs seen"
        if {(r, c) for r, c, _ in bot.frame.items} - things:
            return "a thing seen"
        return ""

    said = "there"
    while goals and said == "there":
        said = bot.walk(goals, found)
        goals = frontier(bot)
    return "ok", said if said != "there" else "nothing unseen is left nearby"


def _search_ready(bot):
    """Dead ends first, then squares along walls; those with the fewest searches."""
    grid, memory = bot.grid(), bot.memory
    here = bot.frame.at
    grid.free[here] = True
    ends, walls = [], []
    walled = np.pad(memory.terrain == glyphs.WALL, 1)
    for row, column in np.argwhere(grid.free):
        at = (int(row), int(column))
        if memory.terrain[at] in (glyphs.CORRIDOR, glyphs.DOORWAY):
            if sum(1 for _ in astar.steps(grid, at)) <= 1:
                ends.append(at)
        elif walled[at[0] : at[0] + 3, at[1] : at[1] + 3].any():
            walls.append(at)
    for group in (ends, walls, [here]):
        ordered = sorted({int(memory.searched[at]) for at in group})
        for least in ordered if group is walls else ordered[:1]:
            goals = [at for at in group if memory.searched[at] == least]
            if (least < 3 * SEARCH or group is not ends) and bot.way(goals) is not None:
                return goals
    raise Declined("no place to search can be reached")


def _search(bot, goals):
    if bot.frame.at not in goals and (said := bot.walk(goals)) != "there":
        return "failed", said
    known = bot.memory.terrain.copy()
    for _ in range(SEARCH):
        bot.step("search")
        row, column = bot.frame.at
        bot.memory.searched[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2] += 1
        if (known != bot.memory.terrain).any():
            return "ok", "something is found"
    return "ok", "nothing is found"


def _reachable(bot, goals, words):
    if bot.way(goals) is None:
        raise Declined(f"no known way to the {words}")
    return goals


SKILLS = [
    Skill("goto_stairs", "goto", "walk to the stairs down", _stairs_ready, _go),
    Skill("descend", "goto", "walk to the stairs down and go down", _descend_ready, _descend),
    Skill(
        "goto_door", "goto", "walk to the nearest doorway or open door",
        _place_ready(glyphs.DOORWAY, glyphs.OPEN), _go,
    ),
    Skill("goto_item", "goto", "walk to the nearest thing on the floor", _item_ready, _go),
    Skill(
        "goto_corridor", "goto", "walk to the nearest corridor",
        _place_ready(glyphs.CORRIDOR), _go,
    ),
    Skill(
        "goto_place", "goto", "walk to the nearest altar, fountain or sink",
        _place_ready(glyphs.ALTAR, glyphs.FOUNTAIN, glyphs.SINK), _go,
    ),
    Skill(
        "explore", "exploration", "walk to where nothing has been seen yet",
        _explore_ready, _explore, cap=EXPLORE,
    ),
    Skill(
        "search", "exploration", "search for hidden doors and passages",
        _search_ready, _search, cap=EXPLORE + SEARCH,
    ),
]  # fmt: skip
