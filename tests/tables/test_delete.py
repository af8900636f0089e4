"""`DeltaTable.delete`."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.log import DeletionVectorError
from anabranch.tables import DeltaTable
from tables.made_tables import make_table

pytestmark = pytest.mark.spark


def ids(table: DeltaTable) -> list[int]:
    return sorted(row.id for row in table.toDF().select("id").collect())


def metrics(table: DeltaTable) -> dict[str, str]:
    recorded = table.history(1).collect()[0].operationMetrics
    assert isinstance(recorded, dict)
    return recorded


def test_metrics_with_vectors(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(0, 20, 1, 2))
    table.delete("id IN (3, 13)")
    table.delete("id = 4 OR id >= 10")
    recorded = metrics(table)
    assert recorded["numDeletedRows"] == "10"
    assert (recorded["numRemovedFiles"], recorded["numAddedFiles"], recorded["numCopiedRows"]) == ("1", "0", "0")
    assert recorded["numDeletionVectorsAdded"] == recorded["numDeletionVectorsUpdated"] == "1"
    assert recorded["numDeletionVectorsRemoved"] == "2", "the vector of the file that is gone counts as removed"
    assert int(recorded["numRemovedBytes"]) > 0
    assert re.search(r"id = .*4\b.* OR .*id >= ", table.history(1).collect()[0].operationParameters["predicate"])
    assert {"executionTimeMs", "scanTimeMs", "rewriteTimeMs", "numAddedChangeFiles", "numAddedBytes"} <= recorded.keys()


def test_metrics_of_copy_on_write(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(0, 20, 1, 2), enableDeletionVectors="false")
    table.delete("id = 3")
    recorded = metrics(table)
    assert (recorded["numDeletedRows"], recorded["numCopiedRows"]) == ("1", "9")
    assert (recorded["numRemovedFiles"], recorded["numAddedFiles"], recorded["numDeletionVectorsAdded"]) == (
        "1",
        "1",
        "0",
    )


def test_subqueries(delta: SparkSession, path: str, vectors: str) -> None:
    table = make_table(delta, path, delta.range(6), enableDeletionVectors=vectors)
    delta.createDataFrame([(1,), (4,)], "k long").createOrReplaceTempView("gone")
    table.delete("id IN (SELECT k FROM gone)")
    assert ids(table) == [0, 2, 3, 5]
    table.alias("t").delete("EXISTS (SELECT 1 FROM gone WHERE k = t.id + 1)")
    assert ids(table) == [2, 5]


def test_conditions_that_differ_each_time(delta: SparkSession, path: str, vectors: str) -> None:
    table = make_table(delta, path, delta.range(100), enableDeletionVectors=vectors)
    table.delete("rand() < 0.5")
    assert table.toDF().count() == 100 - int(metrics(table)["numDeletedRows"])


def test_the_clock_is_constant(delta: SparkSession, path: str) -> None:
    today = datetime.date.today()
    days = [(today - datetime.timedelta(days=back),) for back in (3, 1, 0)]
    table = make_table(delta, path, delta.createDataFrame(days, "day date"))
    table.delete("day < current_date() - INTERVAL 2 DAYS")
    table.delete("day < date_sub(now(), 0) AND current_timestamp() > TIMESTAMP'2020-01-01 00:00:00'")
    assert table.toDF().count() == 1
    # The condition, with the clock as it was written, or as a constant.
    predicate = table.history(2).collect()[1].operationParameters["predicate"]
    assert "current_date()" in predicate or f"DATE '{today}'" in predicate


def test_arguments_that_are_refused(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(3))
    with pytest.raises(TypeError, match="condition"):
        table.delete(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="conflictRetries"):
        table.delete("id = 1", conflictRetries=-1)
    assert table.history().count() == 1


def test_a_damaged_vector_is_an_error(delta: SparkSession, path: str) -> None:
    """Covers race 14 on Spark: rows that may or may not be hidden are neither deleted nor kept."""
    table = make_table(delta, path, delta.range(0, 9000, 1, 1))
    table.delete("id % 7 = 3")
    (vector,) = Path(path).glob("deletion_vector_*.bin")
    data = bytearray(vector.read_bytes())
    data[len(data) // 2] ^= 0xFF
    vector.write_bytes(data)
    with pytest.raises(DeletionVectorError):
        table.delete("id = 1")
    with pytest.raises(DeletionVectorError):
        table.update("id = 1", {"id": "2"})
    assert table.history().count() == 2
