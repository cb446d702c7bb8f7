"""The bytes that the small study reads, and their three parts.

WikiText-2 as the asset has it: its validation and test files, without the training file (too
large for the copy at hand). So "valid-as-train", and never "WikiText-2 train" (notes, section 12).
"""

from dataclasses import dataclass

import numpy as np

from repro import accept, assets
from repro.errors import BadParameter, MissingAsset

HEADING = b"\n = "  # a first-level heading; deeper ones have " = = "


@dataclass(frozen=True)
class Corpus:
    """Three parts [bytes, uint8]: train, select (curves and the precondition), test.

    `real`: whether it is public text. What is measured on made text supports no claim about text.
    `told`: one sentence on what each part is.
    """

    name: str
    real: bool
    train: np.ndarray
    select: np.ndarray
    test: np.ndarray
    told: str


def load(name: str = "auto") -> Corpus:
    """ "wikitext-2", "synthetic", or "auto": the former where it is at hand.

    Raises BadParameter for another name, MissingAsset when asked for text that is not here.
    """
    accept.one_of("text", name, ("auto", "wikitext-2", "synthetic"))
    if name != "synthetic":
        try:
            return _wikitext()
        except MissingAsset:
            if name != "auto":
                raise
    return _synthetic()


def _wikitext() -> Corpus:
    folder = assets.path("wikitext-2")
    valid, test = ((folder / f"{part}.txt").read_bytes() for part in ("valid", "test"))
    cut = split(valid, 0.8)
    told = (
        f"WikiText-2 bytes, tokenised version, valid-as-train: the first {cut:,} bytes of "
        f"valid.txt train, its other {len(valid) - cut:,} select, test.txt tests. The official "
        "training file is not used."
    )
    parts = (np.frombuffer(part, np.uint8) for part in (valid[:cut], valid[cut:], test))
    return Corpus("WikiText-2 valid-as-train", True, *parts, told)


def split(text: bytes, share: float) -> int:
    """Where to cut `text`: at the article heading next to `share` of it, so no article is in two.

    Raises BadParameter without a heading on either side.
    """
    wanted = int(share * len(text))
    places = [text.rfind(HEADING, 1, wanted), text.find(HEADING, wanted)]
    while places[1] >= 0 and text[places[1] + 4 : places[1] + 6] == b"= ":
        places[1] = text.find(HEADING, places[1] + 1)
    while places[0] > 0 and text[places[0] + 4 : places[0] + 6] == b"= ":
        places[0] = text.rfind(HEADING, 1, places[0])
    found = [place + 1 for place in places if place > 0]
    if not found:
        raise BadParameter("text holds no article heading; accepted: WikiText's format.")
    return min(found, key=lambda place: abs(place - wanted))


def _synthetic(size: int = 600_000, letters: int = 24) -> Corpus:
    """Words drawn from a made vocabulary of skewed frequency: learnable, and about nothing."""
    rng = np.random.default_rng(0)
    words = [
        bytes(rng.integers(97, 97 + letters, rng.integers(2, 9)).astype(np.uint8)) + b" "
        for _ in range(400)
    ]
    weight = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), size // 4, p=weight / weight.sum())
    text = np.frombuffer(b"".join(words[i] for i in drawn)[:size], np.uint8)
    train, select, test = np.split(text, [int(0.6 * size), int(0.75 * size)])
    told = (
        "**Gap: the WikiText-2 asset is not here, or was not asked for** (`repro fetch "
        "wikitext-2`). The text is synthetic: words of a made vocabulary. It shows that the study "
        "runs and says nothing about language."
    )
    return Corpus("synthetic text", False, train, select, test, told)


def windows(text: np.ndarray, count: int, size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` blocks of `size` predicted bytes, evenly spread: starts [count], windows
    [count, size / length, length + 1].

    Raises BadParameter when they do not fit, or `size` is no multiple of `length`.
    """
    accept.count("count", count)
    if size % length:
        raise BadParameter(f"size={size} is refused; accepted: a multiple of {length}.")
    room = len(text) - size - 1
    if room < 0 or count * size > len(text):
        raise BadParameter(f"count={count} is refused; accepted: at most {len(text) // size}.")
    starts = np.linspace(0, room, count).astype(int)
    inside = np.arange(0, size, length)[:, None] + np.arange(length + 1)
    return starts, text[starts[:, None, None] + inside]
