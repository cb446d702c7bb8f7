"""Deliberate faults in the comparison: budgets, pairing, menus, sums."""

from repro.faults import Fault

_HOME = "repro.code_skills."


def _first_half(original):
    def choose(self, bot):
        names = list(bot.menu)
        return names[self._rng.integers(max(1, len(names) // 2))]

    return choose


def _mode_seeds(original):
    def seed(self, seed):
        from repro.code_skills.engine import Seed

        more = seed.core + len(self.frame.message if self.frame else "")
        original(self, Seed(more, more, seed.lgen))

    return seed


def _wald(successes, n):
    share = successes / n
    half = 1.96 * (share * (1 - share) / n) ** 0.5
    return share - half, share + half


FAULTS = {
    "free_decisions": Fault(
        "a decision that makes no step is not counted",
        _HOME + "episode:_decided",
        lambda original: (
            lambda spec, actions: (
                sum(a["steps"] > 0 for a in actions) >= spec.max_decisions or len(actions) > 30
            )
        ),
    ),
    "steps_of_last_call": Fault(
        "the steps of all calls are not summed up, so the step budget never binds",
        _HOME + "engine:Engine._spent",
        lambda original: lambda self: False,
    ),
    "lot_prefers_skills": Fault(
        "the random controller draws from the first half of a menu",
        _HOME + "controllers:Random.choose",
        _first_half,
    ),
    "other_level_each_time": Fault(
        "the level depends on what was played before, so modes are not paired",
        _HOME + "engine:Engine._seed",
        _mode_seeds,
    ),
    "removal_ignored": Fault(
        "skills that should be left out stay in the menu",
        _HOME + "menus:menu",
        lambda original: lambda mode, skills="core", without=(): original(mode, skills),
    ),
    "cut_one_late": Fault(
        "an episode cut after d decisions is credited with the next one too",
        _HOME + "episode:within",
        lambda original: lambda episode, decisions: original(episode, decisions + 1),
    ),
    "wald_interval": Fault(
        "the interval of a share has no width at 0 and 1",
        _HOME + "summary:wilson",
        lambda original: _wald,
    ),
    "keys_as_skills": Fault(
        "a key that is named like a skill counts as one, and the other way round",
        _HOME + "summary:is_skill",
        lambda original: lambda mode, name: not original(mode, name),
    ),
}
