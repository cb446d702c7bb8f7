"""Tables in a notebook's output: plain Markdown, so that they reach the page without any HTML."""

from collections.abc import Sequence

from IPython.display import Markdown, display


def show(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Display a table; every cell is given as text or has its text by ``str``.

    Raises ValueError for a row that has not one cell a column.
    """
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"row {list(row)} has {len(row)} cells; accepted: {len(head)}.")
    lines = [head, ["---"] * len(head), *rows]
    display(Markdown("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)))


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
