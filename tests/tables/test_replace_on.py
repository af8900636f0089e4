"""The write options replaceOn and replaceUsing: rows come in the place of those that they match, in one commit."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.commits import AppendOnlyTableError
from anabranch.errors.dml import (
    AmbiguousReplaceOnError,
    FilterOverwriteError,
    IncompatibleOptionsError,
    MisalignedReplaceUsingError,
    PartitionOverwriteError,
    TableReplacementError,
    UnknownReplaceUsingColumnError,
    UnresolvedReplaceOnError,
)
from anabranch.errors.schema import SchemaMismatchError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

OLD = [(1, "old", 1), (2, "old", 2), (2, "old", 3), (None, "old", 4)]
NEW = [(2, "new", 5), (2, "new", 6), (7, "new", 7), (None, "new", 8)]


def frame(delta: SparkSession, rows: list[Any], columns: str = "id INT, word STRING, n INT") -> DataFrame:
    return delta.createDataFrame(rows, columns)


def made(delta: SparkSession, path: str) -> str:
    frame(delta, OLD).coalesce(1).write.format("delta").save(path)
    return path


def rows(delta: SparkSession, path: str) -> list[Any]:
    return sorted((tuple(row) for row in delta.read.format("delta").load(path).collect()), key=lambda row: row[2])


def write(source: DataFrame, path: str, mode: str = "overwrite", **options: str) -> None:
    source.write.format("delta").mode(mode).options(**options).save(path)


def last(delta: SparkSession, path: str) -> Any:
    return DeltaTable.forPath(delta, path).history(1).collect()[0]


def test_replace_using(delta: SparkSession, path: str) -> None:
    """Each row that equals a new one in the columns goes, however many they are; null equals nothing."""
    made(delta, path)
    write(frame(delta, NEW), path, REPLACEUSING=" id , id ")
    assert rows(delta, path) == [OLD[0], OLD[3], *NEW]
    entry = last(delta, path)
    assert (entry.operation, entry.operationParameters["replaceUsingCols"]) == ("WRITE", "( id , id )")
    assert (entry.operationMetrics["numOutputRows"], entry.operationMetrics["numDeletedRows"]) == ("4", "2")
    write(frame(delta, [(7, "by name", 9)]).select("n", "word", "id"), path, replaceUsing="ID,`id`")
    assert [row[1] for row in rows(delta, path) if row[0] == 7] == ["by name"]
    write(frame(delta, [(7, "more", 9)]), path, mode="append", replaceUsing="id")
    assert sum(row[0] == 7 for row in rows(delta, path)) == 2, "an append takes nothing away"


def test_replace_on(delta: SparkSession, path: str) -> None:
    """Any condition on rows of both; they are distinguished by alias, or where only one of them has the column."""
    made(delta, path)
    source = frame(delta, NEW).alias("s").where("n > 0")
    write(source, path, replaceOn="t.id <=> s.id AND s.n > 5", targetAlias="t")
    assert rows(delta, path) == [OLD[0], *NEW]
    assert last(delta, path).operationParameters["replaceOnCond"] == "t.id <=> s.id AND s.n > 5"
    write(frame(delta, [(3, "x", 9)]).alias("s"), path, replaceOn="`a t`.id = 1 OR `A T`.n = 8", targetAlias="a t")
    assert [row[2] for row in rows(delta, path)] == [5, 6, 7, 9]
    grown = frame(delta, [(3, "y", 10, 2)], "id INT, word STRING, n INT, key INT")
    with pytest.raises(SchemaMismatchError):
        write(grown, path, replaceOn="t.id = key", targetAlias="t")
    write(grown, path, replaceOn="t.id = key", targetAlias="t", mergeSchema="true")
    assert [row[1:] for row in rows(delta, path)] == [("new", 7, None), ("x", 9, None), ("y", 10, 2)]
    write(grown.where("false").alias("s"), path, replaceOn="t.id > 0", targetAlias="t")
    assert len(rows(delta, path)) == 3, "where no row is written, none matches"


def test_names_that_do_not_say_whose_column_they_mean(delta: SparkSession, path: str) -> None:
    made(delta, path)
    source = frame(delta, NEW)
    for aliased, condition, alias, error in [
        (source, "id = 5", {}, AmbiguousReplaceOnError),
        (source.alias("s"), "s.id = s.id", {"targetAlias": "s"}, AmbiguousReplaceOnError),
        (source.alias("s"), "t.id = id", {"targetAlias": "t"}, AmbiguousReplaceOnError),
        (source.alias("s"), "word.id = 1", {"targetAlias": "word"}, AmbiguousReplaceOnError),
        (source.alias("s"), "t.id = s.id", {}, UnresolvedReplaceOnError),
        (source, "t.id = s.id", {"targetAlias": "t"}, UnresolvedReplaceOnError),
    ]:
        with pytest.raises(error, match="targetAlias"):
            write(aliased, path, replaceOn=condition, **alias)
    with pytest.raises(UnknownReplaceUsingColumnError, match="nope"):
        write(source, path, replaceUsing="nope")
    with pytest.raises(UnknownReplaceUsingColumnError, match="query"):
        write(source.drop("id"), path, replaceUsing="id")
    assert rows(delta, path) == OLD


def test_what_the_options_do_not_go_with(delta: SparkSession, path: str) -> None:
    made(delta, path)
    source = frame(delta, NEW)
    for how in ({"replaceOn": "true"}, {"replaceUsing": "id"}):
        for other, error in [
            ({"replaceOn": "true", "replaceUsing": "id"}, IncompatibleOptionsError),
            ({"replaceWhere": "id = 1"}, FilterOverwriteError),
            ({"partitionOverwriteMode": "dynamic"}, PartitionOverwriteError),
            ({"overwriteSchema": "true"}, IncompatibleOptionsError),
            ({"dataChange": "false"}, IncompatibleOptionsError),
        ]:
            with pytest.raises(error):
                write(source, path, **how, **{key: value for key, value in other.items() if key not in how})
        writer = source.writeTo(f"delta.`{path}`").options(**how)
        with pytest.raises(FilterOverwriteError):
            writer.overwrite(F.col("id") > 0)
        with pytest.raises(PartitionOverwriteError):
            writer.overwritePartitions()
        with pytest.raises(TableReplacementError):
            writer.using("delta").createOrReplace()
        with pytest.raises(NotADeltaTableError):
            write(source, f"{path} 2", **how)
    assert rows(delta, path) == OLD
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(AppendOnlyTableError):
        write(source, path, replaceUsing="id")


def test_tables_with_a_name(delta: SparkSession, name: str) -> None:
    """saveAsTable by name, insertInto by position; the session's way to overwrite partitions plays no part."""
    frame(delta, OLD).write.format("delta").partitionBy("n").saveAsTable(name)

    def writer(row: tuple[Any, ...], columns: str, **options: str) -> DataFrameWriter:
        return frame(delta, [row], columns).write.format("delta").mode("overwrite").options(**options)

    delta.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        writer(("a", 20, 1), "word STRING, n INT, id INT", replaceUsing="id").saveAsTable(name)
        writer((2, "b", 21), "id INT, other STRING, third INT", replaceUsing="id").insertInto(name)
        writer((5, "c", 22), "id INT, other STRING, third INT", replaceOn="n = third - 18").insertInto(name)
    finally:
        delta.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(tuple(row) for row in delta.table(name).collect()) == [(1, "a", 20), (2, "b", 21), (5, "c", 22)]
    assert {row.operation for row in delta.sql(f"DESCRIBE HISTORY {name} LIMIT 3").collect()} == {"WRITE"}
    with pytest.raises(MisalignedReplaceUsingError, match="id"):
        writer(("c", 1, 22), "word STRING, id INT, n INT", replaceUsing="id").insertInto(name)


def test_the_alias_goes_with_replace_where_too(delta: SparkSession, path: str) -> None:
    made(delta, path)
    write(frame(delta, NEW[:2]), path, replaceWhere="t.id = 2", targetAlias="t")
    assert rows(delta, path) == [OLD[0], OLD[3], *NEW[:2]]


def test_rows_made_from_the_table_itself(delta: SparkSession, path: str) -> None:
    """They are evaluated once, and must not have changed until they are written."""
    made(delta, path)
    own = delta.read.format("delta").load(path).where("n = 3").selectExpr("id", "'own' AS word", "n + 10 AS n")
    write(own, path, replaceUsing="id")
    assert rows(delta, path) == [OLD[0], OLD[3], (2, "own", 13)]
    stale = delta.read.format("delta").load(path).where("id = 2").alias("s")
    DeltaTable.forPath(delta, path).update("id = 2", {"n": "14"})
    write(stale, path, replaceOn="t.id = s.id", targetAlias="t")
    assert rows(delta, path)[-1] == (2, "own", 14)
    assert not [view for view in delta.catalog.listTables() if view.name.startswith("__anabranch")]
