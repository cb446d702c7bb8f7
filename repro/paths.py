"""Where things lie, from the package's own place and never from the working directory.

nbmake runs a notebook in the notebook's folder and Papermill in the caller's.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "_build"
EVIDENCE = ROOT / "evidence"
NOTEBOOKS = ROOT / "notebooks"


def cache_dir() -> Path:
    """Folder for downloaded and converted assets: ``$REPRO_CACHE``, else the user's cache."""
    if chosen := os.environ.get("REPRO_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "executable-boundaries"
