"""TextWorld games as tables: every reachable state with its text, found by playing the real game.

Source: arXiv 2609.28963 groups equal state strings; the games come from TextWorld (arXiv
1806.11532), made offline from a seed. A made game is small and answers alike each time, so one
tour takes every command in every state once. After it, rollouts and exact success cost nothing
more, as on the grid.
"""

import re
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.accept import count
from repro.errors import MissingAsset, ReproError

IDLE = ("look", "inventory", "examine")  # they tell what every state's text holds anyway


@dataclass(frozen=True, eq=False)
class Game:
    """n states. State 0 is the start.

    text: [n], canonical: words of room, inventory and commands. room: [n], the room's words only.
    commands: [n] tuples, empty where the game is over. after: [n] tuples, the state each command
    leads to. won: [n] bool.
    """

    name: str
    text: tuple[str, ...]
    room: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    after: tuple[tuple[int, ...], ...]
    won: np.ndarray

    @property
    def n(self) -> int:
        return len(self.text)


def make(folder: Path | str, seed: int, rooms: int = 3, objects: int = 4, quest: int = 4) -> Path:
    """Generate and compile one game, offline. quest: commands of the shortest solution.

    Raises MissingAsset without the package, BadParameter for sizes below 1.
    """
    for name, value in (("rooms", rooms), ("objects", objects), ("quest", quest)):
        count(name, value)
    textworld = _package()
    options = textworld.GameOptions()
    options.seeds = count("seed", seed, 0)
    options.nb_rooms, options.nb_objects, options.quest_length = rooms, objects, quest
    options.path = str(Path(folder) / f"game-{seed}-{rooms}-{objects}-{quest}.z8")
    options.force_recompile = True
    made = textworld.generator.make_game(options)
    return Path(textworld.generator.compile_game(made, options))


def play(path: Path) -> Any:
    """The game at `path`, with reset() and step(command) -> (state, score, done)."""
    textworld = _package()
    wanted = ("description", "inventory", "admissible_commands", "facts", "won", "lost")
    with warnings.catch_warnings():
        # The interpreter does not know the game; what it cannot tell then is not asked for.
        warnings.filterwarnings("ignore", message=".*not fully supported.*")
        return textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(wanted, True)))


def _package() -> Any:
    try:
        import textworld
        import textworld.generator
    except ImportError as error:
        raise MissingAsset(
            "TextWorld games need the package textworld (MIT; its interpreter jericho is "
            "GPL-2.0-or-later): pip install -c constraints.txt textworld."
        ) from error
    return textworld


def words(text: str) -> str:
    """Sorted distinct words: the order in which a room lists its things depends on the past."""
    return " ".join(sorted(set(re.findall(r"[a-z0-9]+", text.lower()))))


def offered(state: Mapping) -> tuple[str, ...]:
    """The admissible commands that can change something, sorted; none where the game is over."""
    if state["won"] or state["lost"]:
        return ()
    return tuple(sorted(c for c in state["admissible_commands"] if c.split()[0] not in IDLE))


def key(state: Mapping) -> tuple:
    """What the game itself holds true; two states with one key go on alike."""
    facts = tuple(sorted(map(str, state["facts"])))
    return facts, bool(state["won"]), bool(state["lost"])


def text(state: Mapping) -> tuple[str, str]:
    """Canonical text with inventory and commands, and that of the room alone."""
    room = words(state["description"] or "")
    carried, commands = words(state["inventory"] or ""), " / ".join(offered(state))
    return f"{room} | {carried} | {commands}", room


def explore(env: Any, name: str = "game", most: int = 5_000) -> Game:
    """Play until every command of every reachable state was taken once.

    Raises ReproError when a state shows two texts or answers a command in two ways on the tour
    (`agrees` looks further), or after `most` rounds.
    """
    known: dict[tuple, int] = {}
    texts, commands, after, won = [], [], [], []

    def number(state: Mapping) -> int:
        node = known.setdefault(key(state), len(texts))
        if node == len(texts):
            texts.append(text(state))
            commands.append(offered(state))
            after.append([-1] * len(commands[-1]))
            won.append(bool(state["won"]))
        elif texts[node] != text(state):
            raise ReproError(f"{name}: one state shows two texts: {texts[node]}, {text(state)}.")
        return node

    at = number(env.reset())
    for _ in range(most):
        way = _to_something_new(at, after)
        if way is None and at:
            at = number(env.reset())
            way = _to_something_new(at, after)
        if way is None:
            room = tuple(room for _, room in texts)
            full = tuple(whole for whole, _ in texts)
            return Game(name, full, room, tuple(commands), tuple(map(tuple, after)), np.array(won))
        for index in way:
            before = at
            at = number(env.step(commands[before][index])[0])
            if after[before][index] not in (-1, at):
                raise ReproError(
                    f"{name}: {commands[before][index]!r} leads from one state to two; accepted: "
                    "a game that answers alike each time."
                )
            after[before][index] = at
    raise ReproError(f"{name}: not explored after {most} commands; accepted: a smaller game.")


def agrees(env: Any, game: Game, walks: int, length: int, seed: int = 0) -> tuple[int, int]:
    """Random walks in the real game against the table: states compared, and how many agree."""
    rng, compared, equal = np.random.default_rng(seed), 0, 0
    for _ in range(walks):
        state, at = env.reset(), 0
        for step in range(length + 1):
            shown = (*text(state), bool(state["won"]), offered(state))
            held = (game.text[at], game.room[at], bool(game.won[at]), game.commands[at])
            compared, equal = compared + 1, equal + (shown == held)
            if shown != held or not held[3] or step == length:
                break
            index = int(rng.integers(len(held[3])))
            state, at = env.step(held[3][index])[0], game.after[at][index]
    return compared, equal


def _to_something_new(at: int, after: list[list[int]]) -> list[int] | None:
    """Shortest list of command numbers that ends with one never taken; None where none is left."""
    waiting, seen = deque([(at, [])]), {at}
    while waiting:
        node, way = waiting.popleft()
        for index, reached in enumerate(after[node]):
            if reached < 0:
                return [*way, index]
            if reached not in seen:
                seen.add(reached)
                waiting.append((reached, [*way, index]))
    return None
