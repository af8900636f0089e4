"""Tests of `anabranch.tables.DeltaTable` in a client of `anabranch serve`: a separate process without Java.

    python served_tables_program.py sc://host:port FOLDER

Functions get a session and a folder of their own for tables.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as F
from pyspark.sql.connect import proto
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from anabranch.connect_messages.message_classes import message, message_class
from anabranch.connect_messages.message_descriptor import TYPE_PREFIX
from anabranch.connect_messages.message_sender import MessageSender
from anabranch.errors import (
    AppendOnlyTableError,
    CheckConstraintViolationError,
    ConcurrentAppendException,
    ConflictReason,
    DeepCloneError,
    DeltaConcurrentModificationException,
    FeatureNotSupportedByTableError,
    InvalidArgumentError,
    NonPartitionColumnError,
    NotADeltaTableError,
    NothingToConvertError,
    RetentionTooShortError,
    TableAlreadyExistsError,
    UnknownFeatureError,
    UnknownGenerateModeError,
    VersionNotFoundError,
)
from anabranch.errors.arguments import ClientMessageError
from anabranch.tables import DeltaTable, IdentityGenerator
from serve.client_programs import Program, answer_lines, merge_by_every_clause, refused, rows_of
from serve.served import ConnectClient, Served, has_begun, release, until, waiting

PROGRAMS: dict[str, Program] = {}
URL: list[str] = []


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def table_of(spark: Any, path: str, *, rows: int = 10, properties: str = "") -> DeltaTable:
    """A table of one file, with rows 0 v0, 1 v1, …."""
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta {properties}")
    append(spark, path, 0, rows)
    return DeltaTable.forPath(spark, path)


def append(spark: Any, path: str, start: int, end: int) -> None:
    rows = spark.range(start, end, 1, 1).selectExpr("id", "concat('v', id) AS v")
    rows.write.format("delta").mode("append").save(path)


def ids(table: DeltaTable) -> list[int]:
    return [row.id for row in table.toDF().orderBy("id").collect()]


@program
def finds_tables(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    table_of(spark, path)
    spark.sql(f"CREATE TABLE opened_by_name USING delta LOCATION '{path}'")
    for table in (
        DeltaTable.forPath(spark, path),
        DeltaTable.forName(spark, "opened_by_name"),
        DeltaTable.forName(spark, f"delta.`{path}`").alias("one").alias("other"),
    ):
        assert isinstance(table, DeltaTable)
        assert ids(table) == list(range(10))
        assert [row.operation for row in table.history().collect()] == ["WRITE", "CREATE TABLE"]
        assert [row.version for row in table.history(1).collect()] == [1]
        assert table.detail().first()["format"] == "delta"
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, folder)
    spark.sql("DROP TABLE opened_by_name")


@program
def finds_no_table(spark: Any, folder: str) -> None:
    with pytest.raises(NotADeltaTableError) as raised:
        DeltaTable.forName(spark, "no_such_table")
    assert raised.value.table == "no_such_table"
    assert raised.value.found == "the catalog has no such table"
    with pytest.raises(NotADeltaTableError):
        DeltaTable.forPath(spark, folder)
    with pytest.raises(InvalidArgumentError):
        DeltaTable.forPath(spark, folder, {"spark.x": "y"})
    spark.range(3).createOrReplaceTempView("shown")
    with pytest.raises(NotADeltaTableError, match="temporary view"):
        DeltaTable.forName(spark, "shown")


@program
def delete(spark: Any, folder: str) -> None:
    table = table_of(spark, f"{folder}/t").alias("t")
    rows = table.toDF()
    assert table.delete((rows.id < 2) | (F.col("t.v") == "v9")) is None  # type: ignore[func-returns-value]
    table.delete("id = 2 OR t.id IN (SELECT 3)")
    assert ids(table) == [4, 5, 6, 7, 8]
    table.delete()
    assert ids(table) == []


@program
def delete_refused(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, path, properties="TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(AppendOnlyTableError) as raised:
        table.delete("id = 1")
    assert raised.value.operation == "DELETE"
    assert path in raised.value.table
    with refused("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"):
        table.delete("nope = 1")
    with pytest.raises(TypeError, match="condition"):
        table.delete(1)  # type: ignore[arg-type]
    assert len(ids(table)) == 10


@program
def update(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, s STRUCT<`a.b`: INT, c: INT>) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, named_struct('a.b', 1, 'c', 2) FROM range(3)")
    table = DeltaTable.forPath(spark, path).alias("t")
    table.update("t.id = 1", {"t.s.`a.b`": "t.s.c + 40", "id": F.col("id") + 10})
    table.update(F.col("id") == 2, {"s.c": F.lit(7)})
    assert rows_of(table.toDF().selectExpr("id", "s.`a.b`", "s.c").orderBy("id")) == [(0, 1, 2), (2, 1, 7), (11, 42, 2)]
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id >= 0)")
    with pytest.raises(CheckConstraintViolationError, match="positive"):
        table.update(set={"id": "-1"})
    with pytest.raises(ValueError, match="set cannot be None"):
        table.update("id = 1")


@program
def merge(spark: Any, folder: str) -> None:
    table = table_of(spark, f"{folder}/t").alias("t")
    merge_by_every_clause(spark, table)
    wider = spark.sql("SELECT explode(array(1, 60)) AS id, 'w' AS v, true AS added").alias("s")
    merged = table.merge(wider, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert rows_of(merged.execute()) == [(2, 1, 0, 1)]
    assert rows_of(table.toDF().where("added").orderBy("id")) == [(1, "w", True), (60, "w", True)]


@program
def merge_refused(spark: Any, folder: str) -> None:
    table = table_of(spark, f"{folder}/t").alias("t")
    twice = spark.sql("SELECT explode(array(1, 1)) AS id, 'm' AS v").alias("s")
    with refused("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", "21506"):
        table.merge(twice, "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(ValueError, match="'source' in merge"):
        table.merge(None, "t.id = s.id")  # type: ignore[arg-type]
    assert ids(table) == list(range(10))


@program
def conflicts(spark: Any, folder: str) -> None:
    """A MERGE with a slow source, while another writer changes the row that it changes."""
    path = f"{folder}/t"
    table = table_of(spark, path).alias("t")
    other = ConnectClient(Served(None, {"connect": URL[0]}))  # type: ignore[arg-type]
    failures: list[BaseException] = []

    def raced(mark: str, retries: int | None) -> None:
        source = spark.sql(f"SELECT length(v) - length(v) + 1 AS id FROM {waiting(mark)}").alias("s")

        def run() -> None:
            merged = table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "'mine'"})
            try:
                merged.execute(conflictRetries=retries)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: has_begun(other, mark))
        other.rows(f"UPDATE delta.`{path}` SET v = 'theirs' WHERE id = 1")
        release(other, mark)
        thread.join()

    raced("served_conflict", 0)
    (failure,) = failures
    assert isinstance(failure, DeltaConcurrentModificationException), repr(failure)
    assert isinstance(failure, ConcurrentAppendException), repr(failure)
    assert failure.reason is ConflictReason.ROW_LEVEL_CHANGES
    raced("served_retry", 1)
    assert len(failures) == 1, failures[1:]
    assert rows_of(table.toDF().where("id = 1").select("v")) == [("mine",)]
    other.close()


@program
def optimize(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta PARTITIONED BY (p)")
    for start in (0, 10):
        rows = spark.range(start, start + 10, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) AS p")
        rows.write.format("delta").mode("append").save(path)
    table = DeltaTable.forPath(spark, path)
    metrics: Any = table.optimize().where("p = 1").where("p > 0").executeCompaction().first()["metrics"]
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.partitionsOptimized) == (1, 2, 1)
    ordered = table.optimize().executeZOrderBy("id")
    assert ordered.columns == ["path", "metrics"]
    assert ordered.first()["metrics"].zOrderStats.strategyName == "all"
    with pytest.raises(NonPartitionColumnError, match="id"):
        table.optimize().where("id = 1").executeCompaction()
    assert ids(table) == list(range(20))


@program
def restore(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, path)
    append(spark, path, 10, 12)
    row: Any = table.restoreToVersion(1).first()
    assert (row.num_removed_files, row.num_of_files_after_restore) == (1, 1)
    assert len(ids(table)) == 10
    # Nothing is to be done.
    assert table.restoreToVersion(3).collect() == []
    at = table.history().where("version = 2").selectExpr("CAST(timestamp AS STRING) AS at").first()["at"]
    table.restoreToTimestamp(at)
    assert len(ids(table)) == 12
    with refused("DELTA_CANNOT_RESTORE_TABLE_VERSION", "22003"):
        table.restoreToVersion(70)


@program
def convert(spark: Any, folder: str) -> None:
    rows = spark.range(4).selectExpr("id", "id % 2 AS p")
    for name, schema in (("by struct", StructType([StructField("p", IntegerType())])), ("by`text", "p INT")):
        rows.write.partitionBy("p").parquet(f"{folder}/{name}")
        quoted = f"{folder}/{name}".replace("`", "``")
        table = DeltaTable.convertToDelta(spark, f"parquet.`{quoted}`", schema)  # type: ignore[arg-type]
        assert (ids(table), table.toDF().schema["p"].dataType) == ([0, 1, 2, 3], IntegerType())
    os.mkdir(f"{folder}/empty")
    with pytest.raises(NothingToConvertError):
        DeltaTable.convertToDelta(spark, f"parquet.`{folder}/empty`")


@program
def clone(spark: Any, folder: str) -> None:
    table = table_of(spark, f"{folder}/t")
    at = table.history(1).first()["timestamp"]
    table.delete("id < 5")
    by_path = table.clone(f"{folder}/clone", isShallow=True, properties={"mine.a": "b"})
    assert ids(by_path) == [5, 6, 7, 8, 9]
    assert by_path.detail().first()["properties"]["mine.a"] == "b"
    assert len(ids(table.cloneAtVersion(1, "served_clone", isShallow=True))) == 10
    assert ids(table.clone("served_clone", isShallow=True, replace=True)) == [5, 6, 7, 8, 9]
    then = at.replace(tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=1)
    assert len(ids(table.cloneAtTimestamp(then, f"{folder}/then", isShallow=True))) == 10
    with pytest.raises(DeepCloneError):
        table.clone(f"{folder}/deep")
    with pytest.raises(VersionNotFoundError):
        table.cloneAtVersion(70, f"{folder}/other", isShallow=True)
    with pytest.raises(TableAlreadyExistsError):
        table.clone(f"{folder}/clone", isShallow=True)
    spark.sql("DROP TABLE served_clone")


@program
def vacuum(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, path)
    table.delete()
    with pytest.raises(RetentionTooShortError):
        table.vacuum(0.5)
    assert len(list(Path(path).glob("*.parquet"))) == 1
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    assert table.vacuum(0).collect() == []
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert list(Path(path).glob("*.parquet")) == []


@program
def protocol_and_manifests(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    plain = "('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '2', 'delta.enableDeletionVectors' = 'false')"
    table = table_of(spark, path, properties=f"TBLPROPERTIES {plain}")
    table.upgradeTableProtocol(1, 4)
    assert table.detail().first()["minWriterVersion"] == 4
    table.generate("symlink_format_manifest")
    assert Path(path, "_symlink_format_manifest", "manifest").exists()
    table.addFeatureSupport("v2Checkpoint")
    assert "v2Checkpoint" in table.detail().first()["tableFeatures"]
    table.dropFeatureSupport("v2Checkpoint")
    assert "v2Checkpoint" not in table.detail().first()["tableFeatures"]
    with pytest.raises(UnknownFeatureError):
        table.addFeatureSupport("nope")
    with pytest.raises(FeatureNotSupportedByTableError):
        table.dropFeatureSupport("v2Checkpoint", True)
    with pytest.raises(UnknownGenerateModeError):
        table.generate("nope")


@program
def create(spark: Any, folder: str) -> None:
    table = (
        DeltaTable.create(spark)
        .tableName("of_served_client")
        .addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator(5, 2))
        .addColumn("n", IntegerType(), nullable=False, comment="a number")
        .addColumn("next", "INT", generatedAlwaysAs="n + 1")
        .addColumns(StructType([StructField("words", ArrayType(StringType()), True, {"mine": 1})]))
        .addColumn("p", StringType())
        .partitionedBy("p")
        .property("mine.key", "value")
        .comment("about")
        .execute()
    )
    spark.sql("INSERT INTO of_served_client (n, words, p) VALUES (1, array('a'), 'x')")
    assert rows_of(table.toDF()) == [(5, 1, 2, ["a"], "x")]
    schema = table.toDF().schema
    assert (schema["n"].nullable, schema["n"].metadata["comment"]) == (False, "a number")
    assert schema["words"].metadata == {"mine": 1}
    row: Any = table.detail().first()
    assert (row.description, row.partitionColumns, row.properties["mine.key"]) == ("about", ["p"], "value")
    spark.sql("DROP TABLE of_served_client")


@program
def create_in_every_mode(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    made = DeltaTable.create(spark).location(path).addColumn("id", LongType()).clusterBy("id").execute()
    assert made.detail().first()["clusteringColumns"] == ["id"]
    insert = f"INSERT INTO delta.`{path}` VALUES (1)"
    spark.sql(insert)
    assert ids(DeltaTable.createIfNotExists(spark).location(path).addColumn("o", LongType()).execute()) == [1]
    assert ids(DeltaTable.replace(spark).location(path).addColumn("id", LongType()).execute()) == []
    spark.sql(insert)
    assert ids(DeltaTable.createOrReplace(spark).location(path).addColumn("id", LongType()).execute()) == []
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(spark).location(path).addColumn("id", LongType()).execute()
    with pytest.raises(NotADeltaTableError, match="the table to replace cannot be found"):
        DeltaTable.replace(spark).location(f"{folder}/none").addColumn("id", LongType()).execute()
    with pytest.raises(InvalidArgumentError, match="name or a location"):
        DeltaTable.create(spark).addColumn("id", LongType()).execute()


@program
def messages_that_lack_something(spark: Any, folder: str) -> None:
    path = f"{folder}/t"
    table_of(spark, path)
    sender = MessageSender(spark)
    table = message("DeltaTable", path=message("DeltaTable.Path", path=path))
    target, source = sender.relation(DeltaTable.forPath(spark, path).toDF()), sender.relation(spark.range(3))
    merged = {"target": target, "source": source, "condition": sender.expression("true")}

    def clause(field: str, action: str | None = None) -> Any:
        content: Any = {}
        if action is not None:
            kind = "".join(word.title() for word in action.split("_"))
            content = {action: message(f"MergeIntoTable.Action.{kind}")}
        return message("MergeIntoTable", **merged, **{field: [message("MergeIntoTable.Action", **content)]})

    mode = message_class("CreateDeltaTable")(mode=70)
    for sent, problem in (
        (message("Scan"), "names no table"),
        (message("RestoreTable", table=table), "neither version nor timestamp"),
        (message("DeleteFromTable"), "target is not set"),
        (clause("matched_actions"), "no action for rows that are matched"),
        (clause("matched_actions", "insert_action"), "the action insert for rows that are matched"),
        (clause("not_matched_actions", "delete_action"), "the action delete for rows that are not matched"),
        (clause("not_matched_by_source_actions", "update_star_action"), "for rows that are not matched by the source"),
        (message("MergeIntoTable", target=target, source=source), "condition is not set"),
        (
            message("ConvertToDelta", identifier="parquet.`/x`", partition_schema_struct=sender.data_type(LongType())),
            "is not a struct",
        ),
    ):
        with pytest.raises(ClientMessageError, match=problem):
            sender.rows(sent)
    for sent, problem in (
        (mode, "mode UNKNOWN_ENUM_VALUE_Mode_70 is not known"),
        (message("Generate", table=table), "mode is empty"),
        (message("CloneTable", table=table), "target is empty"),
        (message("AddFeatureSupport", table=table), "feature_name is empty"),
    ):
        with pytest.raises(ClientMessageError, match=problem):
            sender.run(sent)
    for kind, content, problem in (
        ("DeltaCommand", b"\x0a\x05abc", "ended unexpectedly|truncated"),
        ("DeltaCommand", b"\x0b", "end-group|ended unexpectedly|group"),
        ("DeltaCommand", b"", "nothing that this release handles"),
        ("DeltaCommand", b"\xfa\x06\x00", "nothing that this release handles"),
        ("DeltaCommand", b"\x22\x03\x12\x01\xff", "UTF-8"),
        ("DeltaRelation", b"\x0a\x00", "it is a DeltaRelation"),
    ):
        command: Any = proto.Command()
        command.extension.type_url = f"{TYPE_PREFIX}{kind}"
        command.extension.value = content
        with pytest.raises(PySparkException, match=problem) as raised:
            spark.client.execute_command(command)
        assert raised.value.getCondition() == ClientMessageError.condition
    assert len(ids(DeltaTable.forPath(spark, path))) == 10


@program
def plans_are_nested_deeply(spark: Any, folder: str) -> None:
    """Messages that are nested deeper than protobuf parses by default."""
    table = table_of(spark, f"{folder}/t")
    source = spark.range(1)
    for number in range(150):
        source = source.withColumnsRenamed({"id": f"id{number}"}).withColumnsRenamed({f"id{number}": "id"})
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert ids(table) == list(range(1, 10))


@program
def opens_no_file_of_a_table(spark: Any, folder: str) -> None:
    """The client may have no access to the storage."""
    path = f"{folder}/t"
    opened: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "os.listdir", "os.scandir", "os.mkdir"} and str(arguments[0]).startswith(path):
            opened.append(f"{event} {arguments[0]}")

    sys.addaudithook(note)
    DeltaTable.create(spark).location(path).addColumn("id", LongType()).execute()
    table = DeltaTable.forPath(spark, path).alias("t")
    table.merge(spark.range(5).alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    table.update("id = 1", {"id": "10"})
    table.delete("id = 2")
    table.optimize().executeCompaction()
    table.vacuum()
    table.restoreToVersion(1)
    assert ids(table) == [0, 1, 2, 3, 4]
    assert opened == []


def main(url: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    URL.append(url)
    spark = SparkSession.builder.remote(url).getOrCreate()
    answer_lines(PROGRAMS, folder, spark)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
