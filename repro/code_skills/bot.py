"""The hero with a memory: every step updates it, and may interrupt the skill that made the step."""

from collections import Counter

from repro.code_skills import astar
from repro.code_skills.engine import Engine, Seed
from repro.code_skills.memory import LevelMemory
from repro.code_skills.results import Declined, SkillResult, Stop
from repro.code_skills.state import Frame, direction
from repro.errors import BadParameter

LOST_SHARE = LOW_SHARE = 1 / 3  # of the hit points: lost within one call; left at its end


class Bot:
    """Skills act through it.

    menu: name -> Skill or None (a primitive key), see `repro.code_skills.menus`.
    Attributes: `frame`, `memory` (of this level), `last` (a line about the decision before),
    `trail` (the hero's square after every step).
    """

    def __init__(self, engine: Engine, menu: dict):
        self.engine, self.menu = engine, menu

    def start(self, seed: Seed) -> Frame:
        """Reset the engine and forget everything."""
        self.levels: dict[tuple[int, int], LevelMemory] = {}
        frame = self.engine.reset(seed)
        self.memory.update(frame)
        self._room, self._quiet, self._health = 0, False, frame.health[0]
        self.last, self.trail = "", [frame.at]
        return frame

    @property
    def frame(self) -> Frame:
        return self.engine.frame

    @property
    def memory(self) -> LevelMemory:
        """Memory of the level that the hero is on."""
        return self.levels.setdefault(self.frame.level, LevelMemory())

    def can(self, name: str) -> bool:
        """Whether the skill's precondition holds now; makes no step."""
        skill = self.menu[name]
        try:
            self._admit(skill)
            skill.ready(self)
        except Stop:
            return False
        return True

    def call(self, name: str) -> SkillResult:
        """Make one decision: press a key, or run a skill to its end.

        A name that is not in the menu costs no step and is "not_applicable". Raises EngineFault
        where the engine itself fails; all else ends in the result.
        """
        steps, turn, reward = self.engine.steps, self.frame.turn, self.engine.reward
        try:
            if name not in self.menu:
                raise Declined(f"{name!r} is not in the menu")
            status, reason = self._run(name)
        except Stop as stop:
            status, reason = stop.status, stop.reason
        self.last = f"Your last action: {name} ({status})."
        return SkillResult(
            status,
            self.engine.steps - steps,
            self.frame.turn - turn,
            self.engine.reward - reward,
            reason,
        )

    def _run(self, name: str) -> tuple[str, str]:
        skill = self.menu[name]
        if skill is None:  # one key, and nothing can cut it short
            self.memory.update(self.engine.step(name.removeprefix("key_")))
            self.trail.append(self.frame.at)
            return "ok", self.frame.message
        self._admit(skill)
        goal = skill.ready(self)
        self._room, self._quiet, self._health = skill.cap, skill.quiet, self.frame.health[0]
        return skill.run(self, goal)

    def _admit(self, skill) -> None:
        if self.frame.prompt and skill.family != "answers":
            raise Declined("a question is open: answer it first")

    def step(self, name: str, asks: bool = False) -> Frame:
        """Press one key inside a skill.

        asks: a question that opens is expected. Raises Stop: "ok" at the skill's own cap, "budget",
        "episode_over", or "interrupted" with its cause.
        """
        if self._room <= 0:
            raise Stop("ok", "the skill's own limit")
        before = self.frame
        after = self.engine.step(name)
        self._room -= 1
        self.memory.update(after)
        self.trail.append(after.at)
        if cause := self._interrupt(before, after, asks):
            raise Stop("interrupted", cause)
        return after

    def _interrupt(self, before: Frame, after: Frame, asks: bool) -> str:
        """Why the skill has to give the decision back, or ""."""
        now, most = after.health
        if after.level != before.level:
            return "another level"
        if after.prompt and not asks:
            return "a question is open"
        if "You fall" in after.message:
            return "you fall"
        if self._health - now >= LOST_SHARE * most:
            return "a third of the hit points lost"
        if now < LOW_SHARE * most <= self._health:
            return "few hit points left"
        if not self._quiet:
            new = Counter(g for *_, g in after.hostiles) - Counter(g for *_, g in before.hostiles)
            if new:
                return "a creature appears"
        return ""

    def grid(self) -> astar.Grid:
        return astar.grid(self.frame, self.memory, self.frame.levitating)

    def way(self, goals: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
        """Plan to the nearest goal from here."""
        return astar.plan(self.grid(), self.frame.at, goals)

    def walk(self, goals: list[tuple[int, int]], until=lambda: "") -> str:
        """Walk to the nearest of `goals`, planning again where the way closes.

        until: asked after every step; a text ends the walk and is returned. Returns "there", or
        "no way".
        """
        way, tries = self.way(goals), 0
        while way:
            here, to = self.frame.at, way[0]
            self.move(to)
            if said := until():
                return said
            if self.frame.at == to:
                tries = 0
            elif self.frame.at == here:  # squeezed, unseen creature, closed: remember, go round
                tries += 1
                if tries > 1:
                    self.memory.vain.add((here, to))
            way = way[1:] if self.frame.at == to else self.way(goals)
            if way and not self.grid().free[way[0]]:
                way = self.way(goals)
        return "no way" if way is None else "there"

    def move(self, to: tuple[int, int]) -> Frame:
        """One step onto a square that touches the hero."""
        return self.step(direction(self.frame.at, to))


def check_menu(menu: dict, names: list[str]) -> None:
    """Raises BadParameter for a name that is not in the menu."""
    for name in names:
        if name not in menu:
            raise BadParameter(f"skill={name!r} is not known; accepted: {', '.join(sorted(menu))}.")
