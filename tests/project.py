"""A copy of the project in a temporary folder, with notebooks of a test's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARAMETERS = """seed: int = 42  # random seed
device: str = "auto"  # where to compute
fault: str = ""  # deliberate fault
record: str = ""  # where to write the record
word: str = "plain"  # some text
share: float = 0.5  # some share
"""
START = 'from repro import records\nrun = records.start("demo/{name}", globals())'
CHECK = 'run.check("one", fault != "broken", "one is one")\nrun.faults({"broken": ["one"]})'
FINISH = "run.finish()"


def cell(source: str, **metadata) -> dict:
    return {
        "cell_type": "code",
        "id": f"c{abs(hash(source)) % 10**8}",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def notebook(*sources: str, parameters: str = PARAMETERS, metadata: dict | None = None) -> dict:
    """A notebook that keeps the contract around the given code cells."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Demo\nRuns?"}
    code = [cell(parameters, tags=["parameters"]), *map(cell, sources)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "cells": [title, *code],
        "metadata": {"kernelspec": kernel} | (metadata or {}),
        "nbformat": 4,
        "nbformat_minor": 5,
    }


class Project:
    """The copy: `write` a notebook, `repro` a command, read what is on disk."""

    def __init__(self, folder: Path):
        self.folder = folder
        ignore = shutil.ignore_patterns("__pycache__", "records", "executed")
        for name in ("repro", "evidence", "profiles"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        shutil.copy(ROOT / "constraints.txt", folder)
        (folder / "notebooks" / "demo").mkdir(parents=True)

    def write(self, name: str, *sources: str, **kwargs) -> Path:
        """Write notebooks/demo/<name>.ipynb: the start cell, `sources`, then the finish cell."""
        start = START.format(name=name)
        path = self.folder / "notebooks" / "demo" / f"{name}.ipynb"
        path.write_text(json.dumps(notebook(start, *sources, FINISH, **kwargs)))
        return path

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "repro.cli", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder), "COLUMNS": "400"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Whatever is started in the background of a shell ignores Ctrl-C; undo that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def repro(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Exit code and everything printed."""
        process = self.start(*arguments, **environment)
        output, _ = process.communicate(timeout=180)
        return process.returncode, output

    def results(self) -> list[Path]:
        """Executed notebooks and records on disk, and anything half-written beside them."""
        folders = (self.folder / "_build" / "executed", self.folder / "evidence" / "records")
        return sorted(p for f in folders for p in f.rglob("*") if p.is_file())

    def states(self) -> dict[str, str]:
        """Notebook → state of its live result."""
        script = (
            "import json\n"
            "from repro import evidence\n"
            "live = [s for s in evidence.statuses() if s.profile == 'default']\n"
            "print(json.dumps({s.key: s.state for s in live}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)
