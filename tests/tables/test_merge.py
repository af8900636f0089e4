"""MERGE through `DeltaTable.merge`, clause by clause."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.merge.merge_command import prepare_merge
from anabranch.commands.merge.merge_statement import DeleteClause, MergeStatement
from anabranch.errors.dml import AmbiguousMergeError, SubqueryInConditionError
from anabranch.tables import DeltaTable
from session_kinds import table_ref

pytestmark = pytest.mark.spark

LETTERS = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
CHANGES = [("a", -1), ("b", 0), ("e", -5), ("f", -6)]


@pytest.fixture
def source(delta: SparkSession) -> DataFrame:
    """Two rows that the table has, and two that it lacks, under other names."""
    return delta.createDataFrame(CHANGES, "k string, v int")


@pytest.fixture
def letters(delta: SparkSession, path: str) -> DeltaTable:
    """A table of four rows in two files."""
    return table_of(delta, path, LETTERS, "key string, value int")


def table_of(
    delta: SparkSession,
    path: str,
    rows: Iterable[Any],
    schema: str,
    *,
    partition_by: Iterable[str] = (),
    **options: Any,
) -> DeltaTable:
    frame = delta.createDataFrame(list(rows), schema).coalesce(2)
    frame.write.format("delta").partitionBy(*partition_by).options(**options).save(path)
    return DeltaTable.forPath(delta, path)


def rows(table: DeltaTable) -> list[Any]:
    return sorted((tuple(row) for row in table.toDF().collect()), key=str)


def last(table: DeltaTable) -> Row:
    entry = table.history(1).first()
    assert entry is not None
    return entry


def test_clauses_do_not_see_the_other_side(letters: DeltaTable, source: DataFrame) -> None:
    merging = letters.alias("t").merge(source.toDF("key", "value").alias("s"), "t.key = s.key")
    with pytest.raises(AnalysisException, match="UNRESOLVED"):
        merging.whenNotMatchedBySourceDelete("s.value > 1").execute()
    with pytest.raises(AnalysisException, match="UNRESOLVED"):
        merging.whenNotMatchedInsertAll("t.value > 1").execute()


def test_a_row_that_two_source_rows_would_change(delta: SparkSession, letters: DeltaTable) -> None:
    """One of them, if the clause's condition is true for one alone."""
    twice = delta.createDataFrame([("c", 1), ("c", 2), ("d", 5)], "k string, v int")
    with pytest.raises(AmbiguousMergeError) as caught:
        letters.merge(twice, "key = k").whenMatchedUpdate(set={"value": "v"}).execute()
    assert caught.value.row == "key = c"
    letters.merge(twice, "key = k").whenMatchedUpdate("v = 2", {"value": "v"}).execute()
    assert rows(letters) == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]


def without_backticks(predicate: str) -> str:
    """A condition as it was written; Spark puts parentheses around what it has resolved."""
    return predicate.removeprefix("(").removesuffix(")")


def test_what_the_history_says(letters: DeltaTable, source: DataFrame) -> None:
    letters.merge(source, "key = k").whenMatchedUpdate("v < 0", {"value": "v"}).whenMatchedDelete(
        F.col("v") == 0
    ).whenNotMatchedInsert("k = 'e'", {"key": "k", "value": "v"}).whenNotMatchedBySourceDelete("key = 'd'").execute()
    entry = last(letters)
    assert entry.operation == "MERGE"
    assert without_backticks(json.loads(entry.operationParameters["predicate"])[0]) == "key = k"
    update, delete = json.loads(entry.operationParameters["matchedPredicates"])
    assert (without_backticks(update["predicate"]), update["actionType"]) == ("v < 0", "update")
    assert delete["actionType"] == "delete"
    assert re.fullmatch(r"\((s\.)?v = 0\)", delete["predicate"])
    (insert,) = json.loads(entry.operationParameters["notMatchedPredicates"])
    assert (without_backticks(insert["predicate"]), insert["actionType"]) == ("k = 'e'", "insert")
    (unmatched,) = json.loads(entry.operationParameters["notMatchedBySourcePredicates"])
    assert (without_backticks(unmatched["predicate"]), unmatched["actionType"]) == ("key = 'd'", "delete")
    recorded = {
        name.removeprefix("numTarget"): int(value)
        for name, value in entry.operationMetrics.items()
        if not name.endswith("Ms") and "Bytes" not in name
    }
    assert recorded == {
        "numSourceRows": 4,
        "numOutputRows": 2,
        "RowsInserted": 1,
        "RowsUpdated": 1,
        "RowsMatchedUpdated": 1,
        "RowsNotMatchedBySourceUpdated": 0,
        "RowsDeleted": 2,
        "RowsMatchedDeleted": 1,
        "RowsNotMatchedBySourceDeleted": 1,
        "RowsCopied": 0,
        "FilesAdded": 1,
        "FilesRemoved": recorded["FilesRemoved"],
        "ChangeFilesAdded": 0,
        "DeletionVectorsAdded": recorded["DeletionVectorsAdded"],
        "DeletionVectorsRemoved": 0,
        "DeletionVectorsUpdated": 0,
    }
    assert recorded["FilesRemoved"] + recorded["DeletionVectorsAdded"] >= 1
    assert entry.operationMetrics.keys() >= {
        *("executionTimeMs", "materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs"),
        *("numTargetBytesAdded", "numTargetBytesRemoved"),
    }


def test_conditions_that_are_refused(letters: DeltaTable, source: DataFrame) -> None:
    with pytest.raises(SubqueryInConditionError):
        letters.merge(source, "key = (SELECT 'a')").whenMatchedDelete().execute()
    with pytest.raises(SubqueryInConditionError):
        letters.merge(source, "key = k").whenNotMatchedBySourceDelete("EXISTS (SELECT 1)").execute()
    for of_many_rows in ("max(v) > 1", "sum(v) OVER () > 1"):
        with pytest.raises(AnalysisException):
            letters.merge(source, "key = k").whenNotMatchedInsert(of_many_rows, {"key": "k"}).execute()
    with pytest.raises(AnalysisException, match="FILTER"):
        letters.merge(source, "1").whenMatchedDelete().execute()
    assert last(letters).version == 0


BAD_CALLS: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda t, s: t.merge(None, "a = b"), ValueError, "'source' in merge cannot be None"),
    (lambda t, s: t.merge(1, "a = b"), TypeError, "must be DataFrame"),
    (lambda t, s: t.merge(s, None), ValueError, "'condition' in merge cannot be None"),
    (lambda t, s: t.merge(s, 1), TypeError, "must be a Spark SQL Column or a string"),
    (lambda t, s: t.merge(s, "a").whenMatchedUpdate({"v": "1"}), ValueError, "cannot be None"),
    (lambda t, s: t.merge(s, "a").whenMatchedUpdate(1, {"v": "1"}), TypeError, "Column or a string"),
    (lambda t, s: t.merge(s, "a").whenMatchedUpdate("a", 1), TypeError, "must be a dict"),
    (lambda t, s: t.merge(s, "a").whenMatchedUpdate(set={"v": 1}), TypeError, "Values of dict in .* only"),
    (lambda t, s: t.merge(s, "a").whenMatchedUpdate(set={1: "v"}), TypeError, "Keys of dict in .* only"),
    (lambda t, s: t.merge(s, "a").whenMatchedDelete(1), TypeError, "Column or a string"),
    (lambda t, s: t.merge(s, "a").whenNotMatchedInsert("a"), ValueError, "'values' in .* cannot be None"),
    (lambda t, s: t.merge(s, "a").whenNotMatchedBySourceUpdate(), ValueError, "'set' in .* cannot be None"),
    (lambda t, s: t.merge(s, "a").whenNotMatchedBySourceDelete(1), TypeError, "Column or a string"),
]


def test_bad_arguments(letters: DeltaTable, source: DataFrame) -> None:
    for call, error, message in BAD_CALLS:
        with pytest.raises(error, match=message):
            call(letters, source)


def test_only_files_that_can_match_are_read(delta: SparkSession, path: str) -> None:
    """They follow from the source's values, not from literals alone; what is not read cannot be in conflict."""
    delta.range(0, 40, 1, 4).selectExpr("id", "id % 2 AS p").write.format("delta").save(path)
    table = table_ref(delta, path)
    for keys, number in (([12], 1), ([3, 38], 2), ([15, 25], 2), ([None], 0), ([90], 0)):
        source = delta.createDataFrame([(key,) for key in keys], "k long")
        statement = MergeStatement(source=source, condition="k = id", matched=[DeleteClause()])
        with prepare_merge(table, statement) as prepared:
            (scan,) = prepared.transaction.reads().scans
            assert isinstance(scan.files, np.ndarray)
            assert (scan.files.sum(), prepared.num_affected_rows) == (number, number), keys
    source = delta.range(0, 40).toDF("k")
    for condition, number in (("k = id AND id < 5", 1), ("k = id AND k > 33", 1), ("k <=> id AND p = 7", 0)):
        statement = MergeStatement(
            source=source, condition=condition, matched=[DeleteClause(condition="id <> 3 AND k <> 39")]
        )
        with prepare_merge(table, statement) as prepared:
            (scan,) = prepared.transaction.reads().scans
            assert isinstance(scan.files, np.ndarray)
            assert scan.files.sum() >= number
            assert (
                prepared.num_affected_rows
                == delta.range(0, 40)
                .toDF("id")
                .selectExpr("id", "id AS k", "id % 2 AS p")
                .where(condition)
                .where("id <> 3 AND k <> 39")
                .count()
            )


def test_what_the_user_cached_stays_cached(letters: DeltaTable, source: DataFrame) -> None:
    merging = letters.merge(source, "key = k").whenMatchedUpdate(set={"value": "v"})
    merging.whenNotMatchedInsert(values={"key": "k"}).execute()
    assert not source.storageLevel.useMemory
    cached = source.where("v < 0").cache()
    letters.merge(cached, "key = k").whenMatchedDelete().execute()
    assert cached.storageLevel.useMemory
    cached.unpersist()
    with pytest.raises(AnalysisException):
        letters.merge(source, "key = nowhere").whenMatchedDelete().execute()
    assert not source.storageLevel.useMemory
