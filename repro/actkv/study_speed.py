"""What the kernels notebook shows of a session on a GPU (the stages of `scripts/gpu_session.py`).

Without a device the stages that measure time are skipped, and the page says so; no time is made up.
"""

from typing import Any

STAGES = "environment,ceiling,compaction,scores,decode"


def session(where: Any, seconds: float, names: str = STAGES) -> dict:
    """The report of a session on `where`, each stage with a budget of `seconds`.

    Raises BadParameter unless 0 < seconds < 600, ValueError for a stage that is not there.
    """
    from kernels import session, stages
    from repro.errors import BadParameter

    if not 0 < seconds < 600:
        raise BadParameter(f"speed_s={seconds} is refused; accepted: more than 0, below 600.")
    return session.run(stages.chosen(names), stages.bench(where), seconds)


def table(report: dict) -> tuple[list[str], list[list[str]]]:
    """Head and rows: one row for each timed case, beside the shares of both ceilings."""
    found = {m["name"]: m["value"] for m in report["metrics"]}
    rows = []
    for name, value in found.items():
        work, _, case = name.partition(".")
        if work.endswith("_us") and case:
            work = work.removesuffix("_us")
            shares = (found.get(f"{work}_of_{kind}.{case}") for kind in ("nominal", "ceiling"))
            rows.append([work, case, f"{value:.1f}", *(_percent(share) for share in shares)])
    return ["work", "case", "median, µs", "of nominal", "of the streaming copy"], rows


def told(report: dict) -> str:
    """One sentence on every stage that did not run to its end, as Markdown; empty if all did."""
    states = {"skipped": "not measured", "failed": "failed", "partial": "cut short"}
    said = {}
    for stage in report["stages"]:
        if stage["state"] in states:
            left = f"{len(stage.get('left_out', []))} cases left out"
            reason = (states[stage["state"]], stage["error"] or left)
            said.setdefault(reason, []).append(stage["name"])
    return " ".join(
        f"**Gap: {state}** ({reason}): {', '.join(names)}."
        for (state, reason), names in said.items()
    )


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"
