"""Race 77 between analysis and transaction: another writer adds a column when Spark has resolved a statement's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.callbacks import write_handler
from anabranch.callbacks.dml_handler import DmlHandler
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.exceptions import MetadataChangedException

pytestmark = pytest.mark.spark

Rows = list[tuple[Any, ...]]
BEFORE: Rows = [(0, 0), (1, 10), (2, 20)]


@pytest.fixture
def table(delta: SparkSession, name: str) -> str:
    delta.sql(f"CREATE TABLE {name} (id INT, n BIGINT) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT id, id * 10 FROM range(0, 3, 1, 1)")
    return name


@pytest.fixture
def others(delta: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Has other statements run when the next statement that is no other's is resolved and has not begun.

    Returns a list that gets an element for each execution of that DELETE, UPDATE or MERGE.
    """

    def interrupt(*statements: str) -> list[int]:
        executions: list[int] = []
        waiting = [statements]

        def run_others() -> None:
            while waiting:
                for statement in waiting.pop():
                    delta.sql(statement)
                executions.clear()

        find_target, write, resolve = DmlHandler._target, write_handler.write_frame, DmlHandler._resolved

        def found(*arguments: Any) -> Any:
            target = find_target(*arguments)
            run_others()
            return target

        def written(*arguments: Any) -> Any:
            run_others()
            return write(*arguments)

        def resolved(*arguments: Any) -> Any:
            executions.append(1)
            return resolve(*arguments)

        monkeypatch.setattr(DmlHandler, "_target", found)
        monkeypatch.setattr(write_handler, "write_frame", written)
        monkeypatch.setattr(DmlHandler, "_resolved", resolved)
        return executions

    return interrupt


@pytest.fixture
def kept(delta: SparkSession, table: str) -> Iterator[str]:
    """A view of rows of the table that Spark keeps."""
    frame = delta.table(table).cache()
    frame.count()
    frame.createOrReplaceTempView("kept")
    yield "kept"
    delta.catalog.dropTempView("kept")
    frame.unpersist()


def rows(delta: SparkSession, table: str) -> Rows:
    return sorted(tuple(row) for row in delta.sql(f"SELECT id, n FROM {table}").collect())


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {t} WHERE id = 1", [(0, 0), (2, 20)]),
        ("UPDATE {t} SET n = 7 WHERE id = 1", [(0, 0), (1, 7), (2, 20)]),
        (
            "MERGE INTO {t} t USING (SELECT id FROM range(2, 4)) u ON t.id = u.id "
            "WHEN MATCHED THEN UPDATE SET n = 7 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (u.id, 30)",
            [(0, 0), (1, 10), (2, 7), (3, 30)],
        ),
        ("INSERT INTO {t} SELECT 5, 50L", [*BEFORE, (5, 50)]),
        ("INSERT INTO {t} (id, n) VALUES (5, 50)", [*BEFORE, (5, 50)]),
        ("INSERT OVERWRITE {t} SELECT 5, 50L", [(5, 50)]),
        ("INSERT INTO {t} REPLACE WHERE id = 1 SELECT 1, 50L", [(0, 0), (1, 50), (2, 20)]),
    ],
)
def test_it_begins_with_the_version_that_spark_resolved(
    delta: SparkSession, table: str, others: Callable[..., list[int]], statement: str, expected: Rows
) -> None:
    others(f"ALTER TABLE {table} ADD COLUMN more STRING", f"INSERT INTO {table} VALUES (9, 90, 'new')")
    delta.sql(statement.format(t=table))
    assert rows(delta, table) == [*expected, (9, 90)]
    assert [row.id for row in delta.table(table).where("more = 'new'").collect()] == [9]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET n = (SELECT max(n) FROM {t}) WHERE id = 1",
        "DELETE FROM {t} WHERE id IN (SELECT min(id) FROM {t})",
        "MERGE INTO {t} t USING (SELECT id FROM {t}) u ON t.id = u.id WHEN MATCHED THEN DELETE",
        "INSERT INTO {t} SELECT id + 5, n FROM {t}",
        "INSERT INTO {t} REPLACE WHERE id = 1 SELECT id, n FROM {t} WHERE id = 1",
        "INSERT INTO {t} SELECT id + 5, n FROM {kept}",
        "UPDATE {t} SET n = 7 WHERE id IN (SELECT max(id) FROM {kept})",
        "DELETE FROM {t} AS d WHERE EXISTS (SELECT 1 FROM {kept} k WHERE k.id = d.id + 1)",
        "MERGE INTO {t} t USING {kept} u ON t.id = u.id WHEN MATCHED THEN DELETE",
    ],
)
def test_one_that_reads_its_table_is_refused(
    delta: SparkSession, table: str, others: Callable[..., list[int]], kept: str, statement: str
) -> None:
    """It would read a later version than it begins with: rows of an append that it is ordered before."""
    others(f"ALTER TABLE {table} ADD COLUMN more STRING")
    with pytest.raises(SchemaChangedSinceAnalysisError, match="more"):
        delta.sql(statement.format(t=table, kept=kept))
    assert rows(delta, table) == BEFORE


def test_one_of_an_older_frame_is_refused(delta: SparkSession, table: str) -> None:
    """With the version that the frame has looked up it would miss the row that was appended since."""
    delta.table(table).createOrReplaceTempView("older")
    try:
        delta.sql(f"INSERT INTO {table} VALUES (9, 90)")
        delta.sql(f"ALTER TABLE {table} ADD COLUMN more STRING")
        for statement in ("UPDATE older SET n = 7 WHERE id = 9", "DELETE FROM older WHERE id = 9"):
            with pytest.raises(SchemaChangedSinceAnalysisError, match="more"):
                delta.sql(statement)
    finally:
        delta.catalog.dropTempView("older")
    assert rows(delta, table) == [*BEFORE, (9, 90)]


def test_its_commit_is_judged_as_if_it_had_begun_before(
    delta: SparkSession, table: str, others: Callable[..., list[int]]
) -> None:
    """A serializable table does not let a statement be ordered before new columns."""
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    others(f"ALTER TABLE {table} ADD COLUMN more STRING")
    with pytest.raises(MetadataChangedException):
        delta.sql(f"UPDATE {table} SET n = 7 WHERE id = 1")
    assert rows(delta, table) == BEFORE


def test_executed_again_it_begins_with_the_newest_version(
    delta: SparkSession, table: str, others: Callable[..., list[int]]
) -> None:
    """With the version that Spark resolved it would lose to the same commit each time."""
    executions = others(f"ALTER TABLE {table} ADD COLUMN more STRING", f"UPDATE {table} SET n = 8 WHERE id = 1")
    delta.conf.set("spark.anabranch.conflictRetries", "5")
    try:
        with pytest.raises(SchemaChangedSinceAnalysisError, match="more"):
            delta.sql(f"UPDATE {table} SET n = 7 WHERE id = 1")
    finally:
        delta.conf.unset("spark.anabranch.conflictRetries")
    assert len(executions) == 2
    assert rows(delta, table) == [(0, 0), (1, 8), (2, 20)]
