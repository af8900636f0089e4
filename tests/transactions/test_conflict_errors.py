"""What users catch: Delta's names, facts as fields, a message that helps."""

from __future__ import annotations

import pickle
from xml.etree import ElementTree

import pytest

from anabranch import exceptions
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import RowValues, text_of_row
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConflictReason,
    DeltaConcurrentModificationException,
    ProtocolChangedException,
)
from anabranch.spark.gateway.error_text import error_of_text, text_of_error

NAMES = [name for name in exceptions.__all__ if name.endswith("Exception")]


def test_names_are_those_of_delta() -> None:
    assert set(NAMES) == {
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "DeltaConcurrentModificationException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }


@pytest.mark.parametrize("name", NAMES)
def test_all_are_delta_errors_and_survive_pickling(name: str) -> None:
    kind: type[DeltaConcurrentModificationException] = getattr(exceptions, name)
    error = kind(
        table="/data/t",
        version=8,
        operation="UPDATE",
        read_version=5,
        reason=ConflictReason.WITH_PARTITION_HINT,
        where="partition date=2024-01-01",
        example_keys=("id=7",),
        example_rows=((("id", "7"),),),
    )
    again = pickle.loads(pickle.dumps(error))

    assert isinstance(error, DeltaError)
    assert isinstance(error, DeltaConcurrentModificationException)
    assert type(again) is kind
    assert again.facts() == error.facts()
    assert "example_rows" not in error.facts()
    assert again._repr_html_() == error._repr_html_()
    assert again.reason is ConflictReason.WITH_PARTITION_HINT
    assert str(again) == str(error)
    for fact in ("/data/t", "UPDATE (version 8)", "partition date=2024-01-01", "id=7", "read version 5"):
        assert fact in str(error)
    assert error.getSqlState() == "2D521"
    assert error.getCondition().startswith("DELTA_")


def test_message_says_who_won_and_what_to_do() -> None:
    error = ConcurrentAppendException(
        table="/data/t",
        version=8,
        operation="MERGE",
        read_version=5,
        reason=ConflictReason.WITHOUT_HINT,
        where="file a.parquet",
    )
    assert error.explain() == (
        "In /data/t, MERGE (version 8) landed first and added rows that this operation should have read: file "
        "a.parquet. This operation, which read version 5, changed nothing. Run the operation again on the new "
        "version. Reason: WITHOUT_HINT."
    )


def test_lost_creation_is_named_in_the_message() -> None:
    error = ProtocolChangedException(
        table="/data/t",
        version=0,
        operation="CREATE TABLE",
        read_version=-1,
        reason=ConflictReason.TABLE_CREATED,
        advice="Run the operation again.",
    )
    assert "was created meanwhile: CREATE TABLE landed version 0 first" in error.explain()


def lost(*rows: RowValues, table: str = "/data/t") -> ConcurrentAppendException:
    return ConcurrentAppendException(
        table=table,
        version=8,
        operation="MERGE",
        read_version=5,
        reason=ConflictReason.ROW_LEVEL_CHANGES,
        example_keys=tuple(map(text_of_row, rows)),
        example_rows=rows,
        advice="Run it again.",
    )


def cells(markup: str) -> list[str]:
    """The texts of a table's cells. The markup must be well formed."""
    root = ElementTree.fromstring(f"<div>{markup}</div>")
    return [cell.text or "" for cell in root.iter() if cell.tag in {"th", "td"}]


def test_a_notebook_shows_the_rows_as_a_table() -> None:
    shown = cells(lost((("id", "5"), ("name", "x")), (("id", "6"), ("name", "y")))._repr_html_())
    assert shown[-6:] == ["id", "name", "5", "x", "6", "y"]
    assert ("Winner", "MERGE (version 8)") in zip(shown, shown[1:], strict=False)
    assert "Run it again." in lost()._repr_html_()


AWKWARD: RowValues = (
    ("k", "a, x = b, k = 1"),
    ("a = b", "="),
    ("it's", "'quoted', \"twice\""),
    ("<b>n</b>", "<td>&amp;</td>"),
    ("a, x", ""),
)
"""Values and names that look like other columns, or like markup."""


def test_names_and_values_are_not_split() -> None:
    error = lost(AWKWARD, AWKWARD)
    names, values = map(list, zip(*AWKWARD, strict=True))
    assert cells(error._repr_html_())[-3 * len(names) :] == [*names, *values, *values]
    heading = error._render_traceback_()[-6]
    assert heading.split() == ["k", "a", "=", "b", "it's", "<b>n</b>", "a,", "x"]
    assert error.example_keys[0].startswith("k = a, x = b, k = 1, a = b = =, it's = 'quoted'")


def test_columns_reach_a_client() -> None:
    error = lost(AWKWARD)
    again = error_of_text(text_of_error(error), error.message())
    assert isinstance(again, ConcurrentAppendException)
    assert again.example_rows == error.example_rows
    assert again._repr_html_() == error._repr_html_()


def test_rows_that_are_only_known_by_position_have_one_column() -> None:
    error = lost()
    error.example_keys = ("row 7 of part-0.parquet", "row 8 of part-0.parquet")
    assert cells(error._repr_html_())[-3:] == ["row", *error.example_keys]


def test_values_of_rows_are_no_markup_and_no_commands_of_a_terminal() -> None:
    error = lost((("name", "<script>\x1b[2J\n</td>"),), table="/data/<b>t</b>")
    assert cells(error._repr_html_().replace("\x1b", ""))[-1] == "<script>[2J\n</td>"
    lines = error._render_traceback_()
    assert "<script>\\x1b[2J\\n</td>" in lines
    assert all(line.isprintable() for line in lines)


def test_a_cell_that_raises_shows_its_own_lines_and_the_way_out() -> None:
    try:
        raise lost((("id", "5"), ("name", "x")))
    except ConcurrentAppendException as error:
        error.add_note("anabranch: executed 2 times; lost to versions 7, 8.")
        lines = error._render_traceback_()
    assert 'raise lost((("id", "5"), ("name", "x")))' in lines[1]
    assert lines[2:] == [
        "ConcurrentAppendException: MERGE (version 8) landed first and added rows that this operation should have read.",
        "",
        "Table:          /data/t",
        "Winner:         MERGE (version 8)",
        "This operation: read version 5, and changed nothing",
        "Reason:         ROW_LEVEL_CHANGES (DELTA_CONCURRENT_APPEND, SQLSTATE 2D521)",
        "",
        "Rows in conflict:",
        "id  name",
        "--  ----",
        "5   x",
        "",
        "What to do: Run it again.",
        "anabranch: executed 2 times; lost to versions 7, 8.",
    ]


def test_signatures_of_urls_are_shown_nowhere() -> None:
    error = lost((("k", "1"),), table="https://store/t?sig=SECRET")
    assert "SECRET" not in error._repr_html_() + "".join(error._render_traceback_())
