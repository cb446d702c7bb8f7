"""The receipt of a GPU session: the JSON file that scripts/gpu_session.py writes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro import digest, paths, sanitize
from repro.errors import ReproError
from repro.evidence import receipts
from repro.evidence.receipts import build, devices

SCRIPT = "scripts/gpu_session.py"
CODE = "from kernels import session, stages"  # what the script does beside its book-keeping


def from_session(path: Path, supersedes: str | None = None) -> dict[str, Any]:
    """Write the receipt of the JSON file that scripts/gpu_session.py made.

    The file does not name its code: the receipt names the commit at which it is made itself.
    Raises ReproError for a file of another kind.
    """
    content = path.read_bytes()
    report = read(content, path.name)
    sanitize.require_clean(report, path.name)
    stamp = "".join(c for c in report["started"] if c.isdigit())
    copy = paths.EVIDENCE / "executed/kernels/session" / f"{stamp}.json"
    receipt = made(report, files=[build.named("session", copy, content)], supersedes=supersedes)
    receipts.write(receipt, {copy: content})
    return receipt


def made(report: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    """The receipt (not yet written) of a session's report, with the fields of `changed`."""
    told = fields(report)
    options = (w for n, v in told["given"].items() for w in (f"--{n}", str(v)))
    limits = ["The session's file does not name its code; the commit is the receipt's own."]
    limits += [
        f"Stage {s['name']} left out {len(s['left_out'])} cases."
        for s in report["stages"]
        if s.get("left_out")
    ]
    body = {
        "subject": "kernels/session",
        "kind": "session",
        "entry": SCRIPT,
        "command": ["python", SCRIPT, *options],
        "supersedes": None,
        "inputs": inputs(told.pop("given")),
        "seeds": [],
        "peak_memory_bytes": None,
    }
    own = {"limitations": [*limits, *changed.pop("limitations", [])]}
    return build.assemble(**body | told | own | changed)


def read(content: bytes, name: str) -> dict[str, Any]:
    """The report in a session's file. Raises ReproError for one of another kind."""
    try:
        report = json.loads(content)
        if report["kind"] == "gpu-session" and report["schema"] == 1 and fields(report):
            return report
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise ReproError(f"{name} is no file of scripts/gpu_session.py.")


def says_otherwise(receipt: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    """Whether a receipt's fields are not those that its session's file gives."""
    told = fields(report)
    same = receipt["inputs"]["parameters"] == told.pop("given")
    return not same or any(receipt[k] != v for k, v in told.items() if k != "device")


def fields(report: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a receipt that the report alone gives, and under ``given`` its options."""
    stages = report["stages"]
    facts: dict[str, Any] = next((s["facts"] for s in stages if s["name"] == "environment"), {})
    versions = facts.get("versions", {}) | {"python": facts.get("python", "0")}
    told = report["device"], facts.get("memory_bytes"), facts.get("compute_capability")
    outcome, reason = _outcome(stages)
    return {
        "device": devices.describe(*told),
        "versions": {n: str(v).partition("+")[0] for n, v in sorted(versions.items())},
        "started": report["started"],
        "wall_s": report["wall_s"],
        "checks": build.checks([c for s in stages for c in s.get("checks", [])]),
        "metrics": report["metrics"],
        "outcome": outcome,
        "reason": reason,
        "given": {
            "device": "simulator" if report["simulated"] else "cuda",
            "stages": ",".join(s["name"] for s in stages),
            "seconds": float(report["seconds_per_stage"]),
        },
    }


def inputs(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a session depends on, hashed by part as for notebooks."""
    modules, packages = digest.closure(CODE)
    text = (paths.ROOT / SCRIPT).read_text()
    return {
        "cells": digest.code_hash(text),
        "modules": modules,
        "parameters": dict(parameters),
        "assets": {},
        "packages": packages,
    }


def _outcome(stages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    failed = [s for s in stages if s["state"] == "failed"]
    red = [c["name"] for s in stages for c in s.get("checks", []) if not c["passed"]]
    if failed:
        told = {build.outcome_of(s["error"]) for s in failed}
        reason = "; ".join(f"{s['name']}: {s['error']}" for s in failed)[:1000]
        return told.pop() if len(told) == 1 and not red else "failed", reason
    if red:
        return "failed", f"red: {', '.join(red)}"[:1000]
    if not any(s.get("checks") for s in stages):
        return "skipped", "no stage of the session checked anything"
    return "passed", ""
