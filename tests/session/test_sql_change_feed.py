"""The change data feed in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import (
    ChangesNotRecordedError,
    ChangesRangeError,
    ChangesStartAfterLatestError,
    TableFunctionArgumentTypeError,
)
from anabranch.errors.tables import NonConstantArgumentError, NotADeltaTableError
from session.documented import statement

pytestmark = pytest.mark.spark

SINCE = (4, 2)
"""The release of Spark that brought `CHANGES FROM`."""


@pytest.fixture(scope="module")
def changed(delta: SparkSession) -> Iterator[str]:
    """The name of a table with a feed: two rows come, one changes, one goes."""
    name = "changed_in_sql"
    delta.sql(f"DROP TABLE IF EXISTS {name}")
    delta.sql(f"CREATE TABLE {name} (id INT, n INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    delta.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    delta.sql(f"UPDATE {name} SET n = 20 WHERE id = 2")
    delta.sql(f"DELETE FROM {name} WHERE id = 1")
    yield name
    delta.sql(f"DROP TABLE {name}")


def rows(delta: SparkSession, text: str, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in delta.sql(text, **options).collect())


@statement("SELECT … FROM table_changes('t', start[, end])")
def test_table_changes(delta: SparkSession, changed: str) -> None:
    """Returns the rows that were inserted, deleted and changed from version or time `start` to `end`, both included,
    with `_change_type`, `_commit_version` and `_commit_timestamp`. It can be used wherever a table can be used."""
    assert rows(delta, f"SELECT id, n, _change_type, _commit_version FROM table_changes('{changed}', 1, 2)") == [
        (1, 1, "insert", 1),
        (2, 2, "insert", 1),
        (2, 2, "update_preimage", 2),
        (2, 20, "update_postimage", 2),
    ]
    by_option = delta.read.option("readChangeFeed", "true").option("startingVersion", 3).table(changed)
    assert [tuple(row)[:3] for row in by_option.collect()] == [(1, 1, "delete")]
    joined = (
        f"SELECT c.id, t.n, c.`_change_type` FROM TABLE_CHANGES('{changed}', :since) AS c LEFT JOIN {changed} t "
        f"ON c.id = t.id WHERE c._commit_version > 1 AND c.id IN (SELECT id FROM table_changes('{changed}', 3))"
    )
    assert rows(delta, joined, args={"since": 1}) == [(1, None, "delete")]
    named = "SELECT id, _change_type FROM table_changes(:t, :v)"
    assert rows(delta, named, args={"t": changed, "v": 3}) == [(1, "delete")]
    delta.sql(f"CREATE TEMP VIEW deleted AS SELECT id FROM table_changes('{changed}', 0) WHERE _change_type = 'delete'")
    try:
        assert rows(delta, "SELECT * FROM deleted") == [(1,)]
    finally:
        delta.sql("DROP VIEW deleted")


def test_arguments_that_depend_on_rows(delta: SparkSession, changed: str) -> None:
    """Covers bug B113: they ended in an internal error of Spark."""
    for query in (
        f"SELECT * FROM (SELECT 1 AS v) o, LATERAL table_changes('{changed}', o.v)",
        f"SELECT * FROM (SELECT 1 AS v) o, LATERAL (SELECT * FROM table_changes('{changed}', 0, o.v + 1))",
    ):
        with pytest.raises(NonConstantArgumentError, match="depends on rows"):
            delta.sql(query)


@statement("SELECT … FROM table_changes_by_path('/folder', start[, end])")
def test_table_changes_by_path(delta: SparkSession, changed: str) -> None:
    """Does the same for a table in a folder."""
    (detail,) = delta.sql(f"DESCRIBE DETAIL {changed}").collect()
    history = delta.sql(f"DESCRIBE HISTORY {changed}").collect()
    text = "SELECT id, _commit_version FROM table_changes_by_path(?, cast(? AS TIMESTAMP), ?) WHERE id > 0"
    at = f"{history[0].timestamp:%Y-%m-%d %H:%M:%S.%f}"
    assert rows(delta, text, args=[detail.location, at, 3]) == [(1, 3)]


def needs_changes_from(delta: SparkSession) -> None:
    """The clause came with Spark 4.2."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < SINCE:
        pytest.skip("needs PySpark 4.2 or later")


@statement("SELECT … FROM t CHANGES FROM VERSION start [TO VERSION end] [WITH (computeUpdates = true)]")
def test_changes_from(delta: SparkSession, changed: str) -> None:
    """Returns the change data feed in Spark's own syntax, also by TIMESTAMP; it needs Spark 4.2.
    Without `computeUpdates` an update is a `delete` and an `insert`. A bound may be EXCLUSIVE."""
    needs_changes_from(delta)
    fields = "id, n, _change_type, _commit_version"
    assert rows(delta, f"SELECT {fields} FROM {changed} CHANGES FROM VERSION 1") == [
        (1, 1, "delete", 3),
        (1, 1, "insert", 1),
        (2, 2, "delete", 2),
        (2, 2, "insert", 1),
        (2, 20, "insert", 2),
    ]
    updates = [(2, 2, "update_preimage", 2), (2, 20, "update_postimage", 2)]
    with_updates = "WITH (computeUpdates = true)"
    for part in ("VERSION 2 TO VERSION 2", "VERSION 1 EXCLUSIVE TO VERSION 3 EXCLUSIVE"):
        assert (
            rows(delta, f"SELECT {fields} FROM {changed} CHANGES FROM {part} {with_updates} AS c WHERE c.n > 1")
            == updates
        )
    reader = delta.read.option("startingVersion", 2).option("endingVersion", 2).option("computeUpdates", "true")
    assert sorted(tuple(row)[:4] for row in reader.changes(changed).collect()) == [
        (2, 2, *updates[0][2:]),
        (2, 20, *updates[1][2:]),
    ]
    assert rows(delta, f"SELECT id FROM {changed} CHANGES FROM VERSION 3 JOIN {changed} t USING (id)") == []


def test_changes_from_a_time(delta: SparkSession, changed: str) -> None:
    needs_changes_from(delta)
    history = delta.sql(f"DESCRIBE HISTORY {changed}").collect()
    updated = next(row.timestamp for row in history if row.version == 2)
    at = f"TIMESTAMP '{updated:%Y-%m-%d %H:%M:%S.%f}'"
    select = f"SELECT DISTINCT _commit_version FROM {changed} CHANGES FROM"
    assert rows(delta, f"{select} {at}") == [(2,), (3,)]
    assert rows(delta, f"{select} {at} EXCLUSIVE") == [(3,)]
    assert rows(delta, f"{select} TIMESTAMP '2020-01-01' TO {at}") == [(1,), (2,)]
    assert rows(delta, f"{select} TIMESTAMP '2020-01-01' TO {at} EXCLUSIVE") == [(1,)]


def test_invalid_ranges_of_changes_from(delta: SparkSession, changed: str, path: str) -> None:
    needs_changes_from(delta)
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    for error, what in (
        (ChangesNotRecordedError, f"delta.`{path}` CHANGES FROM VERSION 0"),
        (ChangesRangeError, f"{changed} CHANGES FROM VERSION 2 TO VERSION 1"),
        (ChangesStartAfterLatestError, f"{changed} CHANGES FROM VERSION 17"),
        (InvalidOptionError, f"{changed} CHANGES FROM VERSION 0 WITH (deduplicationMode = 'netChanges')"),
    ):
        with pytest.raises(error):
            delta.sql(f"SELECT * FROM {what}")
    for options in ({"endingVersion": "2"}, {"deduplicationMode": "netChanges"}):
        with pytest.raises(InvalidOptionError):
            _ = delta.readStream.options(startingVersion="1", **options).changes(changed).schema


def test_changes_from_as_a_stream(delta: SparkSession, path: str) -> None:
    """It goes on from its checkpoint, beside other operators, with the options of a stream."""
    needs_changes_from(delta)
    name, target = "streamed_changes", f"{path}-changes"
    delta.sql(f"DROP TABLE IF EXISTS {name}")
    delta.sql(f"CREATE TABLE {name} (id INT, n INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")

    def streamed(changes: DataFrame, to: str) -> list[tuple[Any, ...]]:
        chosen = changes.where("n < 100").select("id", "n", "_change_type", "_commit_version")
        writer = chosen.writeStream.format("delta").option("checkpointLocation", f"{to}-checkpoint")
        query = writer.trigger(availableNow=True).start(to)
        assert query.awaitTermination(120)
        return sorted(tuple(row) for row in delta.read.format("delta").load(to).collect())

    try:
        delta.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        delta.sql(f"UPDATE {name} SET n = 20 WHERE id = 2")
        changes = delta.readStream.option("startingVersion", 1).option("maxFilesPerTrigger", 1).changes(name)
        first = [(1, 1, "insert", 1), (2, 2, "delete", 2), (2, 2, "insert", 1), (2, 20, "insert", 2)]
        assert streamed(changes, target) == first
        delta.sql(f"DELETE FROM {name} WHERE id = 1")
        again = delta.readStream.option("startingVersion", 1).changes(name)
        assert streamed(again, target) == sorted([*first, (1, 1, "delete", 3)])
        text = f"SELECT * FROM STREAM {name} CHANGES FROM VERSION 1 EXCLUSIVE WITH (computeUpdates = true)"
        assert streamed(delta.sql(text), f"{target}-2") == [
            (1, 1, "delete", 3),
            (2, 2, "update_preimage", 2),
            (2, 20, "update_postimage", 2),
        ]
        # Without a start the rows of now come first, as inserted.
        assert streamed(delta.readStream.changes(name), f"{target}-3") == [(2, 20, "insert", 3)]
    finally:
        delta.sql(f"DROP TABLE {name}")


def test_invalid_arguments(delta: SparkSession, changed: str) -> None:
    """Others are in `tests/differential/programs/describing.txt`."""
    delta.range(1).createOrReplaceTempView("not_a_delta_table")
    for error, call in (
        (TableFunctionArgumentTypeError, f"table_changes('{changed}', -1)"),
        (NotADeltaTableError, "table_changes('not_a_delta_table', 0)"),
    ):
        with pytest.raises(error):
            delta.sql(f"SELECT * FROM {call}")


def test_a_table_without_a_feed(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    with pytest.raises(ChangesNotRecordedError, match="enableChangeDataFeed"):
        delta.sql(f"SELECT * FROM table_changes('delta.`{path}`', 0)")
