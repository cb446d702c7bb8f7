"""How cost grows with size, in processor time of one run: streams, trajectory graphs, histories.

    python scripts/bench_scaling.py          # all chapters, about a minute; part of `make bench`

Each figure is the cost of one unit (a token, a step, an action) at a size, over that at the
smallest size of the same run. 1 everywhere is linear growth; below 1, a fixed cost is shared by
more. Streams and histories have a control that grows faster. The cost of credit on a graph goes
with its states: at as many states a step costs less and less, with new states it does not.
The other chapters' figures are in bench_chapters.py.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from repro.deltas.runner import StreamRunner

GOAL_S = 5.0  # for the graph of 10^5 steps


@dataclass(frozen=True)
class Curve:
    """size -> cost of one `unit`, over that at the smallest size; `cost`: what is counted."""

    paper: str
    way: str
    unit: str
    values: Mapping[int, float]
    cost: str = "processor time"


def unit_costs(works: Mapping[int, Callable[[], object]], repeats: int = 3) -> dict[int, float]:
    """Seconds of processor time a unit, median over `repeats`; works: size -> the work."""
    for work in works.values():
        work()
    found: dict[int, list[float]] = {size: [] for size in works}
    for repeat in range(repeats):
        for size in list(works)[:: (-1) ** repeat]:
            gc.collect()
            start = time.process_time()
            works[size]()
            found[size].append((time.process_time() - start) / size)
    return {size: median(seen) for size, seen in found.items()}


def relative(costs: Mapping[int, float]) -> dict[int, float]:
    """Costs over that of the smallest size."""
    least = costs[min(costs)]
    return {size: cost / least for size, cost in costs.items()}


def stream(
    budget: int = 512, chunk: int = 32, times: tuple[int, ...] = (1, 2, 4, 10)
) -> list[Curve]:
    """DeltaS: cost a token and cached bytes over a stream of 1 to 10 times the budget.

    The stream runs on after the budget is full, so that only full caches are compared. The control
    keeps everything.
    """
    import torch

    from repro.deltas.hybrid import SmallHybrid
    from repro.deltas.retention import RetentionPolicy
    from repro.deltas.runner import StreamRunner

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = SmallHybrid().eval()
    found = []
    for name, policy in (("budget", RetentionPolicy(budget)), ("everything kept", None)):
        runs = [StreamRunner(model, policy) for _ in range(3)]
        for run in runs:
            _feed(run, budget + chunk, chunk)
        seconds, read = np.zeros(len(runs)), 0
        costs, kept = {}, {}
        for size in (budget * t for t in times):
            for at, run in enumerate(runs):
                start = time.process_time()
                _feed(run, size - read, chunk)
                seconds[at] += time.process_time() - start
            read = size
            kept[size] = runs[0].stats()["kv_mib"]
            costs[size] = float(np.median(seconds)) / size
        found.append(Curve("deltas", name, "token", relative(costs)))
        found.append(Curve("deltas", name, "stream", relative(kept), "cached bytes"))
    return found


def _feed(run: StreamRunner, tokens: int, chunk: int) -> None:
    import torch

    for at in range(0, tokens, chunk):
        run.feed(torch.randn(1, min(chunk, tokens - at), 32))


def walks(steps: int, cells: int, length: int = 50, lanes: int = 4) -> list:
    """Random walks along a corridor of `cells` x `lanes` states, `length` steps each."""
    from repro.graft.graph import Trajectory

    rng, group = np.random.default_rng(steps), []
    for _ in range(steps // length):
        moves = np.append(rng.integers(cells), rng.integers(-1, 2, length))
        x = np.clip(np.cumsum(moves), 0, cells - 1)
        y, actions = rng.integers(lanes, size=length + 1), rng.integers(4, size=length)
        states = tuple(zip(x.tolist(), y.tolist(), strict=True))
        group.append(Trajectory(states, tuple(actions.tolist()), float(x[-1] > cells / 2)))
    return group


def credit(group: list) -> None:
    """Graph, values, Graph GAE and normalisation: all that one update needs."""
    from repro.graft import credit, graph, values

    made = graph.build(group)
    credit.normalise(made, credit.graph_gae(made, values.solve(made)))


def graphs(fixed: tuple[int, ...] = (10**3, 10**4, 10**5)) -> tuple[list[Curve], float]:
    """GRAFT: cost a step at a fixed number of states, and with states that grow with the steps.

    Beside the curves, the seconds that the largest graph takes in all.
    """
    ways = {"500 states": (125, fixed), "a state for 10 steps": (0, fixed[:2])}
    found, seconds = [], 0.0
    for name, (cells, sizes) in ways.items():
        works = {s: walks(s, cells or s // 40) for s in sizes}
        costs = unit_costs({s: partial(credit, g) for s, g in works.items()}, repeats=1)
        found.append(Curve("graft", name, "step", relative(costs)))
        if cells:
            seconds = costs[max(costs)] * max(costs)
    return found, seconds


def histories(sizes: tuple[int, ...] = (10**3, 10**4, 10**5)) -> list[Curve]:
    """MuSeR: cost an action of compressing a history, reading interests and scoring a catalogue.

    Scoring costs the same at every length; it is left in, as a request pays it.
    """
    import torch

    from repro.muser import compression, interests

    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    items, queries = torch.randn(2000, 32), torch.randn(6, 32)

    def request(history: np.ndarray, pooled: bool) -> None:
        plan = compression.plan(len(history))
        actions = compression.gather(items, history)  # type: ignore[arg-type]  # an array does
        tokens = compression.pool(actions, plan) if pooled else actions
        if not pooled:  # every action attends to every other
            heads = tokens[None, None]
            attention = torch.nn.functional.scaled_dot_product_attention
            tokens = attention(heads, heads, heads)[0, 0]
        seen = interests.attend(queries, tokens[None])
        interests.score(interests.cosines(seen, items), 0.07)

    found = []
    for name, pooled, longest in (
        ("compressed", True, sizes),
        ("not compressed", False, sizes[:2]),
    ):
        works = {n: rng.integers(len(items), size=n) for n in longest}
        calls = {n: partial(request, h, pooled) for n, h in works.items()}
        costs = unit_costs(calls, repeats=5)
        found.append(Curve("muser", name, "action", relative(costs)))
    return found


def curves() -> tuple[list[Curve], float]:
    """Every chapter's figures, and the largest graph's seconds over `GOAL_S`."""
    import bench_chapters

    graph, seconds = graphs()
    found = [*stream(), *graph, *histories(), *bench_chapters.curves()]
    return sorted(found, key=lambda curve: curve.paper), seconds / GOAL_S


def show(found: Sequence[Curve], share: float) -> None:
    for curve in found:
        values = ", ".join(f"{value:.2f} at {size:,}" for size, value in curve.values.items())
        print(f"  {curve.paper}, {curve.way}: {curve.cost} a {curve.unit}: {values}")
    met = "met" if share < 1 else "NOT met"
    print(f"  graft: 10^5 steps over 500 states take {share:.2f} of {GOAL_S:g} s: {met}")


if __name__ == "__main__":
    measured, part = curves()
    show(measured, part)
    print(json.dumps([asdict(curve) for curve in measured]))
