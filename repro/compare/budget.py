"""The second budget of a comparison: arms that really used the same, not arms under the same caps.

Equal updates let one arm generate, score or read more than another. For the second table the
cheaper arm gets more updates (the caps then name tokens, not updates), and the set must pass here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from repro.compare.refused import Refused
from repro.compare.report import UNEQUAL, USE
from repro.errors import BadParameter, ReproError

RULE = "equal_use"
EXEMPT = ("untouched", "zero_learning_rate")  # they show the start, whatever they use


class UnequalUse(Refused):
    """One arm used more than another of what was to be equal."""

    def __init__(self, found: str):
        self.rule = RULE
        ReproError.__init__(
            self, f"Refused by the rule {RULE} (arms really used the same): {found}."
        )


def check_equal(
    manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], quantity: str
) -> None:
    """Refuse runs in which, in one seed, an arm used over 1.1 times the `quantity` of another.

    quantity: one of ``used``, such as generated_tokens.
    Raises UnequalUse and BadParameter.
    """
    if quantity not in USE:
        raise BadParameter(f"quantity={quantity!r}; accepted: {', '.join(USE)}.")
    for seed in manifest["seeds"]:
        used = {
            run["arm"]: run["used"][quantity]
            for run in runs
            if run["seed"] == seed and manifest["arms"][run["arm"]] not in EXEMPT
        }
        least, most = min(used, key=used.__getitem__), max(used, key=used.__getitem__)
        if used[most] > UNEQUAL * used[least]:
            says = f"{most} used {used[most]:g}, {least} {used[least]:g}"
            raise UnequalUse(f"{quantity} in seed {seed}: {says}")
