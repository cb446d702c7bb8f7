"""One episode under two budgets: decisions and environment steps, counted alike in every mode."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from repro.code_skills import controllers, menus
from repro.code_skills.bot import Bot
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.results import EngineFault
from repro.errors import BadParameter

STOPS = (
    "success", "death", "env_limit", "decision_budget", "primitive_budget", "error",
)  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """What fixes an episode. seed: of game, display and controller; lgen: of the map, or None."""

    task: str
    mode: str
    controller: str
    seed: int
    lgen: int | None = None
    max_decisions: int = 8
    primitive_budget: int = 64
    action_set: str = "full"
    skills: str = "core"
    without: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())  # decisions to repeat, for controller "listed"

    def __post_init__(self) -> None:
        for name in ("max_decisions", "primitive_budget"):
            if (value := getattr(self, name)) < 1:
                raise BadParameter(f"{name}={value} is refused; accepted: >= 1.")


def play(engine: Engine, spec: Spec, ask: Callable | None = None, watch=None) -> dict[str, Any]:
    """Play `spec` to its end; the episode as plain JSON (fields as in the record).

    watch(bot, name, result): called after every decision; for pictures. A failure of the engine
    becomes the episode's `error`; a task that is not solved is no error.
    """
    engine.budget = spec.primitive_budget
    bot = Bot(engine, menus.menu(spec.mode, spec.skills, spec.without))
    made = controllers.Listed(spec.names) if spec.controller == "listed" else None
    made = made or controllers.make(spec.controller, spec.seed, ask)
    actions, error, started = [], None, None
    try:
        started = bot.start(Seed(spec.seed, spec.seed, spec.lgen))
        while not engine.over and not _decided(spec, actions) and not engine._spent():
            name = made.choose(bot)
            result = bot.call(name)
            actions.append({"name": name} | asdict(result))
            if watch:
                watch(bot, name, result)
    except EngineFault as fault:
        error = str(fault)
    return _header(spec) | {
        "decisions": len(actions),
        "primitive_steps": engine.steps,
        "game_turns": bot.frame.turn - started.turn if started else 0,
        "reward": round(engine.reward, 6),
        "success": bool(engine.success and not error),
        "terminated": bool(engine.over and not engine.truncated),
        "truncated": bool(engine.truncated),
        "end_status": engine.end_status,
        "stop_reason": "error" if error else _stop(engine, spec, actions),
        "actions": actions,
        "first_obs_sha256": engine.first if started else "",
        "trajectory_sha256": engine.trajectory if started else "",
        "error": error,
    }


def failed(spec: Spec, error: str) -> dict[str, Any]:
    """The episode of a process that died or did not answer."""
    return _header(spec) | {
        "decisions": 0, "primitive_steps": 0, "game_turns": 0, "reward": 0.0, "success": False,
        "terminated": False, "truncated": False, "end_status": "RUNNING", "stop_reason": "error",
        "actions": [], "first_obs_sha256": "", "trajectory_sha256": "", "error": error,
    }  # fmt: skip


def _header(spec: Spec) -> dict[str, Any]:
    seed = {"core": spec.seed, "disp": spec.seed, "lgen": spec.lgen, "controller": spec.seed}
    return {
        "task": spec.task,
        "mode": spec.mode,
        "controller": spec.controller,
        "seed": seed,
        "budgets": [spec.max_decisions, spec.primitive_budget],
    }


def _decided(spec: Spec, actions: list) -> bool:
    listed = spec.controller == "listed"
    return len(actions) >= (
        min(spec.max_decisions, len(spec.names)) if listed else spec.max_decisions
    )


def _stop(engine: Engine, spec: Spec, actions: list) -> str:
    if engine.success:
        return "success"
    if engine.over:
        return "death" if engine.end_status == "DEATH" else "env_limit"
    return "decision_budget" if _decided(spec, actions) else "primitive_budget"


def within(episode: dict[str, Any], decisions: int) -> bool:
    """Whether the episode, had it been cut after so many decisions, would have been a success.

    Valid for controllers that do not look at the decisions left: all of ours.
    """
    return episode["success"] and episode["decisions"] <= decisions
