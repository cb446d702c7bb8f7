"""Skills about creatures: fight, flee."""

from repro.code_skills import astar, glyphs
from repro.code_skills.results import Declined
from repro.code_skills.skill import Skill
from repro.code_skills.state import direction

FIGHT, FLEE = 12, 8


def _fight_ready(bot):
    frame = bot.frame
    if not frame.hostiles:
        raise Declined("no creature is in view")
    if frame.next_to(frame.hostiles):
        return None
    if _approach(bot) is None:
        raise Declined("no way to the creature")
    return None


def _fight(bot, _):
    """Strike what stands next to the hero, else walk up to it, until none is left."""
    blows, steps = 0, 0
    while steps < FIGHT:
        frame = bot.frame
        if near := frame.next_to(frame.hostiles):
            bot.step("fight", asks=True)
            bot.step(direction(frame.at, near[0][:2]), asks=True)
            if "Really attack" in bot.frame.message:
                bot.step("esc")
                return "failed", "it is peaceful"
            blows, steps = blows + 1, steps + 2
            continue
        way = _approach(bot)
        if way is None:
            return ("ok", "none is left") if blows else ("failed", "no way to the creature")
        bot.move(way[0])
        steps += 1
    return "ok", "the skill's own limit"


def _approach(bot):
    """A way to the nearest creature: its own square counts as free, and is not entered."""
    grid = bot.grid()
    goals = [(r, c) for r, c, _ in bot.frame.hostiles]
    for square in goals:
        grid.free[square] = True
    return astar.plan(grid, bot.frame.at, goals)


def _flee_ready(bot):
    if not bot.frame.hostiles:
        raise Declined("no creature is in view")
    if _away(bot) is None:
        raise Declined("no square is farther away")


def _flee(bot, _):
    for _ in range(FLEE):
        if (to := _away(bot)) is None:
            return "ok", "no square is farther away"
        bot.move(to)
    return "ok", "moved away"


def _away(bot):
    """The neighbour that is farthest from all creatures; stairs and corridors break ties."""
    hostiles, here = bot.frame.hostiles, bot.frame.at
    if not hostiles:
        return None

    def gap(at):
        return min(max(abs(at[0] - r), abs(at[1] - c)) for r, c, _ in hostiles)

    refuge = (glyphs.DOWN, glyphs.UP, glyphs.CORRIDOR)
    near = [*astar.steps(bot.grid(), here)]
    best = max(near, key=lambda at: (gap(at), bot.memory.terrain[at] in refuge), default=None)
    return best if best and gap(best) > gap(here) else None


SKILLS = [
    Skill(
        "fight", "fighting", "fight the nearest creature", _fight_ready, _fight,
        cap=2 * FIGHT, quiet=True,
    ),
    Skill("flee", "fighting", "move away from creatures", _flee_ready, _flee, cap=FLEE, quiet=True),
]  # fmt: skip
