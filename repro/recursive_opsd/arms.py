"""What is compared: every arm is a setting of one update function, never code of its own."""

from dataclasses import dataclass

from repro import accept
from repro.errors import BadParameter


@dataclass(frozen=True)
class Arm:
    """guidance, supervised: weights of the DCE loss and of likelihood on the gold solution.

    concise: no SRCL (0), a share of the summed gradient norms (below 1), or SRCL alone (1).
    placement, schedule, kind: as in `prompts`, `refresh` and `losses`. shuffled: every problem is
    given another one's solution, the placebo. rate: factor on the learning rate.
    """

    guidance: float = 1.0
    concise: float = 0.0
    supervised: float = 0.0
    placement: str = "assistant"
    schedule: str = "live"
    kind: str = "forward"
    shuffled: bool = False
    rate: float = 1.0


@dataclass(frozen=True)
class Settings:
    """What all arms of a comparison share.

    batch: problems a step; micro: of them in one pass; most: tokens of an answer or rewrite;
    temperature, top_p, top_k: of the sampling (OPSD's values; DCE's are unknown); cap: on the
    gradient norm (OPSD's); decay, every: of the slow teachers; least: shortest rewrite (paper 32).
    """

    rate: float = 1e-4
    batch: int = 8
    micro: int = 4
    most: int = 32
    temperature: float = 1.1
    top_p: float = 0.95
    top_k: int = 20
    loss_temperature: float = 1.0
    cap: float = 0.1
    decay: float = 0.7
    every: int = 10
    least: int = 32
    seed: int = 42

    def __post_init__(self) -> None:
        for name in ("batch", "micro", "most", "every"):
            accept.count(name, getattr(self, name))
        for name in ("rate", "temperature", "loss_temperature", "cap"):
            accept.positive(name, getattr(self, name))


ARMS = {
    "dce": Arm(),
    "dce_srcl": Arm(concise=0.1),
    "frozen": Arm(schedule="frozen"),
    "opsd": Arm(schedule="frozen", placement="instruction_last"),
    "reverse": Arm(kind="reverse"),
    "srcl": Arm(guidance=0.0, concise=1.0),
    "sft": Arm(guidance=0.0, supervised=1.0),
    "placebo": Arm(shuffled=True),
    "zero_rate": Arm(rate=0.0),
    "ema": Arm(schedule="ema"),
    "periodic": Arm(schedule="periodic"),
}
UNTRAINED = "untrained"  # the start itself: evaluated, never updated


def arm(name: str) -> Arm:
    """The arm `name`; raises BadParameter for another."""
    if name not in ARMS:
        raise BadParameter(f"arm={name!r} is refused; accepted: {', '.join(ARMS)}.")
    return ARMS[name]
