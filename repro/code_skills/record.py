"""The record of one run of scripts/run_codehack_minihack.py, and how it is made."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from repro import digest, files
from repro.code_skills import menus, summary
from repro.code_skills.episode import Spec
from repro.paths import ROOT

VERSION, LIBRARY = 1, "1"
KIND = "minihack-action-space-smoke"
CLAIM = "integration and menu comparison; no language-model or RL result"
CLAIM_LM = "integration and menu comparison with one small language model; no RL result"


def specs(options: dict[str, Any]) -> list[Spec]:
    """Every episode of a run, in order: tasks, regimes, modes, controllers, seeds."""
    budgets = {
        "decision": (options["max_decisions"], options["primitive_budget"]),
        "step": (options["primitive_budget"], options["primitive_budget"]),
    }
    regimes = list(budgets) if options["regime"] == "both" else [options["regime"]]
    return [
        Spec(
            task, mode, controller, seed, options["lgen_seed"], *budgets[regime],
            options["action_set"], options["skills"], tuple(options["without"]),
        )
        for task in options["tasks"]
        for regime in regimes
        for mode in options["modes"]
        for controller in options["controllers"]
        for seed in options["seeds"]
    ]  # fmt: skip


def build(
    options: dict[str, Any],
    command: Sequence[str],
    episodes: Sequence[dict[str, Any]],
    proofs: Sequence[dict[str, Any]],
    replays: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The record as plain JSON.

    proofs: one a task, of the seeds. replays: {index, trajectory_sha256} of episodes that were
    played again in a second process.
    """
    lm = "lm" in options["controllers"]
    return {
        "schema_version": VERSION,
        "kind": KIND,
        "evidence_level": "integration",
        "claim": CLAIM_LM if lm else CLAIM,
        "paper_result_reproduced": False,
        "created_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "code": _code(),
        "command": list(command),
        "software": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("nle", "minihack", "gymnasium", "numpy")},
        },
        "platform": f"{platform.system().lower()}/{platform.machine().lower()}",
        "skill_library": library(options["skills"], options["without"]),
        "budgets": {k: options[k] for k in ("max_decisions", "primitive_budget")},
        "regime": options["regime"],
        "tasks": [
            {
                "id": proof["task"],
                "action_set": options["action_set"],
                "max_episode_steps": proof["limit"],
                "level_source": "seeded" if options["lgen_seed"] is None else "lgen",
            }
            for proof in proofs
        ],
        "modes": list(options["modes"]),
        "controllers": [controller(name) for name in options["controllers"]],
        "seeds": list(options["seeds"]),
        "lgen_seed": options["lgen_seed"],
        "episodes": list(episodes),
        "summary": summary.summarise(episodes),
        "proofs": list(proofs),
        "replays": list(replays),
        "checks": checks(episodes, proofs, replays),
        "episodes_sha256": files.digest(list(episodes)),
    }


def applied(proof: dict[str, Any]) -> bool:
    """Whether the same seed gave the same first observation, and another seed another one."""
    return proof["first"] == proof["again"] != proof["other"]


def checks(episodes, proofs, replays) -> dict[str, Any]:
    """What the run says of itself, computed from the rest of the record."""

    def same(replay: dict[str, Any]) -> bool:
        return replay["trajectory_sha256"] == episodes[replay["index"]]["trajectory_sha256"]

    return {
        "replay_identical": bool(replays)
        and all(
            r["trajectory_sha256"] == episodes[r["index"]]["trajectory_sha256"] for r in replays
        ),
        "budget_violations": sum(violated(episode) for episode in episodes),
        "seeds_applied": bool(proofs)
        and all(p["first"] == p["again"] != p["other"] for p in proofs),
    }


def violated(episode: dict[str, Any]) -> bool:
    """Whether an episode used more than its budgets, by its totals or by its decisions."""
    decisions, steps = episode["budgets"]
    spent = sum(action["steps"] for action in episode["actions"])
    return (
        episode["decisions"] > decisions
        or len(episode["actions"]) > decisions
        or max(spent, episode["primitive_steps"]) > steps
    )


def library(skills: str, without: Sequence[str]) -> dict[str, Any]:
    """Names of the menus, and one hash over the code that an episode runs through."""
    modules, _ = digest.closure("from repro.code_skills import episode")
    return {
        "version": LIBRARY,
        "source_sha256": files.digest(modules),
        "names": list(menus.menu("skills", skills, without)),
        "primitives": list(menus.PRIMITIVES),
        "set": skills,
        "without": list(without),
    }


def controller(name: str) -> dict[str, Any]:
    """What a controller is, for the record."""
    if name == "lm":
        from repro.code_skills import lm

        return {"name": name, "params": lm.PARAMETERS, "rng": "Gumbel noise by seed, turn and name"}
    params = {"menu": "uniform"} if name == "random" else {"rule": "fixed priorities, else uniform"}
    return {"name": name, "params": params, "rng": "numpy default_rng(seed)"}


def _code() -> dict[str, Any]:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "dirty": True}
