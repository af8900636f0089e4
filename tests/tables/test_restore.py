"""RESTORE: rows, schema and properties of an older version, as a new version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.restore.restore_table import prepare_restore, restore
from anabranch.commands.table_access import TimeTravel
from anabranch.errors.commits import AppendOnlyTableError
from anabranch.errors.log import TimestampAfterLatestCommitError, VersionNotFoundError
from anabranch.errors.tables import RestoreBeyondRetentionError, RestoreFilesMissingError
from anabranch.exceptions import ConcurrentAppendException, ConcurrentDeleteReadException
from tables.made_tables import make_table, numbered_table
from tables.races import lose
from tables.statements import delete

pytestmark = pytest.mark.spark

RESULT = [
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
]


def ids(delta: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in delta.read.format("delta").load(path).collect())


@contextmanager
def setting(delta: SparkSession, key: str, value: str) -> Iterator[None]:
    delta.conf.set(key, value)
    try:
        yield
    finally:
        delta.conf.unset(key)


def test_rows_schema_and_properties_come_back(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(0, 10, 1, 1))
    table.delete("id < 3")
    delta.range(20, 25, 1, 1).withColumn("x", F.lit("new")).write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(path)
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('mine' = 'yes')")
    sizes = [row.sizeInBytes for row in [table.detail().first()]]

    (result,) = table.restoreToVersion(1).collect()
    assert list(result.asDict()) == RESULT
    assert (result.num_of_files_after_restore, result.num_removed_files, result.num_restored_files) == (1, 1, 0)
    assert result.removed_files_size == sizes[0] - result.table_size_after_restore
    assert ids(delta, path) == list(range(3, 10))
    assert table.toDF().columns == ["id"]
    assert "mine" not in table.detail().first().properties

    entry = table.history(1).first()
    assert (entry.operation, entry.operationParameters) == ("RESTORE", {"version": "1"})
    assert entry.operationMetrics == {
        "tableSizeAfterRestore": str(result.table_size_after_restore),
        "numOfFilesAfterRestore": "1",
        "numRemovedFiles": "1",
        "numRestoredFiles": "0",
        "removedFilesSize": str(result.removed_files_size),
        "restoredFilesSize": "0",
    }
    # A file whose vector differs leaves and comes; and back, to what RESTORE undid.
    (result,) = table.restoreToVersion(0).collect()
    assert (result.num_removed_files, result.num_restored_files) == (1, 1)
    assert ids(delta, path) == list(range(10))
    table.restoreToVersion(3)
    assert ids(delta, path) == [*range(3, 10), *range(20, 25)]
    assert table.toDF().columns == ["id", "x"]


def test_files_that_are_gone_are_named_before_anything_is_written(delta: SparkSession, path: str) -> None:
    """Covers fault F57."""
    table = make_table(delta, path, delta.range(0, 10, 1, 2), enableDeletionVectors="false")
    gone = [name for name in os.listdir(path) if name.endswith(".parquet")]
    table.delete("id IN (0, 9)")
    os.remove(f"{path}/{gone[0]}")
    with pytest.raises(RestoreFilesMissingError) as raised:
        table.restoreToVersion(0)
    assert (raised.value.version, raised.value.num_missing, raised.value.examples) == (0, 1, (gone[0],))
    assert table.history(1).first().version == 1
    with setting(delta, "spark.sql.files.ignoreMissingFiles", "true"):
        assert table.restoreToVersion(0).first().num_restored_files == 2


def test_where_there_is_nothing_to_go_back_to(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(3))
    assert table.restoreToVersion(0).collect() == []
    assert table.restoreToVersion(0).columns == RESULT
    assert table.history(1).first().version == 0
    with pytest.raises(VersionNotFoundError) as refused:
        table.restoreToVersion(7)
    assert refused.value.getCondition() == "DELTA_CANNOT_RESTORE_TABLE_VERSION"
    with pytest.raises(TimestampAfterLatestCommitError):
        table.restoreToTimestamp("2999-01-01")
    for wrong in ("1", True, None):
        with pytest.raises(ValueError, match="version"):
            table.restoreToVersion(wrong)  # type: ignore[arg-type]


def test_tables_that_only_grow_stay_as_they_are(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(3), appendOnly="true")
    delta.range(3).write.format("delta").mode("append").save(path)
    with pytest.raises(AppendOnlyTableError):
        table.restoreToVersion(0)


def test_versions_so_old_that_vacuum_may_be_at_their_files_are_left_alone(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(3), deletedFileRetentionDuration="0 hours")
    delta.range(3).write.format("delta").mode("append").save(path)
    with pytest.raises(RestoreBeyondRetentionError, match="VACUUM"):
        table.restoreToVersion(0)
    switch = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
    with setting(delta, switch, "false"):
        table.restoreToVersion(0)
    assert ids(delta, path) == [0, 1, 2]


def test_rows_that_come_back_while_a_delete_is_prepared(delta: SparkSession, path: str) -> None:
    """Row 5 is there again, and the condition is true for it: a DELETE that has not read it must not follow."""
    table = numbered_table(delta, path)
    delete(table, "id IN (4, 5)")
    ours, harmless = prepare_delete(table, "n BETWEEN 5 AND 6"), prepare_delete(table, "n = 9")
    assert restore(table, TimeTravel(version=0)) is not None
    lost = lose(ours, ConcurrentAppendException)
    assert lost.operation == "RESTORE"
    with harmless:
        harmless.commit()
    assert ids(delta, path) == [number for number in range(20) if number != 9]


def test_a_delete_while_a_restore_is_prepared(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path)
    delete(table, "id = 1")
    ours = prepare_restore(table, TimeTravel(version=0))
    assert ours is not None
    delete(table, "id = 2")
    with pytest.raises(ConcurrentDeleteReadException):
        ours.commit()
    with setting(delta, "spark.anabranch.conflictRetries", "1"):
        restore(table, TimeTravel(version=0))
    assert ids(delta, path) == list(range(20))
