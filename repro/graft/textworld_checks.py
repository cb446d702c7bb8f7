"""What must hold of games as tables and of the policy over words, on a toy that plays by hand.

The toy: a hall with a lamp and an attic; win by lighting the lamp in the attic. The real games are
held against their tables in the notebook and the tests.
"""

import numpy as np

from repro.graft import graph, study_textworld, textworld


class Toy:
    """Answers as a TextWorld environment does. fickle: taking the lamp fails every other time."""

    def __init__(self, fickle: bool = False):
        self._fickle, self._takes = fickle, 0

    def reset(self) -> dict:
        self.room, self.lamp, self.lit, self._told = "hall", False, False, 0
        return self._state()

    def step(self, command: str) -> tuple[dict, int, bool]:
        if command == "take lamp":
            self._takes += 1
            self.lamp = not (self._fickle and self._takes % 2)
        elif command == "light lamp":
            self.lit = True
        elif command.startswith("go"):
            self.room = {"go up": "attic", "go down": "hall"}[command]
        return self._state(), int(self.lit), self.lit

    def _state(self) -> dict:
        self._told += 1
        things = ["a chest", "a lamp"] if self.room == "hall" and not self.lamp else ["a chest"]
        things = things[:: 1 if self._told % 2 else -1]  # as the real games, in changing order
        commands = ["look", "examine chest", "go up" if self.room == "hall" else "go down"]
        commands += ["take lamp"] if len(things) == 2 else []
        commands += ["light lamp"] if self.room == "attic" and self.lamp else []
        return {
            "description": f"The {self.room}. Here: {' and '.join(things)}.",
            "inventory": "You carry a lamp." if self.lamp else "You carry nothing.",
            "admissible_commands": commands,
            "facts": [f"at {self.room}", f"lamp {self.lamp}", f"lit {self.lit}"],
            "won": self.lit,
            "lost": False,
        }


def _toy() -> study_textworld.Task:
    return study_textworld.task(textworld.explore(Toy(), "toy"), d=64)


def the_toy_is_explored() -> None:
    """Five states, six transitions, one of the states won and without commands."""
    game = textworld.explore(Toy())
    assert game.n == 5 and sum(map(len, game.after)) == 6, f"{game.n} states, {game.after}"
    assert game.won.sum() == 1 and game.commands[int(np.argmax(game.won))] == (), "the end"
    assert game.commands[0] == ("go up", "take lamp"), f"at the start: {game.commands[0]}"


def the_table_plays_as_the_game() -> None:
    """Sixty random walks of both show the same texts and commands."""
    compared, equal = textworld.agrees(Toy(), textworld.explore(Toy()), 60, 8)
    assert compared == equal, f"{equal} of {compared} states agree"


def a_fickle_game_is_seen() -> None:
    """A game that answers one command in two ways departs from its table."""
    compared, equal = textworld.agrees(Toy(fickle=True), textworld.explore(Toy()), 60, 8)
    assert equal < compared, f"all of {compared} states agree"


def text_is_canonical() -> None:
    """Order, case and repeats of words do not matter; what is carried does."""
    found = textworld.words("A lamp, a Chest"), textworld.words("chest! A lamp? a")
    assert found == ("a chest lamp", "a chest lamp"), f"{found}"
    state = Toy().reset()
    other = {**state, "inventory": "You carry a lamp."}
    assert textworld.text(state) != textworld.text(other), "what is carried is not seen"


def nodes_by_hand() -> None:
    """Over the five states: five texts, three rooms as seen (the end looks like the attic)."""
    toy = _toy()
    for kind, expected in (("text", 5), ("room", 3), ("state", 5)):
        found = len(set(toy.nodes(kind)(range(5)).tolist()))
        assert found == expected, f"{kind}: {found} nodes"


def success_by_hand() -> None:
    """Even odds, three commands: take the lamp, go up (no choice), light it: 1/2 x 1 x 1/2."""
    found = [study_textworld.success(_toy(), np.zeros(64), h) for h in (2, 3)]
    assert np.allclose(found, [0.0, 0.25], atol=1e-12), f"success {found}"


def success_equals_rollouts() -> None:
    """The exact success lies within four standard errors of 3,000 walks."""
    rng, toy = np.random.default_rng(1), _toy()
    weights = rng.normal(size=64)
    exact = study_textworld.success(toy, weights, 6)
    group, _ = study_textworld.rollouts(toy, weights, 3_000, 6, rng)
    mean = np.mean([t.outcome for t in group])
    assert abs(mean - exact) < 4 * np.sqrt(exact * (1 - exact) / 3_000), f"{mean} is not {exact}"


def gradient_is_that_of_the_score() -> None:
    """The update equals the numerical gradient of mean credit times log probability."""
    rng, toy = np.random.default_rng(0), _toy()
    weights = rng.normal(size=64)
    group, taken = study_textworld.rollouts(toy, weights, 8, 6, rng)
    assert len({t.outcome for t in group}) == 2, "the group ends alike"
    found = study_textworld.gradient(toy, weights, group, taken, "GRAFT", "text", rng)
    signal = study_textworld.ARMS["GRAFT"](graph.build(group, phi=toy.nodes("text")))

    def objective(at):
        return np.mean(signal * np.log(study_textworld.policy(toy, at)[taken]))

    for place in np.argsort(-np.abs(found))[:3]:
        step = 1e-5 * (np.arange(64) == place)
        slope = (objective(weights + step) - objective(weights - step)) / 2e-5
        assert abs(slope - found[place]) < 1e-6, f"{slope} != {found[place]}"


def far_hops_add_nothing() -> None:
    """With raw instances Graph GAE is the one-step credit, here as everywhere."""
    found = study_textworld.shape(_toy(), np.zeros(64), 8, 6, "text", 5, 0)
    assert found["gap"] < 1e-6, f"gap {found['gap']}"


def arms_learn_and_the_placebo_less() -> None:
    """From below one half, outcome and graph credit reach 0.9; shuffled credit stays behind."""
    ends = {}
    for arm in ("outcome (GRPO)", "GRAFT", "shuffled"):
        curves = [study_textworld.learn([_toy()], arm, s, 10.0, 15, 8, 4) for s in range(4)]
        assert curves[0][0] < 0.5, f"even odds succeed in {curves[0][0]}"
        ends[arm] = np.mean([c[-1] for c in curves])
    assert min(ends["outcome (GRPO)"], ends["GRAFT"]) > 0.9, f"{ends}"
    assert ends["shuffled"] < 0.75, f"{ends}"


def rate_zero_changes_nothing() -> None:
    """With rate 0 the success stays where it was."""
    curve = study_textworld.learn([_toy()], "GRAFT", 0, 0.0, updates=3)
    assert np.ptp(curve) == 0, f"moved by {np.ptp(curve)}"


CHECKS = {
    check.__name__: check
    for check in (
        the_toy_is_explored, the_table_plays_as_the_game, a_fickle_game_is_seen,
        text_is_canonical, nodes_by_hand, success_by_hand, success_equals_rollouts,
        gradient_is_that_of_the_score, far_hops_add_nothing, arms_learn_and_the_placebo_less,
        rate_zero_changes_nothing,
    )
}  # fmt: skip
