"""Deliberate faults in drafts and greedy calls."""

import numpy as np

from repro.faults import Fault

FAULTS = {
    "draft_stays": Fault(
        "what the model would say stays in the cache",
        "repro.actkv.draft:_restore",
        lambda original: lambda cache, state: None,
    ),
    "draft_watched": Fault(
        "policies take the queries of drafted tokens for the agent's",
        "repro.actkv.study_greedy:_blind",
        lambda original: list,
    ),
    "last_difference": Fault(
        "the last token that differs counts, not the first",
        "repro.actkv.study_greedy:_parts",
        lambda original: (
            lambda choices, tokens: np.where(
                (choices != tokens).any(1),
                tokens.size - 1 - (choices != tokens)[:, ::-1].argmax(1),
                tokens.size,
            )
        ),
    ),
    "one_step_late": Fault(
        "a choice is held against the token before the one that it predicts",
        "repro.actkv.study_greedy:_parts",
        lambda original: lambda choices, tokens: original(np.roll(choices, 1, axis=1), tokens),
    ),
}
