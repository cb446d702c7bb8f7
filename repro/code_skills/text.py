"""The game in words for a language model, after the form of BALROG (arXiv 2411.13543).

Message, what is around in words, what happened last, and a cut-out of the map around the hero.
BALROG shows the whole map and the last turns of the conversation; a small model reads too slowly
for that, so the map is cut and the history is one line.
"""

from repro.code_skills import glyphs, menus
from repro.code_skills.state import COLUMNS, ROWS

REACH = 4  # squares shown in each direction
NOTABLE = (
    *(glyphs.DOWN, glyphs.UP, glyphs.CLOSED, glyphs.OPEN, glyphs.DOORWAY, glyphs.ALTAR),
    *(glyphs.FOUNTAIN, glyphs.SINK, glyphs.WATER, glyphs.LAVA, glyphs.TRAP),
)
MOST = 8  # things named


def observation(bot) -> str:
    """What the model reads before a decision; the same for all three menus."""
    frame, lines = bot.frame, [bot.last] if bot.last else []
    if frame.message:
        lines.append(f"Message: {frame.message}")
    seen = around(bot)
    lines.append("You see: " + ("; ".join(seen) if seen else "nothing of note") + ".")
    now, most = frame.health
    lines.append(f"Health {now} of {most}.")
    lines += ["Map:", *cutout(bot)]
    return "\n".join(lines)


def split(seen: str) -> tuple[str, str]:
    """(the line about the last action with its end, or ""; the rest) of an observation."""
    first, end, rest = seen.partition("\n")
    return (first + end, rest) if first.startswith("Your last action") else ("", seen)


def around(bot) -> list[str]:
    """Creatures, things and places with distance and direction, nearest first."""
    frame, row, column = bot.frame, *bot.frame.at
    found = [(r, c, glyphs.creature_name(g)) for r, c, g in frame.hostiles]
    found += [(r, c, f"{kind} item") for r, c, kind in frame.items if (r, c) != frame.at]
    for kind in NOTABLE:
        near = [(r, c, glyphs.NAMES[kind]) for r, c in bot.memory.known(kind) if (r, c) != frame.at]
        found += sorted(near, key=lambda s: max(abs(s[0] - row), abs(s[1] - column)))[:2]
    found.sort(key=lambda s: max(abs(s[0] - row), abs(s[1] - column)))
    return [f"{name} {where(r - row, c - column)}" for r, c, name in found[:MOST]]


def where(down: int, right: int) -> str:
    """Such as "3 steps northeast"; the number is the distance with diagonal moves."""
    far = max(abs(down), abs(right))
    vertical = "" if abs(down) * 2 < far else "south" if down > 0 else "north"
    across = "" if abs(right) * 2 < far else "east" if right > 0 else "west"
    return f"{far} step{'s' * (far > 1)} {vertical}{across}"


def cutout(bot) -> list[str]:
    """The map around the hero, REACH squares each way, without empty lines at the edges."""
    row, column = bot.frame.at
    rows = slice(max(0, row - REACH), min(ROWS, row + REACH + 1))
    columns = slice(max(0, column - REACH), min(COLUMNS, column + REACH + 1))
    lines = [bytes(line).decode("latin-1").rstrip() for line in bot.frame.chars[rows, columns]]
    return [line for line in lines if line]


def instructions(menu: dict, goal: str) -> str:
    """The fixed head of the prompt: the task, the actions with a line each."""
    listed = "\n".join(f"{name}: {menus.says(name, skill)}" for name, skill in menu.items())
    return (
        f"You play NetHack. {goal} Each turn, read what you see and answer with the name of one "
        f"action.\nActions:\n{listed}"
    )


def goal(task: str) -> str:
    """The goal of a task family in one sentence."""
    if "Battle" in task or "Monster" in task or "Ultimate" in task:
        return "Your goal is to reach the stairs down alive; creatures stand in your way."
    if "Door" in task or "KeyRoom" in task:
        return "Your goal is to reach the stairs down behind a door."
    return "Your goal is to find the stairs down and walk onto them."
