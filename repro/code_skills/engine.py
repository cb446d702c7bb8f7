"""One MiniHack task: keys by name, our own two counters, seeds that are really applied.

NLE 1.3.0 accepts `reset(seed=…)` and does not apply it (NetHack-LE/nle issue 131), so the engine is
seeded before every reset. MiniHack serves neither `misc` nor `internal`, so whether a prompt is
open is read from the unwrapped environment; `load` therefore insists on the pinned versions.
"""

import hashlib
import importlib.metadata
import warnings
from dataclasses import dataclass
from typing import Any

from repro.code_skills import state
from repro.code_skills.results import EngineFault, Stop
from repro.code_skills.state import Frame
from repro.errors import BadParameter, MissingAsset

PINS = {"nle": "1.3.0", "minihack": "1.0.2", "gymnasium": "1.2.0"}
ACTION_SETS = ("task", "full")
COMMANDS = {
    "search": "SEARCH", "open": "OPEN", "kick": "KICK", "pickup": "PICKUP", "fight": "FIGHT",
    "apply": "APPLY", "eat": "EAT", "quaff": "QUAFF", "read": "READ", "zap": "ZAP",
    "wear": "WEAR", "put_on": "PUTON", "wield": "WIELD", "esc": "ESC",
}  # fmt: skip


@dataclass(frozen=True)
class Seed:
    """Seeds of one episode: the game's luck, its display, the level generator (None: by `core`)."""

    core: int
    disp: int
    lgen: int | None = None


class Engine:
    """One environment. `reset` starts an episode, `step` presses one key.

    primitive_budget: environment steps an episode may use; `step` raises Stop("budget") rather
    than make one more, also in the middle of a skill. action_set: "full" gives every task all of
    NLE's keys and leaves questions open (which changes some tasks: a locked door can then be
    kicked), "task" leaves the task's own.

    Attributes: `frame` (the last one of the running game), `steps`, `reward` (sum), `end_status`,
    `over`, `truncated`.
    """

    def __init__(self, task: str, primitive_budget: int = 64, action_set: str = "full"):
        if primitive_budget < 1:
            raise BadParameter(f"primitive_budget={primitive_budget} is refused; accepted: >= 1.")
        if action_set not in ACTION_SETS:
            raise BadParameter(f"action_set={action_set!r} is not known; accepted: {ACTION_SETS}.")
        self.task, self.budget, self.action_set = task, primitive_budget, action_set
        self._env = _make(task, action_set)
        inner = self._inner = self._env.unwrapped
        self.limit = int(inner._max_episode_steps)
        self._key = {int(key): at for at, key in enumerate(inner.actions)}
        self._names = _names()
        self._asks = inner._observation_keys.index("internal")
        self.frame: Frame | None = None

    def reset(self, seed: Seed) -> Frame:
        """Start the episode of `seed`.

        Raises BadParameter for a seed below 1 (the engine takes 0 for "by lot").
        """
        for name in ("core", "disp", "lgen"):
            if (value := getattr(seed, name)) is not None and value < 1:
                raise BadParameter(f"{name}={value} is refused; accepted: an integer >= 1.")
        self.steps, self.reward, self.over, self.truncated = 0, 0.0, False, False
        self.end_status = "RUNNING"
        try:
            self._seed(seed)
            observation, _ = self._env.reset()
        except Exception as error:
            raise EngineFault(f"reset of {self.task}: {type(error).__name__}: {error}") from error
        self.frame = self._copy(observation)
        self.first = self.frame.hash().hex()
        self._trace = hashlib.sha256(self.frame.hash())
        return self.frame

    def has(self, name: str) -> bool:
        """Whether the key `name` is among the task's actions."""
        return self._code(name) in self._key

    def step(self, name: str) -> Frame:
        """Press the key `name`: a move, a command, or one character.

        Raises Stop: "budget" before the step that would exceed it, "episode_over" once the game
        has ended, "not_applicable" for a key that the task lacks.
        """
        if self.over:
            raise Stop("episode_over", self.end_status)
        if self._spent():
            raise Stop("budget", "no primitive step is left")
        if (code := self._code(name)) not in self._key:
            raise Stop("not_applicable", f"the task has no key for {name!r}")
        try:
            observation, reward, ended, cut, info = self._env.step(self._key[code])
        except Exception as error:
            raise EngineFault(f"step {name}: {type(error).__name__}: {error}") from error
        self.steps += 1
        self.reward += float(reward)
        seen = self._copy(observation)
        self._trace.update(name.encode() + seen.shown)
        self.end_status = info["end_status"].name
        self.truncated = bool(cut)
        self.over = bool(ended or cut)
        if self.over:  # the observation after the end is all zeros: the last live one stays
            raise Stop("episode_over", self.end_status)
        self.frame = seen
        return seen

    @property
    def success(self) -> bool:
        return self.end_status == "TASK_SUCCESSFUL"

    @property
    def trajectory(self) -> str:
        """SHA-256 over every key pressed and every observation since the reset."""
        return self._trace.hexdigest()

    def close(self) -> None:
        self._env.close()

    def _seed(self, seed: Seed) -> None:
        self._env.unwrapped.seed(seed.core, seed.disp, reseed=False, lgen=seed.lgen)

    def _spent(self) -> bool:
        return self.steps >= self.budget

    def _copy(self, observation: dict[str, Any]) -> Frame:
        return state.frame(observation, self._inner.last_observation[self._asks][1:4].tolist())

    def _code(self, name: str) -> int:
        if name in self._names:
            return self._names[name]
        if len(name) == 1:
            return ord(name)
        raise BadParameter(f"key={name!r} is not known; accepted: {sorted(self._names)}, one sign.")


def load() -> Any:
    """The module `gymnasium` with MiniHack registered.

    Raises MissingAsset where an engine is not installed or has another version than pinned.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of minihack, about pkg_resources
            import gymnasium
            import minihack  # noqa: F401  (registers the environments)
            import nle  # noqa: F401
    except ImportError as error:
        raise MissingAsset(
            f"{error.name} is not installed: pip install nle==1.3.0 minihack==1.0.2"
        ) from error
    for name, pin in PINS.items():
        if (found := importlib.metadata.version(name)) != pin:
            raise MissingAsset(f"{name} {found} is installed; accepted: {pin}.")
    return gymnasium


def _make(task: str, action_set: str) -> Any:
    gymnasium = load()
    from nle import nethack

    keys = {}
    if action_set == "full":  # navigation tasks answer every question but a few with Escape
        keys = {"actions": nethack.ACTIONS, "allow_all_yn_questions": True}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # No `seeds=`: with it every reset draws a level with Python's global random numbers.
            return gymnasium.make(
                task, observation_keys=state.KEYS, disable_env_checker=True, **keys
            )
    except gymnasium.error.Error as error:
        raise BadParameter(f"task={task!r} is not known ({error}).") from error


def _names() -> dict[str, int]:
    """Name -> key code, for moves and commands."""
    from nle import nethack

    short = {"north": "N", "east": "E", "south": "S", "west": "W"}
    short |= {f"{a}{b}": short[a] + short[b] for a in ("north", "south") for b in ("east", "west")}
    names = {name: int(getattr(nethack.CompassDirection, code)) for name, code in short.items()}
    names |= {name: int(getattr(nethack.Command, code)) for name, code in COMMANDS.items()}
    names |= {"wait": int(nethack.MiscDirection.WAIT), "more": int(nethack.MiscAction.MORE)}
    return names | {"down": int(nethack.MiscDirection.DOWN), "up": int(nethack.MiscDirection.UP)}
