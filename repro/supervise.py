"""Run one process within limits, and leave none of its children behind."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil

from repro import redact
from repro.paths import ROOT
from repro.profiles import Limits

stop = threading.Event()  # set by the runner: every supervised process is ended


def supervise(command: list[str], limits: Limits, scratch: Path) -> tuple[str, str] | None:
    """Run `command` within its limits; say what went wrong (status, message), or None."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "JUPYTER_RUNTIME_DIR": str(scratch),  # sockets and keys of this run's kernel only
    }
    environment.setdefault("OMP_NUM_THREADS", str(limits.threads))
    # A file, not a pipe: nobody reads while the process runs, and a full pipe would stop it.
    with open(scratch / "stderr", "w+", errors="replace") as said:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    family: dict[int, psutil.Process] = {}
    deadline = time.monotonic() + limits.notebook_s
    problem = None
    while process.poll() is None and problem is None:
        time.sleep(0.1)
        memory = _watch(process.pid, family)
        if stop.is_set():
            problem = ("lost", "interrupted")
        elif time.monotonic() > deadline:
            problem = ("failed", f"took longer than {limits.notebook_s:.0f} s")
        elif memory > limits.memory_gib * 2**30:
            problem = ("failed", f"used more than {limits.memory_gib} GiB of memory")
    for member in family.values():
        _kill(member)
    process.wait()
    if problem is None and process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        problem = ("lost", f"its process was ended by {name}")
    if problem is None and process.returncode != 0:
        lines = (scratch / "stderr").read_text(errors="replace").strip().splitlines()
        last = (lines or ["no message"])[-1]
        problem = ("failed", redact.text(f"the worker ended with {last}"))
    return problem


def _watch(pid: int, family: dict[int, psutil.Process]) -> int:
    """Note every process below `pid` (kernels leave its session); return their memory in bytes."""
    total = 0
    try:
        head = psutil.Process(pid)
        for member in [head, *head.children(recursive=True)]:
            family[member.pid] = member
            total += member.memory_info().rss
    except psutil.Error:
        pass
    return total


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        pass
