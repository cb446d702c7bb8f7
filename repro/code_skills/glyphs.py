"""What a NetHack glyph stands for: terrain, thing or creature, derived from NLE's own tables.

No number is written down here: the engine's symbol table names each map symbol, and its offsets
and `glyph_is_*` functions divide the rest.
"""

from functools import cache

import numpy as np

NOTHING, WALL, FLOOR, DOORWAY, OPEN, CLOSED, CORRIDOR = range(7)
UP, DOWN, ALTAR, FOUNTAIN, SINK, WATER, LAVA, ICE, TRAP = range(7, 16)
NAMES = (
    *("unknown", "wall", "floor", "doorway", "open door", "closed door", "corridor"),
    *("stairs up", "stairs down", "altar", "fountain", "sink", "water", "lava", "ice", "trap"),
)
_TERRAIN = {
    "wall": WALL, "iron bars": WALL, "tree": WALL, "raised drawbridge": WALL,
    "floor of a room": FLOOR, "grave": FLOOR, "opulent throne": FLOOR,
    "lowered drawbridge": FLOOR, "vibrating square": FLOOR,
    "doorway": DOORWAY, "open door": OPEN, "closed door": CLOSED,
    "corridor": CORRIDOR, "lit corridor": CORRIDOR,
    "staircase up": UP, "ladder up": UP, "staircase down": DOWN, "ladder down": DOWN,
    "altar": ALTAR, "fountain": FOUNTAIN, "sink": SINK,
    "water": WATER, "molten lava": LAVA, "ice": ICE,
}  # fmt: skip
CLASSES = (
    "weapon", "armor", "ring", "amulet", "tool", "food", "potion", "scroll", "spellbook", "wand",
    "coin", "gem", "rock",
)  # fmt: skip


@cache
def terrain() -> np.ndarray:
    """Terrain code of each glyph, int8 [MAX_GLYPH + 1]; NOTHING for things, creatures, effects."""
    from nle import nethack

    table = np.zeros(nethack.MAX_GLYPH + 1, np.int8)
    for at in range(nethack.GLYPH_EXPLODE_OFF - nethack.GLYPH_CMAP_OFF):
        glyph, symbol = nethack.GLYPH_CMAP_OFF + at, nethack.symdef.from_idx(at)
        if nethack.glyph_is_trap(glyph):
            table[glyph] = _TERRAIN.get(symbol.explanation, TRAP)
        elif symbol.explanation == "dark part of a room":  # blank rock, or floor seen before
            table[glyph] = NOTHING if chr(symbol.sym) == " " else FLOOR
        else:
            table[glyph] = _TERRAIN.get(symbol.explanation, NOTHING)
    return table


@cache
def creatures() -> np.ndarray:
    """bool [MAX_GLYPH + 1]: creatures that block the way and may fight; not pets or riders."""
    from nle import nethack

    return _where(
        lambda g: (
            nethack.glyph_is_normal_monster(g)
            or nethack.glyph_is_detected_monster(g)
            or nethack.glyph_is_invisible(g)
            or nethack.glyph_is_warning(g)
        )
    )


@cache
def pets() -> np.ndarray:
    """bool [MAX_GLYPH + 1]: tame creatures, which change places with the hero."""
    from nle import nethack

    return _where(nethack.glyph_is_pet)


@cache
def things() -> np.ndarray:
    """Class number of each object glyph, int8 [MAX_GLYPH + 1]; -1 for what is no object.

    Corpses count as food. Statues and boulders are "rock" and are not picked up.
    """
    from nle import nethack

    table = np.full(nethack.MAX_GLYPH + 1, -1, np.int8)
    codes = {getattr(nethack, engine_class(name)): at for at, name in enumerate(CLASSES)}
    for number in range(nethack.NUM_OBJECTS):
        kind = nethack.objclass(number).oc_class
        code = ord(kind) if isinstance(kind, str) else int(kind)
        table[nethack.GLYPH_OBJ_OFF + number] = codes.get(code, -1)
    table[_where(nethack.glyph_is_body)] = CLASSES.index("food")
    table[_where(nethack.glyph_is_statue)] = CLASSES.index("rock")
    return table


@cache
def boulders() -> np.ndarray:
    """bool [MAX_GLYPH + 1]: the boulder."""
    from nle import nethack

    table = np.zeros(nethack.MAX_GLYPH + 1, bool)
    for number in range(nethack.NUM_OBJECTS):
        if nethack.OBJ_NAME(nethack.objclass(number)) == "boulder":
            table[nethack.GLYPH_OBJ_OFF + number] = True
    return table


def engine_class(name: str) -> str:
    """NLE's constant for one of `CLASSES`."""
    return "SPBOOK_CLASS" if name == "spellbook" else f"{name.upper()}_CLASS"


def creature_name(glyph: int) -> str:
    """The creature's name, such as "kobold zombie"."""
    from nle import nethack

    if nethack.glyph_is_normal_monster(glyph) or nethack.glyph_is_pet(glyph):
        return nethack.permonst(nethack.glyph_to_mon(glyph)).mname
    return "unseen creature"


def _where(test) -> np.ndarray:
    from nle import nethack

    return np.array([bool(test(g)) for g in range(nethack.MAX_GLYPH + 1)])
