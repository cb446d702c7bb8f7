"""A repository of a test's own, with one committed record, its executed notebook and its code."""

import json
import shutil
import subprocess

from repro import levels, paths, records, redact, runs, store
from repro.evidence import manifest
from repro.evidence.receipts import session as session_
from repro.paths import ROOT

KEY = "actkv/kernels"
ENVIRONMENT = ("-c", "user.name=t", "-c", "user.email=t")


class Desk:
    """root: the repository. record: path of its record, entered in the list of records."""

    def __init__(self, root, monkeypatch, template):
        self.root = root
        self.inputs = runs.plan(KEY, "cpu", 42).inputs
        shutil.copytree(template, root, dirs_exist_ok=True)
        monkeypatch.setattr(paths, "ROOT", root)
        monkeypatch.setattr(paths, "EVIDENCE", root / "evidence")
        monkeypatch.setattr(paths, "BUILD", root / "_build")
        monkeypatch.setattr(records, "EVIDENCE", root / "evidence")
        monkeypatch.setattr(store, "EXECUTED", root / "_build/executed")
        monkeypatch.setattr(levels, "inconsistent", list)  # of the real book, and tested there
        self.record = self.keep(made(self.inputs))

    def git(self, *arguments):
        subprocess.run(["git", *ENVIRONMENT, *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def keep(self, record):
        """Put a record and its executed notebook in place, as `repro run` does."""
        path = records.path(KEY, "cpu", record["parameters"]["seed"])
        manifest.commit(path, records.dumps(record))
        kept = store.EXECUTED / KEY / f"{record['digest'][:16]}.ipynb"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(executed(record)))
        return path

    def files(self):
        """Everything under evidence/ and book/, name -> content."""
        found = [p for f in ("evidence", "book") for p in (self.root / f).rglob("*")]
        return {str(p.relative_to(self.root)): p.read_bytes() for p in found if p.is_file()}


def template(root):
    """A repository with the code behind KEY and behind a session, committed."""
    names = [f"notebooks/{KEY}.ipynb", "constraints.txt", "evidence/devices.json", session_.SCRIPT]
    for module in [*runs.plan(KEY, "cpu", 42).inputs["modules"], *session_.inputs({})["modules"]]:
        stem = module.replace(".", "/")
        names += [n for n in (f"{stem}.py", f"{stem}/__init__.py") if (ROOT / n).is_file()]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / ".gitignore").write_text("_build/\n")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "x")):
        subprocess.run(["git", *ENVIRONMENT, *arguments], cwd=root, check=True)
    return root


def made(inputs, value=0.5, **changed):
    """A small record of a run with these inputs."""
    from repro import files

    return {
        "schema": 1,
        "notebook": KEY,
        "digest": files.digest(inputs),
        "inputs": inputs,
        "parameters": inputs["parameters"],
        "checks": [{"name": "ladder", "passed": True, "sentence": "it holds"}],
        "metrics": [
            dict(name="share", value=value, unit="fraction", direction="higher", split="b", n=9),
            dict(name="taken", value=3.5, unit="us", direction="lower", split="b", n=9),
        ],
        "comparisons": [],
        "faults": {"sign": ["ladder"]},
        "versions": {"python": "3.11.1", "numpy": "2.4.0"},
        "device": "CPU",
        "started": "2026-12-01T10:00:00Z",
        "wall_s": 12.5,
        "peak_memory_bytes": 1000,
    } | changed


def executed(record):
    """An executed notebook that ends with `record`, sealed."""
    output = {"output_type": "display_data", "metadata": {}, "data": {records.MIME: record}}
    cell = {
        "cell_type": "code",
        "id": "end",
        "metadata": {},
        "source": "run.finish()",
        "execution_count": 1,
        "outputs": [output],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return redact.notebook({"cells": [cell], "metadata": {"kernelspec": kernel}})


def session(**changed):
    """The file of a session on one A100, made up for the tests."""
    stages = [
        {
            "name": "environment",
            "state": "done",
            "error": "",
            "wall_s": 0.1,
            "facts": {
                "device": "A100-SXM4-80GB",
                "python": "3.11.7",
                "versions": {"torch": "2.13.0+cu128", "numba": "0.68.1"},
                "compute_capability": "8.0",
                "memory_bytes": 85_000_000_000,
            },
        },
        {
            "name": "right_decode",
            "state": "done",
            "error": "",
            "wall_s": 1.0,
            "checks": [{"name": "decode.float32", "passed": True, "sentence": "as in float64"}],
        },
    ]
    return {
        "schema": 1,
        "kind": "gpu-session",
        "device": "A100-SXM4-80GB",
        "simulated": False,
        "started": "2026-12-02T10:00:00Z",
        "seconds_per_stage": 45.0,
        "stages": stages,
        "metrics": [
            dict(name="copy", value=1e12, unit="bytes/s", direction="higher", split="a", n=3)
        ],
        "wall_s": 2.0,
        "ok": True,
    } | changed
