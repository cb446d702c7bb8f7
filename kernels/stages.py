"""The stages of a session, in order, and how to begin one. `scripts/gpu_session.py` runs them."""

import time
import warnings
from typing import Any

from kernels import accuracy, environment, paged_decode, paged_scores, rounds, speed
from kernels.session import Bench, Log, Stage
from kernels.traffic import GEOMETRIES
from kernels.workload import work


def build(bench: Bench, log: Log) -> None:
    """Stage: compile each kernel for this device by launching it once, with four slots in use."""
    for dtype in log.until(accuracy.NAMES):
        began = time.monotonic()
        made = work(bench, GEOMETRIES["Qwen3-8B"], [4], dtype=dtype)
        query, table = made.queries(1), made.tables[0]
        _, lse = paged_decode.decode(query[:, 0], made.keys(), made.values(), table, made.lengths)
        none = made.lengths * 0
        given = (query, lse[:, None], made.keys(), table, made.lengths[:, None], none)
        paged_scores.recover_(made.scores(), *given)
        seconds = time.monotonic() - began
        facts = dict(unit="s", direction="none", split="first launch of each kernel", n=1)
        log.metric(f"build_s.{dtype}", seconds, **facts)


STAGES = {
    stage.name: stage
    for stage in (
        Stage("environment", environment.report),
        Stage("build", build, needs_device=True),
        Stage("right_decode", accuracy.decode),
        Stage("right_scores", accuracy.scores),
        Stage("right_compaction", accuracy.compact),
        Stage("ceiling", speed.ceiling, needs_device=True),
        Stage("compaction", speed.compact, needs_device=True),
        Stage("scores", speed.scores, needs_device=True),
        Stage("decode", speed.decode, needs_device=True),
        Stage("rounds", rounds.decode_rounds, needs_device=True),
    )
}


def chosen(names: str) -> list[Stage]:
    """Stages named in `names`, separated by commas, in the order of `STAGES`; empty: all of them.

    Raises ValueError for a name that is not there.
    """
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    if unknown := [n for n in wanted if n not in STAGES]:
        raise ValueError(f"stages={','.join(unknown)}; accepted: {', '.join(STAGES)}.")
    return [stage for name, stage in STAGES.items() if not wanted or name in wanted]


def bench(where: Any) -> Bench:
    """The bench of a torch device: a GPU, or the CPU that the simulator uses."""
    warnings.filterwarnings("ignore", message="Grid size .* under-utilization")
    return environment.simulator(where) if where.type == "cpu" else environment.device(where)
