"""The three action spaces over one engine: keys, skills, both; whole families can be left out."""

from collections.abc import Sequence

from repro.code_skills import skills_fight, skills_terrain, skills_things, skills_walk
from repro.code_skills.skill import Skill
from repro.code_skills.state import MOVES
from repro.errors import BadParameter

MODES = ("primitives", "skills", "mixed")
PRIMITIVES = {name: f"move one square {name}" for name in MOVES} | {
    "search": "search the squares around you",
    "open": "open a door; a direction has to follow",
    "kick": "kick; a direction has to follow",
    "pickup": "pick up what lies here",
    "wait": "do nothing for one turn",
    "more": "press Enter",
}
SKILLS: dict[str, Skill] = {
    skill.name: skill
    for module in (skills_walk, skills_fight, skills_things, skills_terrain)
    for skill in module.SKILLS
}
CORE = ("goto_stairs", "explore", "open_door", "fight", "pickup", "search")
SETS = {"core": CORE, "all": tuple(SKILLS)}
FAMILIES = tuple(dict.fromkeys(skill.family for skill in SKILLS.values()))


def menu(mode: str, skills: str = "core", without: Sequence[str] = ()) -> dict[str, Skill | None]:
    """Name -> skill, or None for a key, in a fixed order: skills first.

    mode: one of `MODES`. skills: "core" (six) or "all". without: families or names left out of the
    skills. In "mixed" a key and a skill of one name both stay: the key is then called key_<name>.

    Raises BadParameter for what is not known, and for a menu without an entry.
    """
    if mode not in MODES:
        raise BadParameter(f"mode={mode!r} is not known; accepted: {', '.join(MODES)}.")
    if skills not in SETS:
        raise BadParameter(f"skills={skills!r} is not known; accepted: {', '.join(SETS)}.")
    for name in without:
        if name not in SKILLS and name not in FAMILIES:
            known = ", ".join([*FAMILIES, *SKILLS])
            raise BadParameter(f"without={name!r} is not known; accepted: {known}.")
    chosen = {
        name: SKILLS[name]
        for name in SETS[skills]
        if name not in without and SKILLS[name].family not in without
    }
    if mode == "skills":
        if not chosen:
            raise BadParameter(f"without={list(without)} leaves no skill; accepted: fewer.")
        return dict(chosen)
    keys = {name: None for name in PRIMITIVES}
    if mode == "primitives":
        return keys
    return chosen | {(f"key_{k}" if k in SKILLS else k): None for k in keys}


def key(name: str) -> str:
    """The engine's key of a primitive's name in the menu."""
    return name.removeprefix("key_")


def says(name: str, skill: Skill | None) -> str:
    """The line that explains an entry."""
    return skill.says if skill else PRIMITIVES[key(name)]
