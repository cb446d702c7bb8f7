"""Deliberate faults in the choice by likelihood."""

import numpy as np

from repro.faults import Fault

_HOME = "repro.code_skills.lm:"


def _look_everywhere(original):
    def layout(known, shown, answers):
        where, sees = original(known, shown, answers)
        total = sees.shape[-2]
        sees[0, 0, :, known:] = sees.new_ones(total, total).tril()
        return where, sees

    return layout


def _run_on(original):
    def layout(known, shown, answers):
        where, sees = original(known, shown, answers)
        where[0] = where[0, 0] + where.new_tensor(range(where.shape[1]))
        return where, sees

    return layout


def _first_token(original):
    def answers(model, hidden, answers, shown):
        starts = np.cumsum([0, *map(len, answers)])
        return np.array(
            [
                original(model, hidden, [a[:1]], shown)[0] + 0 * start
                for a, start in zip(answers, starts, strict=False)
            ]
        )

    return answers


FAULTS = {
    "answers_see_each_other": Fault(
        "an entry is scored after the entries that stand before it in the menu",
        _HOME + "layout",
        _look_everywhere,
    ),
    "positions_run_on": Fault(
        "the entries stand one behind the other instead of at the same place",
        _HOME + "layout",
        _run_on,
    ),
    "first_token_only": Fault(
        "only the first token of a name is scored", _HOME + "_answers", _first_token
    ),
    "names_not_calibrated": Fault(
        "names that the model likes anyway win",
        _HOME + "score",
        lambda original: (
            lambda logp, lengths, without, rule: original(
                logp, lengths, without, "sum" if rule == "calibrated" else rule
            )
        ),
    ),
    "luck_by_place": Fault(
        "the noise belongs to the place in the menu, so menus are not paired",
        _HOME + "noise",
        lambda original: (
            lambda seed, turn, names: original(seed, turn, [str(i) for i in range(len(names))])
        ),
    ),
    "same_luck_every_turn": Fault(
        "the noise does not depend on the turn",
        _HOME + "noise",
        lambda original: lambda seed, turn, names: original(seed, 0, names),
    ),
    "temperature_upside_down": Fault(
        "scores are multiplied by the temperature",
        _HOME + "choose",
        lambda original: (
            lambda scores, lot, temperature: original(
                scores, lot, 1 / temperature if temperature else 0
            )
        ),
    ),
}
