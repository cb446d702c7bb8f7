"""``make bench``: costs of the book's machinery as ratios measured in one run; no test is timed.

    python scripts/bench.py                  # under five minutes; best with nothing else running

Writes evidence/performance.json, from which the page on performance is made. Run `make book`
before: the pages are built from what is on file.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import bench_scaling
import plain_sphinx
import psutil

from repro import book, evidence, models, notebooks, performance, runs
from repro.paths import BUILD

SHORT = "mad_rl/rewards"  # a fixed cost shows most in a short notebook
ROUNDS = 3
MODEL = "smollm2-135m"
DOCTREES = BUILD / ".doctrees"
LOADING = """
import time
from transformers import AutoTokenizer, LlamaForCausalLM
from repro import models
start = time.monotonic()
{}
print(time.monotonic() - start)
"""
OURS = f"models.load({MODEL!r}, device='cpu')"
BARE = """
LlamaForCausalLM.from_pretrained({0!r}, local_files_only=True)
AutoTokenizer.from_pretrained({0!r}, local_files_only=True)
"""


def seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def bare(key: str) -> None:
    """A notebook through nbclient alone: what execution costs without our rules."""
    import nbformat
    from nbclient import NotebookClient

    path = notebooks.read(key).path
    cell = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": path.parent}}
    NotebookClient(cell, kernel_name="python3", resources=place).execute()


def ruled(key: str) -> None:
    """The same by our runner, as `repro run` does it."""
    done = runs.run_once(runs.plan(key), force=True)
    if not done.good:
        raise SystemExit(f"{key} was not executed: {done.message}")


def execution(key: str = SHORT) -> dict[str, float]:
    """Medians over alternating rounds, after one that warms the caches of files."""
    bare(key)
    alone, under = [], []
    for _ in range(ROUNDS):
        alone.append(seconds(lambda: bare(key)))
        under.append(seconds(lambda: ruled(key)))
    return {"run_over_bare": median(under) / median(alone)}


def reading() -> dict[str, float]:
    """Seconds that Sphinx took to read each page of the last build."""
    found: Any = pickle.loads((DOCTREES / "environment.pickle").read_bytes())
    return dict(found.domaindata["duration"]["reading_durations"])


def building() -> tuple[dict[str, float], dict[str, int]]:
    """Ratios of the builds, and how many pages there were."""
    shutil.rmtree(book.HTML, ignore_errors=True)
    shutil.rmtree(DOCTREES, ignore_errors=True)
    full = seconds(book.build)
    pages = reading()
    again = seconds(book.build)
    plain = plain_sphinx.settings() | {"external_toc_exclude_missing": True}
    plain["extensions"] = [name for name in plain["extensions"] if name != "repro.sphinx"]
    with tempfile.TemporaryDirectory() as folder:
        alone = seconds(lambda: plain_sphinx.build(sys.executable, Path(folder), plain))
    notes = [took for page, took in pages.items() if page.startswith("notebooks/")]
    prose = [took for page, took in pages.items() if not page.startswith("notebooks/")]
    middle = median(pages.values())
    ratios = {
        "build_over_bare": full / alone,
        "prose_page": median(prose) / middle,
        "notebook_page": median(notes) / middle,
        "slowest_page": max(pages.values()) / middle,
        "rebuild_over_build": again / full,
    }
    results = sum(evidence.live(key).state == "fresh" for key in notebooks.keys())
    return ratios, {"all": len(pages), "notebooks": len(notes), "with_result": results}


def loading() -> dict[str, float]:
    """The small model, each time in a process of its own that has already imported its library."""
    folder = models.prepare(MODEL)
    with tempfile.TemporaryDirectory() as empty:
        cold = _load(OURS, {"REPRO_CACHE": empty})
    _load(OURS)
    warm = median(_load(OURS) for _ in range(ROUNDS))
    alone = median(_load(BARE.format(str(folder))) for _ in range(ROUNDS))
    return {"warm_over_cold": warm / cold, "warm_over_bare": warm / alone}


def _load(code: str, environment: dict[str, str] | None = None) -> float:
    command = [sys.executable, "-c", LOADING.format(code)]
    known = os.environ | {"PYTHONWARNINGS": "ignore"} | (environment or {})
    done = subprocess.run(command, env=known, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure() -> dict[str, Any]:
    load = os.getloadavg()[0]
    ratios, pages = building()
    curves, goal = bench_scaling.curves()
    bench_scaling.show(curves, goal)
    told = [asdict(curve) for curve in curves]
    for curve in told:
        values = curve.pop("values")
        curve |= {"sizes": list(values), "values": [float(v) for v in values.values()]}
    return {
        "schema": 1,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
        },
        "load": round(load, 2),
        "notebook": SHORT,
        "pages": pages,
        "ratios": ratios | execution() | loading(),
        "curves": told,
        "goal": goal,
    }


def main() -> None:
    start = time.monotonic()
    record = measure()
    performance.save(record)
    for name, (this, that) in performance.WORDS.items():
        print(f"{record['ratios'][name]:8.3f}  {this.format(notebook=SHORT)} / {that}")
    print(f"{time.monotonic() - start:.0f} s in all; evidence/performance.json is written")


if __name__ == "__main__":
    main()
