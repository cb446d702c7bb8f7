"""Deliberate faults in rooms and choices."""

from repro.faults import Fault

FAULTS = {
    "seed_not_applied": Fault(
        "the level's seed is accepted and not applied, as in reset(seed=…) of the engine",
        "repro.minihack:Room._seed",
        lambda original: lambda self, seed: None,
    ),
    "moves_turned": Fault(
        "every name stands for the move of its neighbour",
        "repro.minihack:Room.step",
        lambda original: (
            lambda self, name: original(
                self, self.actions[(self.actions.index(name) + 1) % len(self.actions)]
            )
        ),
    ),
    "temperature_upside_down": Fault(
        "log-probabilities are multiplied by the temperature",
        "repro.actkv.study_turns:choose",
        lambda original: lambda logp, lot, temperature: original(logp, lot, 1 / temperature),
    ),
    "last_column": Fault(
        "the last column of a padded batch is taken for the last token",
        "repro.actkv.study_turns:_last",
        lambda original: lambda hidden, lengths: hidden[:, -1],
    ),
}
