"""The text that a search returns, cut to a number of tokens; what is cut off was not found.

arXiv 2609.30906 (authors' repository) cuts a returned block to 768 tokens of the policy's
tokenizer, keeps the head, and credits only what can be read there. Names are read back from that
text by pattern; here they are carried beside it, so that a description with a number and a dot in
it is no result (section 7.3 c of the notes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repro.toolsearcher.library import Tool

ELLIPSIS = "..."


@dataclass(frozen=True)
class Block:
    """ids: tokens put into the context, ellipsis included. visible: for each document, whether
    its whole name stands before the cut. cut: whether something is missing."""

    ids: tuple[int, ...]
    visible: tuple[bool, ...]
    cut: bool


def plain(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Token ids of `text` and the characters of each. A marker such as <|im_end|> in a document is
    letters here, never the token that ends a turn."""
    encoded = tokenizer(
        text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
    )
    return encoded["input_ids"], encoded["offset_mapping"]


def returned(
    documents: Sequence[tuple[int, Tool]],
    tokenizer: Any,
    limit: int,
    document_limit: int,
    full: bool = True,
) -> Block:
    """Block of numbered documents with at most `limit` tokens before the ellipsis.

    full: name and whole document; else the one line. Each document is cut to `document_limit`
    tokens first.
    """
    text, ends = "", []
    for number, tool in documents:
        head = f"{number}. "
        body = f"{tool.name}\n{tool.text}" if full else tool.line
        ids, places = plain(tokenizer, body)
        if len(ids) > document_limit:
            body = body[: places[document_limit - 1][1]] + ELLIPSIS
        text += ("\n" if text else "") + head
        ends.append(len(text) + len(tool.name) if body.startswith(tool.name) else None)
        text += body
    ids, places = plain(tokenizer, text)
    if len(ids) <= limit:
        return Block(tuple(ids), tuple(end is not None for end in ends), False)
    kept = places[limit - 1][1]
    visible = tuple(end is not None and end <= kept for end in ends)
    return Block((*ids[:limit], *plain(tokenizer, ELLIPSIS)[0]), visible, True)
