import pytest

from repro import redact, tables


def test_table_is_markdown_that_the_page_accepts(monkeypatch):
    shown = []
    monkeypatch.setattr(tables, "display", shown.append)
    tables.show(["name", "value"], [["a|b", 1], ["two\nlines", 0.5]])
    (table,) = shown
    assert table.data.splitlines() == [
        "| name | value |",
        "| --- | --- |",
        r"| a\|b | 1 |",
        "| two lines | 0.5 |",
    ]
    assert redact._data("text/markdown", table.data) == table.data


def test_uneven_row_is_refused():
    with pytest.raises(ValueError, match="has 1 cells; accepted: 2"):
        tables.show(["name", "value"], [["a"]])
