"""What delta-spark's own client of Spark Connect does with a server: a process of its own, as its package is called `delta`.

    python delta_client_program.py sc://host:port FOLDER

Functions get a session, the class `DeltaTable`, and a folder of their own for tables.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql.connect import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from serve.client_programs import Program, answer_lines, merge_by_every_clause, refused, rows_of
from serve.served import has_begun, release, until, waiting

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def table_of(spark: Any, delta: Any, path: str, *, rows: int = 10, properties: str = "") -> Any:
    """A table with rows 0 v0, 1 v1, …; of one file."""
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta {properties}")
    append(spark, path, 0, rows)
    return delta.forPath(spark, path)


def append(spark: Any, path: str, start: int, end: int) -> None:
    rows = spark.range(start, end, 1, 1).selectExpr("id", "concat('v', id) AS v")
    rows.write.format("delta").mode("append").save(path)


def ids(table: Any) -> list[int]:
    return [row.id for row in table.toDF().orderBy("id").collect()]


def time_of(table: Any, version: int) -> str:
    return str(table.history().where(f"version = {version}").selectExpr("CAST(timestamp AS STRING) AS at").first().at)


@program
def reads(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    assert delta.isDeltaTable(spark, path)
    assert not delta.isDeltaTable(spark, folder)
    assert ids(table.alias("t")) == list(range(10))
    assert [row.operation for row in table.history().collect()] == ["WRITE", "CREATE TABLE"]
    assert len(table.history(1).collect()) == 1
    assert table.detail().first().format == "delta"


@program
def reads_of_no_table(spark: Any, delta: Any, folder: str) -> None:
    for read in (
        lambda table: table.toDF().collect(),
        lambda table: table.history().collect(),
        lambda table: table.detail().collect(),
    ):
        with refused("DELTA_MISSING_DELTA_TABLE", "42P01"):
            read(delta.forPath(spark, folder))
        with refused("DELTA_MISSING_DELTA_TABLE", "42P01"):
            read(delta.forName(spark, "no_such_table"))
    with refused("ANABRANCH_DELTA_CONNECT_UNSUPPORTED", "0A000"):
        delta.isDeltaTable(spark, "")


@program
def delete(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    result = table.delete("id < 2")
    assert (result.columns, rows_of(result)) == (["num_affected_rows"], [(2,)])
    aliased = table.alias("t")
    assert rows_of(aliased.delete((aliased.toDF().id == 2) | (F.col("t.v") == "v9"))) == [(2,)]
    spark.range(3, 5).createOrReplaceTempView("gone")
    assert rows_of(table.delete("id IN (SELECT id FROM gone)")) == [(2,)]
    assert ids(table) == [5, 6, 7, 8]
    assert rows_of(table.delete()) == [(4,)]
    assert ids(table) == []


@program
def delete_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t", properties="TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with refused("DELTA_CANNOT_MODIFY_APPEND_ONLY", "42809"):
        table.delete("id = 1")
    with refused("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"):
        table.delete("nope = 1")
    spark.range(3).createOrReplaceTempView("shown")
    with refused("DELTA_MISSING_DELTA_TABLE", "42P01"):
        delta.forName(spark, "shown").delete()
    assert len(ids(table)) == 10


@program
def update(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, s STRUCT<`a.b`: INT, c: INT>) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, named_struct('a.b', 1, 'c', 2) FROM range(3)")
    table = delta.forPath(spark, path).alias("t")
    result = table.update("t.id = 1", {"t.s.`a.b`": "t.s.c + 40", "id": F.col("id") + 10})
    assert (result.columns, rows_of(result)) == (["num_affected_rows"], [(1,)])
    assert rows_of(table.update(F.col("id") == 2, {"s.c": F.lit(7)})) == [(1,)]
    assert rows_of(table.toDF().selectExpr("id", "s.`a.b`", "s.c").orderBy("id")) == [(0, 1, 2), (2, 1, 7), (11, 42, 2)]
    assert rows_of(table.update(set={"id": "0"})) == [(3,)]


@program
def update_refused(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id >= 0)")
    with refused("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001"):
        table.update("id = 1", {"id": "-1"})
    with refused("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"):
        table.update(set={"nope": "1"})
    assert ids(table) == list(range(10))


@program
def merge(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t").alias("t")
    merge_by_every_clause(spark, table)


@program
def merge_of_all_columns(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path, rows=2).alias("t")
    # The server keeps plans of its clients: what it kept has the columns of then.
    assert rows_of(table.toDF().orderBy("id")) == [(0, "v0"), (1, "v1")]
    assert table.toDF().columns == ["id", "v"]
    source = spark.sql("SELECT explode(array(1, 50)) AS id, 'm' AS v, true AS added")
    merged = table.merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    assert rows_of(merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()) == [(2, 1, 0, 1)]
    expected = [(0, "v0", None), (1, "m", True), (50, "m", True)]
    assert rows_of(table.toDF().orderBy("id")) == expected


@program
def merge_of_a_deep_plan(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t").alias("t")
    source = spark.range(3).selectExpr("id", "'z' AS v")
    for _ in range(150):
        source = source.withColumn("v", F.col("v"))
    merged = table.merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert rows_of(merged) == [(3, 3, 0, 0)]


@program
def merge_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t").alias("t")
    twice = spark.sql("SELECT explode(array(1, 1)) AS id, 'm' AS v").alias("s")
    with refused("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", "21506"):
        table.merge(twice, "t.id = s.id").whenMatchedUpdateAll().execute()
    with refused("DELTA_MERGE_MISSING_WHEN", "42601"):
        table.merge(twice, "t.id = s.id").execute()
    with refused("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"):
        table.merge(twice, "t.nope = s.id").whenMatchedDelete().execute()
    assert ids(table) == list(range(10))


@program
def optimize(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta PARTITIONED BY (p)")
    for start in (0, 10):
        spark.range(start, start + 10, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) AS p").write.format("delta").mode(
            "append"
        ).save(path)
    table = delta.forPath(spark, path)
    result = table.optimize().where("p = 1").executeCompaction()
    assert result.columns == ["path", "metrics"]
    metrics = result.first().metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.partitionsOptimized) == (1, 2, 1)
    assert table.optimize().executeCompaction().first().metrics.numFilesAdded == 1
    ordered = table.optimize().where("p >= 0").where("p < 1").executeZOrderBy("id").first().metrics
    assert (ordered.numFilesAdded, ordered.zOrderStats.strategyName) == (1, "all")
    assert ids(table) == list(range(20))
    assert [row.operation for row in table.history(3).collect()] == ["OPTIMIZE"] * 3


@program
def optimize_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    with refused("DELTA_NON_PARTITION_COLUMN_REFERENCE", "42P10"):
        table.optimize().where("id = 1").executeCompaction()
    with refused("DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST", "42703"):
        table.optimize().executeZOrderBy("nope")
    assert len(table.history().collect()) == 2


@program
def restore(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    append(spark, path, 10, 12)
    result = table.restoreToVersion(1)
    metrics = dict(zip(result.columns, result.first(), strict=True))
    assert (metrics["num_removed_files"], metrics["num_of_files_after_restore"]) == (1, 1), metrics
    assert len(ids(table)) == 10
    table.restoreToTimestamp(time_of(table, 2))
    assert len(ids(table)) == 12


@program
def restore_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    with refused("DELTA_CANNOT_RESTORE_TABLE_VERSION", "22003"):
        table.restoreToVersion(70)
    with refused("DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", "22003"):
        table.restoreToTimestamp("1999-01-01")
    assert table.history().first().version == 1


@program
def convert(spark: Any, delta: Any, folder: str) -> None:
    rows = spark.range(4).selectExpr("id", "id % 2 AS p")
    struct = StructType([StructField("p", IntegerType())])
    for name, schema in (("by struct", struct), ("by`text", "p INT")):
        rows.write.partitionBy("p").parquet(f"{folder}/{name}")
        quoted = f"{folder}/{name}".replace("`", "``")
        table = delta.convertToDelta(spark, f"parquet.`{quoted}`", schema)
        assert (ids(table), table.toDF().schema["p"].dataType) == ([0, 1, 2, 3], IntegerType())
        assert delta.isDeltaTable(spark, f"{folder}/{name}")
    rows.select("id").write.format("parquet").saveAsTable("to_convert")
    assert ids(delta.convertToDelta(spark, "to_convert")) == [0, 1, 2, 3]
    assert spark.sql("DESCRIBE DETAIL to_convert").first().format == "delta"


@program
def convert_refused(spark: Any, delta: Any, folder: str) -> None:
    os.mkdir(f"{folder}/empty")
    with refused("DELTA_EMPTY_DIRECTORY", "42K03"):
        delta.convertToDelta(spark, f"parquet.`{folder}/empty`")
    spark.range(3).write.format("json").save(f"{folder}/json")
    with refused("DELTA_CONVERT_NON_PARQUET_TABLE", "0AKDC"):
        delta.convertToDelta(spark, f"json.`{folder}/json`")


@program
def clone(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    at = time_of(table, 1)
    table.delete("id < 5")
    by_path = table.clone(f"{folder}/clone", isShallow=True, properties={"mine.a": "b"})
    assert ids(by_path) == [5, 6, 7, 8, 9]
    assert by_path.detail().first().properties["mine.a"] == "b"
    assert len(ids(table.cloneAtVersion(1, "clone_of_client", isShallow=True))) == 10
    assert ids(table.clone("clone_of_client", isShallow=True, replace=True)) == [5, 6, 7, 8, 9]
    assert len(ids(table.cloneAtTimestamp(at, f"delta.`{folder}/then`", isShallow=True))) == 10


@program
def clone_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    with refused("DELTA_UNSUPPORTED_DEEP_CLONE", "0A000"):
        table.clone(f"{folder}/clone")
    table.clone(f"{folder}/clone", isShallow=True)
    with refused("DELTA_TABLE_ALREADY_EXISTS", "42P07"):
        table.clone(f"{folder}/clone", isShallow=True)
    with refused("DELTA_VERSION_NOT_FOUND", "22003"):
        table.cloneAtVersion(70, f"{folder}/other", isShallow=True)
    assert not os.path.exists(f"{folder}/other")


@program
def vacuum(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    spark.sql(f"INSERT OVERWRITE delta.`{path}` VALUES (1, 'x')")
    assert len(list(Path(path).glob("*.parquet"))) == 2
    table.vacuum()
    table.vacuum(1000.5)
    assert len(list(Path(path).glob("*.parquet"))) == 2
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table.vacuum(0)
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert len(list(Path(path).glob("*.parquet"))) == 1
    assert ids(table) == [1]


@program
def vacuum_refused(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    table.delete()
    with refused("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "22003"):
        table.vacuum(0.5)
    assert len(list(Path(path).glob("*.parquet"))) == 1


@program
def protocol(spark: Any, delta: Any, folder: str) -> None:
    properties = "TBLPROPERTIES ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '2', 'delta.enableDeletionVectors' = 'false')"
    table = table_of(spark, delta, f"{folder}/t", properties=properties)

    def versions() -> tuple[int, int]:
        detail = table.detail().first()
        return detail.minReaderVersion, detail.minWriterVersion

    def features() -> list[str]:
        return list(table.detail().first().tableFeatures)

    assert versions() == (1, 2)
    table.upgradeTableProtocol(1, 4)
    assert versions() == (1, 4)
    table.addFeatureSupport("v2Checkpoint")
    assert versions() == (3, 7)
    assert "v2Checkpoint" in features()
    table.dropFeatureSupport("v2Checkpoint")
    assert "v2Checkpoint" not in features()


@program
def protocol_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    with refused("DELTA_INVALID_TABLE_PROPERTY", "22023"):
        table.upgradeTableProtocol(1, 70)
    with refused("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", "56038"):
        table.addFeatureSupport("nope")
    with refused("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "55000"):
        table.dropFeatureSupport("v2Checkpoint")
    with refused("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "55000"):
        table.dropFeatureSupport("v2Checkpoint", True)
    assert table.history().first().version == 1


@program
def generate(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table = table_of(spark, delta, path)
    table.generate("symlink_format_manifest")
    named = Path(path, "_symlink_format_manifest", "manifest").read_text().split()
    assert [name.rpartition("/")[2] for name in named] == [file.name for file in Path(path).glob("*.parquet")]


@program
def generate_refused(spark: Any, delta: Any, folder: str) -> None:
    table = table_of(spark, delta, f"{folder}/t")
    with refused("DELTA_MODE_NOT_SUPPORTED", "0AKDC"):
        table.generate("nope")


@program
def create(spark: Any, delta: Any, folder: str) -> None:
    identity = importlib.import_module("delta.tables").IdentityGenerator
    table = (
        delta.create(spark)
        .tableName("of_client")
        .addColumn("id", "BIGINT", generatedByDefaultAs=identity(5, 2))
        .addColumn("always", "BIGINT", generatedAlwaysAs=identity())
        .addColumn("n", IntegerType(), nullable=False, comment="a number")
        .addColumn("next", "INT", generatedAlwaysAs="n + 1")
        .addColumns(StructType([StructField("words", ArrayType(StringType())), StructField("p", StringType())]))
        .partitionedBy("p")
        .property("mine.key", "value")
        .comment("about")
        .execute()
    )
    spark.sql("INSERT INTO of_client (n, words, p) VALUES (1, array('a'), 'x')")
    assert rows_of(table.toDF()) == [(5, 1, 1, 2, ["a"], "x")]
    schema = table.toDF().schema
    assert (schema["n"].nullable, schema["words"].dataType) == (False, ArrayType(StringType()))
    assert schema["n"].metadata["comment"] == "a number"
    detail = table.detail().first()
    assert (detail.description, detail.partitionColumns, detail.properties["mine.key"]) == ("about", ["p"], "value")
    spark.sql("DROP TABLE of_client")


@program
def creation_modes(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    made = delta.create(spark).location(path).addColumn("id", "BIGINT").clusterBy("id").execute()
    assert made.detail().first().clusteringColumns == ["id"]
    append_ids = f"INSERT INTO delta.`{path}` VALUES (1)"
    spark.sql(append_ids)
    assert ids(delta.createIfNotExists(spark).location(path).addColumn("other", "INT").execute()) == [1]
    assert ids(delta.replace(spark).location(path).addColumn("id", "BIGINT").execute()) == []
    spark.sql(append_ids)
    assert ids(delta.createOrReplace(spark).tableName(f"delta.`{path}`").addColumn("id", "INT").execute()) == []
    assert made.history(1).first().operation == "CREATE OR REPLACE TABLE"


@program
def conflicts(spark: Any, delta: Any, folder: str) -> None:
    """A MERGE whose source takes its time, while another client changes the same row: delta-spark's own exception."""
    from delta.exceptions import ConcurrentAppendException  # type: ignore[import-not-found]

    path = f"{folder}/t"
    table = table_of(spark, delta, path).alias("t")
    mark = "delta_client_conflict"
    source = spark.sql(f"SELECT length(v) - length(v) + 1 AS id FROM {waiting(mark)}").alias("s")
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"v": "'mine'"}).execute()
        except Exception as error:
            failures.append(error)

    merging = threading.Thread(target=merge)
    merging.start()
    until(lambda: has_begun(Rows(spark), mark))  # type: ignore[arg-type]
    spark.sql(f"UPDATE delta.`{path}` SET v = 'theirs' WHERE id = 1").collect()
    release(Rows(spark), mark)  # type: ignore[arg-type]
    merging.join()
    (failure,) = failures
    assert isinstance(failure, ConcurrentAppendException), repr(failure)
    assert failure.getCondition().startswith("DELTA_CONCURRENT_APPEND"), repr(failure)


class Rows:
    """What a client must supply for the placeholders of waiting queries."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return rows_of(self._spark.sql(statement))


@program
def create_refused(spark: Any, delta: Any, folder: str) -> None:
    path = f"{folder}/t"
    table_of(spark, delta, path)
    with refused("DELTA_TABLE_ALREADY_EXISTS", "42P07"):
        delta.create(spark).location(path).addColumn("id", "BIGINT").execute()
    with refused("DELTA_MISSING_DELTA_TABLE", "42P01"):
        delta.replace(spark).location(f"{folder}/none").addColumn("id", "BIGINT").execute()
    with refused("UNSUPPORTED_DATATYPE", "0A000"):
        delta.create(spark).location(f"{folder}/none").addColumn("id", "NO TYPE").execute()
    assert not os.path.exists(f"{folder}/none")


def main(url: str, folder: str) -> None:
    from pyspark.sql.connect.session import SparkSession

    delta: Any = importlib.import_module("delta.connect.tables")
    spark = SparkSession.builder.remote(url).create()
    answer_lines(PROGRAMS, folder, spark, delta.DeltaTable)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
