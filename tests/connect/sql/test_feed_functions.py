"""Where a text calls the functions that read a change data feed."""

from __future__ import annotations

import pytest

from anabranch.connect.sql.table_references import table_references


def test_calls_stand_where_tables_stand() -> None:
    text = (
        "SELECT * FROM table_changes('t', least(1, 2), :end) AS c JOIN u ON c.id = u.id, TABLE_CHANGES_BY_PATH('/p', ?)"
    )
    first, table, second = table_references(text)
    assert (first.function, first.arguments) == ("table_changes", ("'t'", "least(1, 2)", ":end"))
    assert text[first.start : first.end] == "table_changes('t', least(1, 2), :end)"
    assert (table.function, table.parts) == (None, ("u",))
    assert (second.function, second.arguments) == ("table_changes_by_path", ("'/p'", "?"))
    assert text[second.start : second.end] == "TABLE_CHANGES_BY_PATH('/p', ?)"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("SELECT * FROM table_changes()", ()),
        ("SELECT * FROM table_changes('a, (b', 0 /* , 1 */)", ("'a, (b'", "0 /* , 1 */")),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM `table_changes`('t', 0))", ("'t'", "0")),
    ],
)
def test_arguments(text: str, arguments: tuple[str, ...]) -> None:
    (call,) = table_references(text)
    assert call.arguments == arguments


@pytest.mark.parametrize(
    "text",
    [
        "SELECT table_changes('t', 0)",
        "SELECT * FROM range(3)",
        "SELECT * FROM s.table_changes('t', 0)",
        "FROM table_changes(f(0)",
    ],
)
def test_other_functions_are_left_to_spark(text: str) -> None:
    assert table_references(text) == []
