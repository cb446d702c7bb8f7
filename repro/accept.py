"""Arguments that are checked the same way everywhere; the error names what would be accepted."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from repro.errors import BadParameter


def count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise BadParameter(f"{name}={value!r} is refused; accepted: an integer >= {least}.")
    return int(value)


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or value <= 0:
        raise BadParameter(f"{name}={value!r} is refused; accepted: a finite number above 0.")
    return float(value)


def between(name: str, value: Any, low: float, high: float, ends: bool = False) -> float:
    """A number in (low, high), or in [low, high] with `ends`."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    inside = real and (low <= value <= high if ends else low < value < high)
    if not inside:
        left, right = "[]" if ends else "()"
        raise BadParameter(f"{name}={value!r} is refused; accepted: {left}{low}, {high}{right}.")
    return float(value)


def one_of(name: str, value: Any, accepted: Sequence[str]) -> str:
    """One of the names `accepted`."""
    if value not in accepted:
        raise BadParameter(f"{name}={value!r} is refused; accepted: {', '.join(accepted)}.")
    return value


def numbers(name: str, text: str, least: int = 1) -> list[int]:
    """The integers of a list such as "32, 64", each at least `least`."""
    try:
        return [count(name, int(part), least) for part in text.split(",")]
    except ValueError as error:
        raise BadParameter(
            f"{name}={text!r} is refused; accepted: integers >= {least}, separated by commas."
        ) from error
