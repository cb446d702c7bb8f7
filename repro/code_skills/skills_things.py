"""Skills about things and doors: open, pick up, use, and answers to the game's questions."""

from repro.code_skills import glyphs
from repro.code_skills.results import Declined
from repro.code_skills.skill import Skill
from repro.code_skills.state import MOVES, direction

KICKS = 8
_KEYS = ("key", "lock pick", "credit card")


def _beside(square, grid):
    """Free squares at the four sides of `square`: doors are not used diagonally."""
    near = [(square[0] + d, square[1] + r) for d, r in MOVES.values() if not (d and r)]
    return [at for at in near if 0 <= at[0] < 21 and 0 <= at[1] < 79 and grid.free[at]]


def _doors_ready(bot):
    doors = bot.memory.known(glyphs.CLOSED)
    if not doors:
        raise Declined("no closed door is known")
    grid = bot.grid()
    grid.free[bot.frame.at] = True
    goals = {at: door for door in doors for at in _beside(door, grid)}
    if bot.way(list(goals)) is None:
        raise Declined("no known way to a closed door")
    return goals


def _open(bot, goals):
    if bot.frame.at not in goals and (said := bot.walk(list(goals))) != "there":
        return "failed", said
    door = goals[bot.frame.at]
    way = direction(bot.frame.at, door)
    for _ in range(3):
        bot.step("open", asks=True)
        bot.step(way)
        if _gone(bot, door):
            return "ok", "the door is open"
        if "locked" in bot.frame.message:
            return _force(bot, door, way)
        if "stuck" not in bot.frame.message and "WHAMM" not in bot.frame.message:
            break
    return "failed", bot.frame.message or "the door stays closed"


def _force(bot, door, way):
    """Unlock with a key where one is carried, else kick."""
    keys = [i for i in bot.frame.inventory if any(word in i.name for word in _KEYS)]
    if keys and bot.engine.has("apply"):
        for _ in range(3):
            _unlock(bot, keys[0].letter, way)
            bot.step("open", asks=True)
            bot.step(way)
            if _gone(bot, door):
                return "ok", "unlocked and open"
    if not bot.engine.has("kick"):
        return "failed", "locked, and the task has no key to kick"
    for _ in range(KICKS):
        bot.step("kick", asks=True)
        bot.step(way)
        if _gone(bot, door):
            return "ok", "kicked open"
    return "failed", "locked"


def _unlock(bot, letter, way):
    if not bot.step("apply", asks=True).prompt:
        return
    for answer in (letter, way, "y"):
        if not bot.frame.prompt:
            break
        bot.step(answer, asks=True)


def _gone(bot, door):
    return bot.memory.terrain[door] != glyphs.CLOSED


def _pickup_ready(bot):
    goals = [(r, c) for r, c, _ in bot.frame.items]
    under = "You see here" in bot.frame.message or "several" in bot.frame.message
    if under:
        return None
    if not goals:
        raise Declined("no thing is in view")
    if bot.way(goals) is None:
        raise Declined("no known way to a thing")
    return goals


def _pickup(bot, goals):
    """Tasks pick most things up by walking over them; `,` takes what still lies there."""
    held = _load(bot)
    if goals is not None and (said := bot.walk(goals)) != "there":
        return "failed", said
    if _load(bot) == held:
        bot.step("pickup", asks=True)
        if bot.frame.prompt:
            bot.step("esc", asks=True)
    return ("ok", "picked up") if _load(bot) != held else ("failed", bot.frame.message or "nothing")


def _load(bot):
    return [(i.letter, i.name) for i in bot.frame.inventory], int(bot.frame.stats[13])


USES = {  # skill -> (key, classes, words of the menu)
    "eat": ("eat", ("food",), "eat something"),
    "quaff": ("quaff", ("potion",), "drink a potion"),
    "read": ("read", ("scroll", "spellbook"), "read a scroll"),
    "zap": ("zap", ("wand",), "zap a wand at the nearest creature"),
    "wear": ("wear", ("armor",), "wear a piece of armour"),
    "put_on": ("put_on", ("ring", "amulet"), "put on a ring or an amulet"),
    "wield": ("wield", ("weapon",), "wield another weapon"),
}
_IN_USE = ("being worn", "weapon in hand", "on left", "on right", "alternate weapon")


def carried(bot, kinds, words=()):
    """Things of the classes `kinds` that are not in use, those with one of `words` first."""
    free = [
        item
        for item in bot.frame.inventory
        if item.kind in kinds and not any(mark in item.name for mark in _IN_USE)
    ]
    return sorted(free, key=lambda item: not any(word in item.name for word in words))


def _use_ready(name):
    key, kinds, _ = USES[name]

    def ready(bot):
        if not bot.engine.has(key):
            raise Declined(f"the task has no key for {key!r}")
        if not (items := carried(bot, kinds)):
            raise Declined(f"no {' or '.join(kinds)} to use is carried")
        return items[0]

    return ready


def _use(name):
    def run(bot, item):
        return use(bot, USES[name][0], item)

    return run


def use(bot, key, item, way="") -> tuple[str, str]:
    """Press `key`, name the item, answer what follows: a direction, the right hand, else yes."""
    bot.step(key, asks=True)
    if "eat it" in bot.frame.message or "eat one" in bot.frame.message:
        bot.step("n", asks=True)  # of a thing on the floor
    if not bot.frame.prompt:
        return "failed", bot.frame.message or "nothing happens"
    bot.step(item.letter, asks=True)
    for _ in range(3):
        if not bot.frame.prompt:
            break
        asked = bot.frame.message
        answer = (way or _aim(bot)) if "direction" in asked else "r" if "Right" in asked else "y"
        bot.step(answer, asks=True)
    if bot.frame.prompt:
        bot.step("esc", asks=True)
    return "ok", bot.frame.message


def _aim(bot):
    """Direction of the nearest creature in line, else east."""
    row, column = bot.frame.at
    for r, c, _ in bot.frame.hostiles:
        down, right = r - row, c - column
        if down == 0 or right == 0 or abs(down) == abs(right):
            sign = (int(down > 0) - int(down < 0), int(right > 0) - int(right < 0))
            return direction((0, 0), sign)
    return "east"


def _asked(bot):
    if not bot.frame.prompt:
        raise Declined("no question is open")


def _answer(key):
    def run(bot, _):
        bot.step(key, asks=True)
        return "ok", bot.frame.message

    return run


ANSWERS = {"yes": "y", "no": "n", "more": "more", "cancel": "esc"}
SKILLS = [
    Skill("open_door", "doors", "open the nearest closed door", _doors_ready, _open),
    Skill("pickup", "items", "fetch the nearest thing on the floor", _pickup_ready, _pickup),
    *(Skill(name, "items", USES[name][2], _use_ready(name), _use(name), 12) for name in USES),
    *(
        Skill(name, "answers", f"answer the open question: {name}", _asked, _answer(key), 1)
        for name, key in ANSWERS.items()
    ),
]
