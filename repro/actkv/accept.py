"""Arguments that are checked the same way everywhere; the error names what would be accepted."""

import numpy as np


def count(name: str, value: int) -> int:
    return _integer(name, value, 1)


def natural(name: str, value: int) -> int:
    return _integer(name, value, 0)


def share(name: str, value: float, zero: bool = True) -> float:
    """A number in [0, 1], or in (0, 1] without `zero`."""
    if not (0 <= value <= 1) or (value == 0 and not zero):
        raise ValueError(f"{name}={value!r} is refused; accepted: {'[' if zero else '('}0, 1].")
    return value


def one_of(name: str, value: str, accepted: tuple[str, ...]) -> str:
    if value not in accepted:
        raise ValueError(f"{name}={value!r} is refused; accepted: {accepted}.")
    return value


def _integer(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}={value!r} is refused; accepted: an integer >= {least}.")
    return value
