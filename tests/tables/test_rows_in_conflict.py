"""The rows that a conflict shows, in an error that comes back through Spark."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from anabranch.exceptions import ConcurrentDeleteDeleteException
from tables.races import beaten_to_the_commit

pytestmark = pytest.mark.spark


def test_rows_in_conflict_keep_their_columns(native: SparkSession, path: str) -> None:
    """Names and values may look like other columns, or like markup."""
    names = ("id", "a = b", 'it\'s "it"', "<b>n</b>")
    row = ("3", "x, a = y, id = 4", "'\"", "<td>&amp;</td>")
    table, columns = f"delta.`{path}`", ", ".join(f"`{name}` STRING" for name in names)
    native.sql(f"CREATE TABLE {table} ({columns}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    native.createDataFrame([row, ("4", *row[1:])], list(names)).write.format("delta").mode("append").save(path)
    statement = f"DELETE FROM {table} WHERE id = '3'"
    with pytest.raises(ConcurrentDeleteDeleteException) as raised:
        beaten_to_the_commit(native, lambda: native.sql(statement), statement)
    lost = raised.value
    assert lost.example_keys == (", ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True)),)
    assert lost.example_rows == (tuple(zip(names, row, strict=True)),)
    cells = ElementTree.fromstring(f"<div>{lost._repr_html_()}</div>").iter()
    assert [cell.text for cell in cells if cell.tag in {"th", "td"}][-8:] == [*names, *row]
