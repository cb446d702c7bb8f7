"""The final answer of a trajectory: read from its last assistant turn and from nothing else.

Format as the authors' repository has it (arXiv 2609.30906): names separated by commas between
``<tool_list>`` and ``</tool_list>``. The whole response is the wrong place to look: a returned
document may hold such a tag, and would be scored as the answer (section 7.3 b of the notes).
"""

import re
from dataclasses import dataclass

from repro.errors import BadParameter

OPEN, CLOSE = "<tool_list>", "</tool_list>"
_BLOCK = re.compile(
    re.escape(OPEN) + r"((?:(?!" + re.escape(OPEN) + r").)*?)" + re.escape(CLOSE), re.S
)


@dataclass(frozen=True)
class Answer:
    """names: those of the last block, a set. blocks: how many closed blocks the turn holds."""

    names: frozenset[str]
    blocks: int


def read_answer(turn: str) -> Answer:
    """The answer in the text of the final assistant turn.

    No closed block: no names and `blocks` 0, which is a wrong answer and no error. Two or more:
    the last counts. White space around names and empty items are dropped; order, repeats and
    nothing else are ignored, so that ``a.B`` and ``a.b`` are two names.
    Raises BadParameter when `turn` is not text.
    """
    if not isinstance(turn, str):
        raise BadParameter(f"turn={turn!r} is refused; accepted: the text of one assistant turn.")
    blocks = _BLOCK.findall(turn)
    names = (name.strip() for name in (blocks[-1] if blocks else "").split(","))
    return Answer(frozenset(name for name in names if name), len(blocks))
