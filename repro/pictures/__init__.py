"""The interactive pictures of the pages, each made by code from small inputs and kept by digest.

A module here has `make()`, which returns a `repro.player.Player`. It runs in a process of its own,
so that no game engine is loaded into the build, and again only when something that it depends on
has changed. The one that needs a model is made by command and committed, because a build runs no
model; where its code has changed since, the page says so. A picture is no evidence: no claim
rests on it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from repro import assets, digest, files
from repro.errors import BadParameter, ReproError
from repro.paths import BUILD, EVIDENCE, ROOT

NAMES = {"cache": ("smollm2-135m", "bfcl-v4"), "credit": (), "episode": (), "graph": ()}
COMMITTED = {"cache"}
PATIENCE_S = 120


def fingerprint(name: str) -> str:
    """Hash of all that the picture `name` depends on: code, assets, pinned packages."""
    if name not in NAMES:
        raise BadParameter(f"picture={name!r} is not known; accepted: {', '.join(NAMES)}.")
    parts = digest.closure(f"import repro.pictures.{name}")
    return files.digest([*parts, {a: assets.digest(a) for a in NAMES[name]}])


def path(name: str) -> Path:
    """Where the picture `name` of today's code lies, made or not."""
    if name in COMMITTED:
        return EVIDENCE / "pictures" / f"{name}.json"
    return BUILD / "pictures" / f"{name}-{fingerprint(name)[:16]}.json"


def load(name: str) -> dict[str, str]:
    """The picture `name`: its title, alt, about, data (for `player.html`) and still (SVG).

    Made first where it is not on file. Raises ReproError where it cannot be made, saying why.
    """
    today, place = fingerprint(name), path(name)
    if not place.is_file():
        if name in COMMITTED:
            raise ReproError(f"not on file; make it with `python -m repro.pictures.making {name}`")
        _make(name)
    made = json.loads(place.read_text())
    if made["fingerprint"] != today:
        made["about"] += " The code has changed since it was made."
    return made


def _make(name: str) -> None:
    command = [sys.executable, "-m", "repro.pictures.making", name]
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | quiet, capture_output=True, text=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReproError(f"not made within {PATIENCE_S} s") from None
    if done.returncode != 0 or not path(name).is_file():
        said = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise ReproError(f"not made: {''.join(said)[:300]}")
