"""Holds a record against itself: every sum, hash, summary and check is computed again."""

import re
from collections.abc import Iterator
from math import isclose
from typing import Any

from repro import files
from repro.code_skills import engine, episode, menus, record, summary
from repro.code_skills.results import STATUSES
from repro.errors import BadParameter

HASH = re.compile(r"[0-9a-f]{64}")
FIELDS = {
    "schema_version", "kind", "evidence_level", "claim", "paper_result_reproduced", "created_at",
    "code", "command", "software", "platform", "skill_library", "budgets", "regime", "tasks",
    "modes", "controllers", "seeds", "lgen_seed", "episodes", "summary", "proofs", "replays",
    "checks", "episodes_sha256",
}  # fmt: skip
_ENDS = {
    "success": ("TASK_SUCCESSFUL",), "death": ("DEATH",), "env_limit": ("ABORTED", "RUNNING"),
    "decision_budget": ("RUNNING",), "primitive_budget": ("RUNNING",),
}  # fmt: skip


def problems(value: Any) -> list[str]:
    """What does not hold, in words; [] for a sound record. Malformed input is one problem."""
    try:
        return list(_problems(value))
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        return [f"malformed: {type(error).__name__}: {error}"]


def _problems(value: dict[str, Any]) -> Iterator[str]:
    if odd := FIELDS ^ value.keys():
        yield f"fields missing or unknown: {', '.join(sorted(odd))}"
        return
    if (value["schema_version"], value["kind"]) != (record.VERSION, record.KIND):
        yield "another kind or version of record"
    if value["paper_result_reproduced"] is not False or value["evidence_level"] != "integration":
        yield "claims more than an integration run can show"
    lm = any(c["name"] == "lm" for c in value["controllers"])
    if value["claim"] != (record.CLAIM_LM if lm else record.CLAIM):
        yield "the claim is not that of this kind of run"
    for name, pin in engine.PINS.items():
        if value["software"][name] != pin:
            yield f"software: {name} is {value['software'][name]}, not {pin}"
    library = value["skill_library"]
    if library != record.library(library["set"], library["without"]):
        yield "skill_library: other code or names than here"
    yield from _command(value)
    yield from _set(value)
    for at, one in enumerate(value["episodes"]):
        yield from (f"episode {at}: {what}" for what in _episode(one, value))
    yield from _whole(value)


def _command(value: dict[str, Any]) -> Iterator[str]:
    """The command, read again, has to give the run's settings."""
    from repro.code_skills import command

    try:
        said = command.options(value["command"])
    except (BadParameter, SystemExit) as error:
        yield f"command is not accepted ({error})"
        return
    here = {
        **value["budgets"],
        "regime": value["regime"],
        "seeds": value["seeds"],
        "lgen_seed": value["lgen_seed"],
        "modes": value["modes"],
        "controllers": [c["name"] for c in value["controllers"]],
        "tasks": [t["id"] for t in value["tasks"]],
        "skills": value["skill_library"]["set"],
        "without": value["skill_library"]["without"],
        "action_set": value["tasks"][0]["action_set"],
    }
    for name, meant in here.items():
        if said[name] != meant:
            yield f"command says {name}={said[name]}, the record {meant}"
    for entry in value["controllers"]:
        if entry != record.controller(entry["name"]):
            yield f"controller {entry['name']} is described otherwise than here"


def _set(value: dict[str, Any]) -> Iterator[str]:
    """Exactly the episodes of the settings, in order."""
    from repro.code_skills import command

    wanted = [episode._header(s) for s in record.specs(command.options(value["command"]))]
    there = [{k: one[k] for k in wanted[0]} for one in value["episodes"]]
    if wanted != there:
        yield f"episodes: {len(there)} there, not the {len(wanted)} that the settings give"


def _episode(one: dict[str, Any], value: dict[str, Any]) -> Iterator[str]:
    known, actions = menus.menu(one["mode"], value["skill_library"]["set"]), one["actions"]
    if one["decisions"] != len(actions):
        yield f"decisions={one['decisions']}, {len(actions)} actions"
    for field, total in (("steps", "primitive_steps"), ("turns", "game_turns")):
        if (found := sum(a[field] for a in actions)) != one[total]:
            yield f"{total}={one[total]}, the actions sum to {found}"
    if not isclose(sum(a["reward"] for a in actions), one["reward"], abs_tol=1e-5):
        yield "reward is not the sum over actions"
    for action in actions:
        if action["status"] not in STATUSES or action["steps"] < 0 or action["turns"] < 0:
            yield f"action {action['name']}: status, steps or turns"
        if action["name"] not in known:
            yield f"action {action['name']!r} is not in the menu of {one['mode']}"
        elif known[action["name"]] is None and action["steps"] > 1:
            yield f"the key {action['name']!r} took {action['steps']} steps"
    if record.violated(one):
        yield "more decisions or steps than its budgets"
    if one["success"] != (one["end_status"] == "TASK_SUCCESSFUL" and one["error"] is None):
        yield f"success={one['success']} with end {one['end_status']}"
    if (one["stop_reason"] == "error") != (one["error"] is not None):
        yield "stop_reason and error disagree"
    if one["error"] is None:
        if one["end_status"] not in _ENDS.get(one["stop_reason"], ()):
            yield f"stop_reason={one['stop_reason']} with end {one['end_status']}"
        if one["stop_reason"] == "decision_budget" and one["decisions"] != one["budgets"][0]:
            yield "stopped at the decision budget before it was used up"
        if one["stop_reason"] == "primitive_budget" and one["primitive_steps"] != one["budgets"][1]:
            yield "stopped at the step budget before it was used up"
        if not all(HASH.fullmatch(one[k]) for k in ("first_obs_sha256", "trajectory_sha256")):
            yield "a hash is not 64 hex digits"


def _whole(value: dict[str, Any]) -> Iterator[str]:
    episodes, proofs, replays = value["episodes"], value["proofs"], value["replays"]
    if value["summary"] != summary.summarise(episodes):
        yield "summary is not that of the episodes"
    if value["episodes_sha256"] != files.digest(episodes):
        yield "episodes_sha256 is not that of the episodes"
    if value["checks"] != record.checks(episodes, proofs, replays):
        yield "checks are not those of the episodes, proofs and replays"
    if [p["task"] for p in proofs] != [t["id"] for t in value["tasks"]]:
        yield "proofs: not one for every task"
    if any(p["applied"] != record.applied(p) for p in proofs):
        yield "proofs: applied is not what the hashes say"
    firsts: dict[tuple, str] = {(p["task"], value["seeds"][0]): p["first"] for p in proofs}
    for at, one in enumerate(episodes):
        if one["error"] is None:
            key = (one["task"], one["seed"]["core"])
            if firsts.setdefault(key, one["first_obs_sha256"]) != one["first_obs_sha256"]:
                yield f"episode {at}: another first observation than its task and seed have"
