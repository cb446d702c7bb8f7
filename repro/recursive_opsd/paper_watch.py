"""The ranks of one run as processes: started, watched, and ended together.

The rank that is the cause is named. A rank that only lost another one says so by its exit status;
where nobody else fails, the rank that is still silent is the one that did not answer.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from repro import redact
from repro.paths import ROOT

LOST = 3  # exit status of a rank that lost another one
TICK_S = 0.05


@dataclass(frozen=True)
class Failure:
    """rank: whose; says: why, one line."""

    rank: int
    says: str


def run(
    commands: Sequence[Sequence[str]], out: Path, cpu: bool, grace_s: float = 10.0
) -> list[Failure]:
    """Run command r as rank r until all have ended; returns the ranks that failed, or [].

    Each rank's output goes to ``rank-R.log`` in `out`. As soon as one rank fails all are ended.
    After a lost neighbour the cause has `grace_s` seconds to show. Nothing is left running,
    whatever happens here.
    """
    out.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        stack.callback(_end, ranks)
        for rank, command in enumerate(commands):
            log = stack.enter_context(open(out / f"rank-{rank}.log", "wb"))
            environment = _environment(rank, len(commands), port, cpu)
            ranks.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        failed = _watch(ranks, grace_s)
    return [Failure(rank, f"{why}{_last_line(out / f'rank-{rank}.log')}") for rank, why in failed]


def _watch(ranks: Sequence[subprocess.Popen[bytes]], grace_s: float) -> list[tuple[int, str]]:
    """Wait for the end of all, or for a failure; (rank, why) of those to name."""
    deadline: float | None = None
    while True:
        codes = [rank.poll() for rank in ranks]
        causes = [(r, _why(code)) for r, code in enumerate(codes) if code not in (None, 0, LOST)]
        if causes:
            return causes
        if None not in codes:
            return [(r, "lost another rank") for r, code in enumerate(codes) if code == LOST]
        if LOST in codes:
            deadline = deadline or time.monotonic() + grace_s
            if time.monotonic() > deadline:
                return [(r, "did not answer") for r, code in enumerate(codes) if code is None]
        time.sleep(TICK_S)


def _why(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """End every rank with the processes that it started, and wait for them."""
    for rank in ranks:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(rank.pid, signal.SIGKILL)
    for rank in ranks:
        rank.wait()


def _environment(rank: int, size: int, port: int, cpu: bool) -> Mapping[str, str]:
    """What `accelerate` and torch read, for one machine."""
    made = os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
    }
    made.setdefault("OMP_NUM_THREADS", "1")
    loop = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if cpu and loop:
        made.setdefault("GLOO_SOCKET_IFNAME", loop[0])  # needs no name of the machine
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f": {redact.text(lines[-1])}" if lines else ""
