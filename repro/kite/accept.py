"""Arguments that are checked the same way everywhere; the error names what would be accepted."""

from repro.errors import BadParameter


def whole(name: str, value: int, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadParameter(f"{name}={value!r} is refused; accepted: an integer >= {least}.")
    return value


def within(name: str, value: float, low: float, high: float) -> float:
    """A number in [low, high]."""
    if not low <= value <= high:
        raise BadParameter(f"{name}={value!r} is refused; accepted: {low:g} to {high:g}.")
    return value


def one_of(name: str, value: str, accepted: tuple[str, ...]) -> str:
    if value not in accepted:
        raise BadParameter(f"{name}={value!r} is refused; accepted: {', '.join(accepted)}.")
    return value


def numbers(name: str, text: str, least: int = 1) -> list[int]:
    """The integers of a list such as "32, 64", each at least `least`."""
    try:
        found = [whole(name, int(part), least) for part in text.split(",")]
    except ValueError as error:
        raise BadParameter(
            f"{name}={text!r} is refused; accepted: integers >= {least}, separated by commas."
        ) from error
    return found
