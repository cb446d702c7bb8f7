"""Deliberate faults in text games as tables, and in learning them."""

from repro.faults import Fault

FAULTS = {
    "order_kept": Fault(
        "a text is compared as it is written, so that one state becomes several",
        "repro.graft.textworld:words",
        lambda original: lambda text: text.lower(),
    ),
    "end_goes_on": Fault(
        "a finished game still offers commands",
        "repro.graft.textworld:offered",
        lambda original: lambda state: original({**state, "won": False, "lost": False}),
    ),
    "inventory_unseen": Fault(
        "what is carried is left out of the text",
        "repro.graft.textworld:text",
        lambda original: lambda state: original({**state, "inventory": ""}),
    ),
    "room_for_text": Fault(
        "states are merged when only the room looks alike",
        "repro.graft.study_textworld:Task.nodes",
        lambda original: lambda self, kind: original(self, "room" if kind == "text" else kind),
    ),
    "one_command_more": Fault(
        "the exact success allows one command too many",
        "repro.graft.study_textworld:success",
        lambda original: lambda given, weights, horizon: original(given, weights, horizon + 1),
    ),
    "descends": Fault(
        "the update goes against the credit",
        "repro.graft.study_textworld:gradient",
        lambda original: lambda *given: -original(*given),
    ),
    "frozen": Fault(
        "no update arrives at the weights",
        "repro.graft.study_textworld:gradient",
        lambda original: lambda *given: 0 * original(*given),
    ),
    "shuffle_forgotten": Fault(
        "the placebo learns from the true credit",
        "repro.graft.study_textworld:gradient",
        lambda original: (
            lambda given, weights, group, taken, arm, *rest: original(
                given, weights, group, taken, "GRAFT" if arm == "shuffled" else arm, *rest
            )
        ),
    ),
}
