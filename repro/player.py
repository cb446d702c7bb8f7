"""A picture in steps that answers to mouse and keyboard: its data, its HTML, and a still of it.

A player has one or more tracks (say, one a policy) of frames. A frame is a caption and a body:
`Cells`, signs or tokens that are each marked by kind, or a `Drawing` of boxes, lines and words.
The page gets plain JSON, which book/_static/player.js shows as text and never reads as HTML. The
still is what shows without JavaScript and in print.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from repro.errors import BadParameter

LIMIT = 1_000_000  # bytes of one picture
KINDS = {
    "p": "plain", "f": "fixed", "k": "kept", "g": "gone", "n": "new",
    "h": "hero", "t": "trail", "+": "plus", "-": "minus", "c": "closed",
}  # fmt: skip
_LETTER = {name: letter for letter, name in KINDS.items()}
# Characters that XML cannot hold; a model's vocabulary and a game's map may contain them.
_ODD = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Cells:
    """Texts one after another; "\\n" in a text starts a line.

    kinds: a key of `KINDS` for each cell that is shown, so at most one for each text. values: a
    number or None for each of them, or empty. wrap: whether long lines may be broken.
    """

    texts: tuple[str, ...]
    kinds: str
    values: tuple[float | None, ...] = ()
    wrap: bool = True

    def __post_init__(self):
        if not set(self.kinds) <= set(KINDS) or len(self.kinds) > len(self.texts):
            raise BadParameter(
                f"kinds={self.kinds[:40]!r} is refused; accepted: at most {len(self.texts)} of "
                f"{''.join(KINDS)!r}."
            )
        if self.values and len(self.values) != len(self.kinds):
            raise BadParameter(
                f"values has {len(self.values)} entries; accepted: none, or {len(self.kinds)}."
            )


@dataclass(frozen=True)
class Shape:
    """One mark: its SVG tag and attributes; made by `box`, `words` and `arrow`.

    kind: a name of `KINDS`. note: what is said when the mark is pointed at.
    """

    tag: str
    kind: str
    at: dict[str, Any]
    text: str = ""
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """Shapes on a ground of `width` by `height`; `said` describes it in words."""

    width: int
    height: int
    shapes: tuple[Shape, ...]
    said: str


@dataclass(frozen=True)
class Frame:
    """One step: `caption` is read aloud when the step is shown."""

    caption: str
    body: Cells | Drawing


@dataclass(frozen=True)
class Player:
    """tracks: name -> frames. alt: the still in words. about: where the picture comes from.

    step, choice, value: what a frame, a track and a cell's number are called. notes: words for
    each cell, the same in all frames. legend: kind -> word. still: (track, frame) of the still.

    Raises BadParameter for no frames, an alternative text of fewer than five words, an unknown
    kind, or more than `LIMIT` bytes.
    """

    title: str
    alt: str
    about: str
    tracks: Mapping[str, Sequence[Frame]]
    step: str = "step"
    choice: str = "choice"
    value: str = ""
    notes: tuple[str, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    still: tuple[str, int] | None = None

    def __post_init__(self):
        if not self.tracks or not all(self.tracks.values()):
            raise BadParameter("tracks is empty; accepted: a track or more, each with a frame.")
        if len(self.alt.split()) < 5:
            raise BadParameter(f"alt={self.alt!r} is too short; accepted: a sentence.")
        for kind in self.legend:
            _letter(kind)
        if (size := len(payload(self))) > LIMIT:
            raise BadParameter(f"the picture has {size} bytes; accepted: up to {LIMIT}.")


def box(x: float, y: float, w: float, h: float, kind: str = "plain", note: str = "") -> Shape:
    return Shape("rect", kind, {"x": x, "y": y, "width": w, "height": h, "rx": 4}, note=note)


def words(x: float, y: float, text: str, kind: str = "plain", anchor: str = "middle") -> Shape:
    """`text` with its base line at `y`; anchor: "start", "middle" or "end" lies at `x`."""
    return Shape("text", kind, {"x": x, "y": y, "text-anchor": anchor}, text)


def arrow(
    start: tuple[float, float], end: tuple[float, float], kind: str, note: str = ""
) -> list[Shape]:
    """A straight line from `start` to `end` with a head of 10 units."""
    (a, b), (c, d) = start, end
    long = max(1e-9, ((c - a) ** 2 + (d - b) ** 2) ** 0.5)
    u, v = 10 * (a - c) / long, 10 * (b - d) / long
    head = ((c, d), (c + u - v / 2, d + v + u / 2), (c + u + v / 2, d + v - u / 2))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in head)
    return [
        Shape("path", kind, {"d": f"M{a:.1f} {b:.1f}L{c + u:.1f} {d + v:.1f}"}, note=note),
        Shape("polygon", kind, {"points": points}, note=note),
    ]


def payload(shown: Player) -> str:
    """`shown` as JSON without a sign that HTML could act on."""
    texts: dict[tuple[str, ...], int] = {}

    def frame(one: Frame) -> dict[str, Any]:
        if isinstance(one.body, Drawing):
            shapes = [
                [s.tag, _letter(s.kind), _numbers(s.at), _clean(s.text), _clean(s.note)]
                for s in one.body.shapes
            ]
            body = {"size": [one.body.width, one.body.height], "shapes": shapes}
            return {"caption": _clean(one.caption), "said": _clean(one.body.said)} | body
        at = texts.setdefault(one.body.texts, len(texts))
        body = {"texts": at, "kinds": one.body.kinds, "wrap": one.body.wrap}
        if one.body.values:
            body["values"] = [v if v is None else float(f"{v:.3g}") for v in one.body.values]
        return {"caption": _clean(one.caption)} | body

    tracks = [[_clean(name), [frame(f) for f in frames]] for name, frames in shown.tracks.items()]
    value = {
        "title": _clean(shown.title), "step": shown.step, "choice": shown.choice,
        "value": shown.value, "notes": [_clean(n) for n in shown.notes],
        "legend": [[_letter(k), _clean(v)] for k, v in shown.legend.items()],
        "kinds": KINDS, "tracks": tracks, "texts": [[_clean(t) for t in row] for row in texts],
    }  # fmt: skip
    plain = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def html(data: str) -> str:
    """The element that player.js looks for; `data` is a `payload`."""
    if re.search("[<>&]", data):
        raise BadParameter("data holds <, > or &; accepted: what `payload` gives.")
    return f'<script type="application/json" class="eb-player-data">{data}</script>'


# The still: the light colours of book/_static/player.css.
_LOOK = """
text{font:13px sans-serif;fill:#1b1b1b}text.mono{font:12px monospace}
rect,path{fill:none;stroke:#5b5b5b}path{stroke-width:2}polygon{fill:#5b5b5b}rect.ground{fill:#fff}
rect.run,rect.ground{stroke:none}rect.kept{fill:#cdeadf}rect.fixed{fill:#e6e6e6}
rect.hero{fill:#1b1b1b}rect.trail{fill:#cfe6f7}rect.closed{fill:#efefef;stroke-dasharray:2 3}
rect.plus{fill:#cfe6f7;stroke:#00507d}path.plus,rect.new,path.new{stroke:#00507d}
rect.new{fill:#fff;stroke-width:2}polygon.plus,polygon.new{fill:#00507d}
rect.minus{fill:#fbe3cf}rect.minus,path.minus{stroke:#9a3b00;stroke-dasharray:5 3}
polygon.minus{fill:#9a3b00}text.gone{fill:#5b5b5b;text-decoration:line-through}
text.kept,text.hero{font-weight:bold}text.hero{fill:#fff}
"""
_WIDE, _HIGH, _ACROSS = 7.25, 18, 92  # of a sign; signs in a line


def still(shown: Player) -> str:
    """One frame as SVG: the one that `shown.still` names, else the last of the first track."""
    name, at = shown.still or (next(iter(shown.tracks)), -1)
    body = shown.tracks[name][at].body
    return _drawn(body) if isinstance(body, Drawing) else _set(body)


def _drawn(body: Drawing) -> str:
    marks = []
    for shape in body.shapes:
        held = "".join(f" {k}={quoteattr(str(v))}" for k, v in _numbers(shape.at).items())
        inside = escape(_clean(shape.text))
        marks.append(f'<{shape.tag} class="{shape.kind}"{held}>{inside}</{shape.tag}>')
    return _svg(body.width, body.height, marks)


def _set(body: Cells) -> str:
    """Cells as lines of monospaced text, long lines broken where they may be."""
    marks, row, column, widest = [], 0, 0, 1
    for text, kind in zip(body.texts, body.kinds, strict=False):
        for part in re.split("(\n)", _clean(text)):
            while part:
                room = _ACROSS - column if body.wrap else len(part)
                if part == "\n" or room <= 0:
                    row, column = row + 1, 0
                    part = "" if part == "\n" else part
                    continue
                marks.append(_run(part[:room], KINDS[kind], row, column))
                column += len(part[:room])
                widest, part = max(widest, column), part[room:]
    return _svg(widest * _WIDE + 16, (row + 1) * _HIGH + 16, marks)


def _run(text: str, kind: str, row: int, column: int) -> str:
    x, y, wide = 8 + column * _WIDE, 8 + row * _HIGH, len(text) * _WIDE
    marked = kind not in ("plain", "gone") and text.strip()
    ground = (
        f'<rect class="run {kind}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_HIGH}"/>'
        if marked or kind == "kept"
        else ""
    )
    return ground + (
        f'<text class="mono {kind}" xml:space="preserve" x="{x:.1f}" y="{y + 13}" '
        f'textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
    )


def _svg(wide: float, high: float, marks: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}"><style>{_LOOK}</style>'
        f'<rect class="ground" width="100%" height="100%"/>{"".join(marks)}</svg>'
    )


def _letter(kind: str) -> str:
    if kind not in _LETTER:
        raise BadParameter(f"kind={kind!r} is not known; accepted: {', '.join(_LETTER)}.")
    return _LETTER[kind]


def _numbers(at: Mapping[str, Any]) -> dict[str, Any]:
    return {k: round(v, 1) if isinstance(v, float) else v for k, v in at.items()}


def _clean(text: str) -> str:
    return _ODD.sub("\ufffd", text)
