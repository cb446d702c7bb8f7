"""Skills for terrain that stops the hero: levitate, cross water or lava, push a boulder."""

from repro.code_skills import astar, glyphs
from repro.code_skills.results import Declined
from repro.code_skills.skill import Skill
from repro.code_skills.skills_things import carried, use
from repro.code_skills.skills_walk import frontier
from repro.code_skills.state import MOVES, direction

FLOAT = {"potion": "quaff", "ring": "put_on", "armor": "wear"}
FREEZE = {"wand": "zap", "tool": "apply"}
PUSHES = 400  # squares that a plan for one boulder may try


def _levitate_ready(bot):
    if bot.frame.levitating:
        raise Declined("already in the air")
    items = [i for i in carried(bot, FLOAT, ("levitation",)) if bot.engine.has(FLOAT[i.kind])]
    named = [i for i in items if "levitation" in i.name]
    unknown = [i for i in items if _unknown(i)]
    if not (named or unknown):
        raise Declined("nothing carried might lift the hero")
    return named or unknown


def _unknown(item) -> bool:
    """Not yet identified: neither "of …" nor an ordinary piece of armour."""
    plain = item.kind != "armor" or "boots" in item.name
    return plain and " of " not in item.name.replace("pair of", "pair")


def _levitate(bot, items):
    for item in items:
        use(bot, FLOAT[item.kind], item)
        for _ in range(3):  # boots take turns to put on
            if bot.frame.levitating:
                return "ok", f"in the air by {item.name}"
            if item.kind != "armor":
                break
            bot.step("search")
    return "failed", bot.frame.message or "still on the ground"


def _wet(bot):
    return {s for kind in (glyphs.WATER, glyphs.LAVA) for s in bot.memory.known(kind)}


def _cross_ready(bot):
    if not (wet := _wet(bot)):
        raise Declined("no water or lava is known")
    if bot.frame.levitating:
        return _far_side(bot)
    tools = carried(bot, FREEZE, ("cold", "frost"))
    tools = [i for i in tools if bot.engine.has(FREEZE[i.kind]) and _freezes(i)]
    if not tools:
        raise Declined("no means to cross: neither in the air nor with something that freezes")
    grid = bot.grid()
    grid.free[bot.frame.at] = True
    shores = [
        (row + down, column + right)
        for row, column in sorted(wet)
        for down, right in MOVES.values()
        if 0 <= row + down < 21
        and 0 <= column + right < 79
        and grid.free[row + down, column + right]
    ]
    if bot.way(shores) is None:
        raise Declined("no known way to the shore")
    return shores, tools[0]


def _freezes(item) -> bool:
    return "cold" in item.name or "frost" in item.name or item.name.endswith(("wand", "horn"))


def _far_side(bot):
    """Ground that is known or unseen beyond the water, as goals for a hero in the air."""
    dry = astar.grid(bot.frame, bot.memory, over_water=False)
    stairs = [
        s for s in bot.memory.known(glyphs.DOWN) if astar.plan(dry, bot.frame.at, [s]) is None
    ]
    edge = [s for s in frontier(bot) if astar.plan(dry, bot.frame.at, [s]) is None]
    for goals in (stairs, edge):
        if bot.way(goals):
            return goals, None
    raise Declined("nothing lies beyond the water")


def _cross(bot, goal):
    goals, tool = goal
    if bot.frame.at not in goals and (said := bot.walk(goals)) != "there":
        return "failed", said
    if tool is None:
        return "ok", "across"
    before = _wet(bot)
    way = direction(bot.frame.at, min(s for s in before if _touch(s, bot.frame.at)))
    use(bot, FREEZE[tool.kind], tool, way)
    return ("ok", "a way is frozen") if _wet(bot) != before else ("failed", bot.frame.message)


def _touch(a, b) -> bool:
    return max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1


def _push_ready(bot):
    found = push_plan(bot)
    if found is None:
        raise Declined("no boulder can be pushed into water, lava or a pit")
    return found


def push_plan(bot) -> list[tuple[tuple[int, int], tuple[int, int]]] | None:
    """The shortest row of pushes (boulder square, next square) into water, lava or a pit.

    A breadth-first search for each boulder by itself; the square behind it must be free. Whether
    the hero can walk round between two pushes shows when they are made.
    """
    grid, boulders = bot.grid(), glyphs.boulders()[bot.frame.glyphs]
    grid.free[bot.frame.at] = True
    ends, best = _wet(bot) | set(bot.memory.known(glyphs.TRAP)), None
    for row, column in zip(*boulders.nonzero(), strict=True):
        start = (int(row), int(column))
        seen, waiting = {start: []}, [start]
        while waiting and len(seen) < PUSHES:
            at = waiting.pop(0)
            for down, right in MOVES.values():
                to, behind = (at[0] + down, at[1] + right), (at[0] - down, at[1] - right)
                if down and right or not (_inside(to) and _inside(behind)):
                    continue
                if to in seen or not (grid.free[behind] or behind == start):
                    continue
                if at == start and bot.way([behind]) is None:
                    continue
                if to in ends or grid.free[to]:
                    seen[to] = [*seen[at], (at, to)]
                    waiting.append(to)
                if to in ends and (best is None or len(seen[to]) < len(best)):
                    best = seen[to]
    return best


def _inside(at) -> bool:
    return 0 <= at[0] < 21 and 0 <= at[1] < 79


def _push(bot, pushes):
    for at, to in pushes:
        behind = (2 * at[0] - to[0], 2 * at[1] - to[1])
        if bot.frame.at != behind and (said := bot.walk([behind])) != "there":
            return "failed", f"behind the boulder: {said}"
        bot.step(direction(behind, at))
        if "Perhaps" in bot.frame.message or "try in vain" in bot.frame.message:
            return "failed", bot.frame.message
    return "ok", bot.frame.message or "pushed"


SKILLS = [
    Skill("levitate", "terrain", "rise into the air", _levitate_ready, _levitate, 16),
    Skill("cross_water", "terrain", "cross water or lava", _cross_ready, _cross),
    Skill("push_boulder", "terrain", "push a boulder into the water", _push_ready, _push, 96),
]
