"""The estimated inference cost, and the decode share up to which the two towers are cheaper.

The abstract's percentages against 1.48B and 2.02B active parameters are the same number, so the
estimate is proportional to active body parameters, with no other term or one that cancels: a
prompt token pays P, a generated token P + D
(derived in the project's notes, section 6; P, D and the share themselves are not public).
"""

from repro import accept
from repro.errors import BadParameter

# Billions of active parameters, and by how much SST is said to be cheaper (abstract).
ACTIVE = 2.15
PAPER = {"A1.48B": (1.48, 0.067), "A2.02B": (2.02, 0.316)}


def proxy(prefiller: float, decoder: float, share: float) -> float:
    """Cost of a token of the mix: P + share D, with `share` of the (weighted) tokens generated."""
    _positive(prefiller=prefiller, decoder=decoder)
    return prefiller + accept.between("share", share, 0, 1, ends=True) * decoder


def break_even(active: float, prefiller: float, decoder: float) -> float:
    """beta* = (A - P) / D: below this decode share the towers are cheaper than A.

    Below 0: never cheaper; above 1: always.
    """
    _positive(active=active, prefiller=prefiller, decoder=decoder)
    return (active - prefiller) / decoder


def implied_share(cost: float, prefiller: float, decoder: float) -> float:
    """The decode share that an announced `cost` presumes."""
    _positive(cost=cost, prefiller=prefiller, decoder=decoder)
    return (cost - prefiller) / decoder


def decode_share(prompt: int, generated: int, weight: float = 1.0) -> float:
    """wG / (S + wG): share of S prompt and G generated tokens; w: price of one in prompt tokens."""
    if min(prompt, generated) < 0 or prompt + generated < 1 or weight <= 0:
        raise BadParameter(
            f"prompt={prompt}, generated={generated}, weight={weight} is refused; accepted: >= 0, "
            "not both 0, weight > 0."
        )
    return weight * generated / (prompt + weight * generated)


def told(active: float, prefiller: float, decoder: float, share: float) -> str:
    """ "x % cheaper" with the break-even share beside it, never without."""
    saved = 1 - proxy(prefiller, decoder, share) / active
    edge = break_even(active, prefiller, decoder)
    word = "cheaper" if saved >= 0 else "dearer"
    if edge <= 0:
        limit = "never cheaper (β* <= 0)"
    elif edge >= 1:
        limit = "cheaper at every decode share (β* >= 1)"
    else:
        limit = f"cheaper only below β* = {edge:.3f}"
    return f"{abs(saved):.1%} {word} at a decode share of {share:.3f}; {limit}"


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise BadParameter(f"{name}={value!r} is refused; accepted: more than 0.")
