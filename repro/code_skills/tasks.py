"""Which MiniHack tasks run offline, which do not, and why."""

from repro.code_skills.engine import load
from repro.errors import BadParameter

SMOKE = ("MiniHack-Room-5x5-v0",)
DISCRIMINATING = (
    "MiniHack-Room-Random-15x15-v0",
    "MiniHack-Corridor-R3-v0",
    "MiniHack-MazeWalk-15x15-v0",
    "MiniHack-LockedDoor-v0",
)
GROUPS = {"smoke": SMOKE, "all-discriminating": DISCRIMINATING}
EXCLUDED = {  # part of an id -> why
    "MultiRoom": "minigrid 3 has no seed(), so a seed cannot be applied; without it, no import",
    "Crossing": "minigrid 3 fails an assertion when the level is made",
    "Boxoban": "needs a download, and its reset does not take Gymnasium's arguments",
    "-Custom-": "needs a level description",
}


def runnable() -> list[str]:
    """Ids of the registered MiniHack tasks that run offline, sorted."""
    names = (name for name in load().registry if name.startswith("MiniHack-"))
    return sorted(name for name in names if not any(part in name for part in EXCLUDED))


def chosen(text: str) -> list[str]:
    """Task ids of a comma-separated list; names of `GROUPS` stand for their tasks.

    Raises BadParameter for an unknown or excluded id, or one given twice.
    """
    found, known = [], set(runnable())
    for name in filter(None, (part.strip() for part in text.split(","))):
        for task in GROUPS.get(name, (name,)):
            if why := next((why for part, why in EXCLUDED.items() if part in task), ""):
                raise BadParameter(f"task={task!r} is excluded: {why}.")
            if task not in known:
                groups = ", ".join(GROUPS)
                raise BadParameter(
                    f"task={task!r} is not known; accepted: {groups}, or one of {len(known)} ids "
                    "such as MiniHack-Corridor-R3-v0."
                )
            if task in found:
                raise BadParameter(f"task={task!r} is given twice; accepted: each task once.")
            found.append(task)
    if not found:
        raise BadParameter(f"tasks={text!r} names no task; accepted: at least one.")
    return found
