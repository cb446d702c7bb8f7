"""Deliberate faults in the skill library: mistakes that were really made, or could be."""

from repro.faults import Fault

_HOME = "repro.code_skills."


def _view(original):
    """Like `frame`, but without the copies."""
    from repro.code_skills.state import Frame

    def frame(observation, asks):
        made = original(observation, asks)
        return Frame(
            observation["glyphs"], observation["chars"], observation["blstats"],
            made.message_bytes, made.carried, made.asks,
        )  # fmt: skip

    return frame


def _forgets(original):
    def update(self, frame):
        original(self, frame)
        from repro.code_skills import glyphs

        self.terrain[glyphs.creatures()[frame.glyphs]] = glyphs.FLOOR

    return update


def _no_dark_floor(original):
    def terrain():
        from nle import nethack

        table = original().copy()
        table[nethack.GLYPH_CMAP_OFF + 20] = 0
        return table

    return terrain


FAULTS = {
    "seed_not_applied": Fault(
        "the seed is accepted and not applied, as by reset(seed=…) of the engine",
        _HOME + "engine:Engine._seed",
        lambda original: lambda self, seed: None,
    ),
    "not_copied": Fault(
        "a frame keeps the engine's own memory instead of a copy", _HOME + "state:frame", _view
    ),
    "budget_not_enforced": Fault(
        "the step budget is looked at between decisions only",
        _HOME + "engine:Engine._spent",
        lambda original: lambda self: False,
    ),
    "diagonal_doors": Fault(
        "doors are entered diagonally",
        _HOME + "astar:_diagonal",
        lambda original: lambda grid, at, to: True,
    ),
    "traps_for_free": Fault(
        "a known trap costs nothing", _HOME + "astar:TRAP_COST", lambda original: 0
    ),
    "eager_heuristic": Fault(
        "the distance to the goal is overrated, and ways are no longer the shortest",
        _HOME + "astar:_distance",
        lambda original: lambda goals: 4 * original(goals),
    ),
    "question_ignored": Fault(
        "skills run while the game waits for an answer",
        _HOME + "bot:Bot._admit",
        lambda original: lambda self, skill: None,
    ),
    "never_interrupted": Fault(
        "nothing interrupts a skill",
        _HOME + "bot:Bot._interrupt",
        lambda original: lambda self, before, after, asks: "",
    ),
    "floor_forgotten": Fault(
        "what lies under a creature is taken for floor",
        _HOME + "memory:LevelMemory.update",
        _forgets,
    ),
    "dark_is_rock": Fault(
        "floor that is remembered in the dark counts as unknown",
        _HOME + "glyphs:terrain",
        _no_dark_floor,
    ),
}
