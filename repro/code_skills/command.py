"""The command line of scripts/run_codehack_minihack.py."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro import files
from repro.code_skills import backend, controllers, engine, menus, record, tasks, validate
from repro.code_skills.episode import Spec
from repro.errors import BadParameter, MissingAsset, ReproError

REPLAYED = 60  # episodes played again at most: of larger runs one seed a cell


def parser() -> argparse.ArgumentParser:
    it = argparse.ArgumentParser(description="Three action spaces on MiniHack under two budgets.")
    it.add_argument("--seeds", default="42,43,44")
    it.add_argument("--max-decisions", type=int, default=8)
    it.add_argument("--primitive-budget", type=int, default=64)
    it.add_argument("--output", default="runs/codehack-minihack-smoke.json")
    it.add_argument("--tasks", default="smoke", help=f"ids, or: {', '.join(tasks.GROUPS)}")
    it.add_argument("--modes", default=",".join(menus.MODES))
    it.add_argument("--controllers", default="random", help=f"of {', '.join(controllers.NAMES)}")
    it.add_argument("--action-set", default="full", choices=engine.ACTION_SETS)
    it.add_argument("--skills", default="core", choices=menus.SETS)
    it.add_argument("--without", default="", help="families or names of skills to leave out")
    it.add_argument("--lgen-seed", type=int, help="one map, whatever the seeds")
    it.add_argument("--regime", default="decision", choices=("decision", "step", "both"))
    it.add_argument("--trace", action="store_true", help="print every decision")
    it.add_argument("--backend", default="own", choices=backend.NAMES)
    it.add_argument("--validate", metavar="FILE", help="check a record instead of running")
    return it


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 fine, 1 an episode or check failed, 2 bad argument, 3 an engine is missing."""
    argv = list(sys.argv[1:] if argv is None else argv)
    given = parser().parse_args(argv)
    try:
        if given.validate:
            return _validate(Path(given.validate))
        return run(argv, given)
    except MissingAsset as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except ReproError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def options(argv: Sequence[str]) -> dict[str, Any]:
    """The choices that `argv` makes, checked. Raises BadParameter."""
    given = parser().parse_args(list(argv))
    found = {
        name: getattr(given, name)
        for name in ("max_decisions", "primitive_budget", "action_set", "skills", "regime")
    }
    for name in ("max_decisions", "primitive_budget"):
        if found[name] < 1:
            raise BadParameter(f"{name}={found[name]} is refused; accepted: >= 1.")
    if given.lgen_seed is not None and given.lgen_seed < 1:
        raise BadParameter(f"lgen_seed={given.lgen_seed} is refused; accepted: >= 1.")
    found["lgen_seed"] = given.lgen_seed
    found["seeds"] = _seeds(given.seeds)
    found["modes"] = _listed("mode", given.modes, menus.MODES)
    found["controllers"] = _listed("controller", given.controllers, controllers.NAMES)
    found["without"] = [name for name in given.without.split(",") if name]
    menus.menu("skills", given.skills, found["without"])
    found["tasks"] = tasks.chosen(given.tasks)
    return found


def run(argv: Sequence[str], given: argparse.Namespace) -> int:
    chosen = options(argv)
    wanted = record.specs(chosen)
    answers = _model(chosen)
    with backend.player(given.backend) as player:
        proofs = [
            {"task": task}
            | player.prove(task, chosen["seeds"][0], chosen["action_set"], chosen["lgen_seed"])
            for task in chosen["tasks"]
        ]
        episodes = []
        for spec in wanted:
            episodes.append(_play(player, spec, answers))
            if given.trace:
                _print(episodes[-1])
    with backend.player(given.backend) as second:  # another process
        replays = [
            {"index": at, "trajectory_sha256": _again(second, wanted[at], episodes[at])}
            for at in _replayed(wanted)
        ]
    value = record.build(chosen, _relative(argv), episodes, proofs, replays)
    files.write_atomic(Path(given.output), json.dumps(value, indent=1, allow_nan=False) + "\n")
    errors = sum(e["error"] is not None for e in episodes)
    checks = value["checks"]
    fine = (
        checks["replay_identical"] and checks["seeds_applied"] and not checks["budget_violations"]
    )
    print(f"{len(episodes)} episodes, {errors} errors; {json.dumps(checks)}; {given.output}")
    return int(bool(errors) or not fine)


def _play(player: Any, spec: Spec, answers: Any) -> dict[str, Any]:
    if spec.controller != "lm":
        return player.play(spec)
    from repro.code_skills import lm

    usage = lm.Usage()
    menu = menus.menu(spec.mode, spec.skills, spec.without)
    episode = player.play(spec, answers.start(spec, menu, usage))
    used = {k: getattr(usage, k) for k in ("calls", "tokens_read", "tokens_scored")}
    return episode | {"model": used}


def _again(player: Any, spec: Spec, episode: dict[str, Any]) -> str:
    """Play again: controllers of ours by their seed, a model's decisions from the list."""
    if spec.controller == "lm":
        names = tuple(action["name"] for action in episode["actions"])
        spec = replace(spec, controller="listed", names=names)
    return player.play(spec)["trajectory_sha256"]


def _replayed(wanted: Sequence[Spec]) -> list[int]:
    if len(wanted) <= REPLAYED:
        return list(range(len(wanted)))
    first = wanted[0].seed
    return [at for at, spec in enumerate(wanted) if spec.seed == first]


def _model(chosen: dict[str, Any]) -> Any:
    if "lm" not in chosen["controllers"]:
        return None
    from repro import models
    from repro.code_skills import lm

    return lm.Chooser(*models.load(str(lm.PARAMETERS["model"])))


def _seeds(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadParameter(f"seeds={text!r} is refused; accepted: integers and commas.") from None
    if min(found) < 1:
        raise BadParameter(f"seeds={text!r} is refused; accepted: integers >= 1.")
    if len(set(found)) < len(found):
        raise BadParameter(f"seeds={text!r} names a seed twice; accepted: each seed once.")
    return found


def _listed(what: str, text: str, known: Sequence[str]) -> list[str]:
    found = [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            raise BadParameter(f"{what}={name!r} is not known; accepted: {', '.join(known)}.")
    if len(set(found)) < len(found):
        raise BadParameter(f"{what}s={text!r} names one twice; accepted: each once.")
    return found


def _relative(argv: Sequence[str]) -> list[str]:
    """The command without any folder of this machine."""
    return [Path(word).name if Path(word).is_absolute() else word for word in argv]


def _print(episode: dict[str, Any]) -> None:
    head = "/".join((episode["task"], episode["mode"], episode["controller"]))
    print(f"{head}/{episode['seed']['core']}: {episode['stop_reason']}")
    for action in episode["actions"]:
        print(
            f"  {action['name']}: {action['status']}, {action['steps']} steps, {action['reason']}"
        )


def _validate(path: Path) -> int:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadParameter(f"{path.name} is not readable as JSON ({error}).") from error
    if found := validate.problems(value):
        print("\n".join([f"{path.name}: {len(found)} problems", *found[:20]]), file=sys.stderr)
        return 1
    print(f"{path.name}: {len(value['episodes'])} episodes, every sum, hash and summary holds")
    return 0
