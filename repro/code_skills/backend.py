"""Where another skill library would plug in.

A backend is an object with `play(spec, ask)`, `prove(task, seed, action_set, lgen)` and `close()`,
like `repro.code_skills.pool.Player`. The authors' own library, BartekCupial/codehack at commit
3026cdb7378726eace9efe8ab655f1aee616844f, needs their own build of NLE and is not part of this
project; an adapter would wrap its wrapper there and count `env.step` itself, since the library's
`env_steps` counts one call and its `max_strategy_steps` counts calls of skills.
"""

import importlib.util
from typing import Any

from repro.code_skills.pool import Player
from repro.errors import BadParameter, MissingAsset

NAMES = ("own", "codehack")
COMMIT = "3026cdb7378726eace9efe8ab655f1aee616844f"


def player(name: str = "own") -> Any:
    """The backend's player. Raises MissingAsset for "codehack", BadParameter for another name."""
    if name == "own":
        return Player()
    if name != "codehack":
        raise BadParameter(f"backend={name!r} is not known; accepted: {', '.join(NAMES)}.")
    there = importlib.util.find_spec("codehack") is not None
    state = "is installed, but no adapter is written" if there else "is not installed"
    raise MissingAsset(
        f"The backend codehack {state}: github.com/BartekCupial/codehack at {COMMIT} (MIT), with "
        "the authors' build of NLE 1.2.0. The adapter point is repro/code_skills/backend.py; "
        "the backend own needs nothing more."
    )
