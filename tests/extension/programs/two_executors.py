"""Executors in processes of their own, which have stock Spark and none of our classes but those that write nested
ids."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from start import FOLDER, started

import anabranch
from anabranch.commands.dml import file_sample
from anabranch.commands.merge import merge_at_once, merge_rows
from anabranch.tables import DeltaTable

# Workers write into Spark's home: one of our own, of links to what is installed.
home = Path(FOLDER, "home")
home.mkdir()
for entry in Path(next(iter(pyspark.__path__))).iterdir():
    (home / entry.name).symlink_to(entry)
os.environ["SPARK_HOME"] = str(home)
spark = anabranch.enable(
    started(
        **{
            "spark.master": "local-cluster[2,1,1024]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.default.parallelism": "4",
        }
    )
)
VECTORS = "'delta.enableDeletionVectors' = 'true'"
MAPPING = "'delta.columnMapping.mode' = 'name'"
FEED = "'delta.enableChangeDataFeed' = 'true'"


def one(query: str) -> tuple[Any, ...]:
    row = spark.sql(query).first()
    assert row is not None
    return tuple(row)


def files(table: str) -> int:
    return int(spark.sql(f"DESCRIBE DETAIL {table}").first().numFiles)


def both_executors_work() -> None:
    jvm: Any = spark._jvm
    status = jvm.org.apache.spark.SparkContext.getOrCreate().statusTracker()
    for _ in range(600):
        # The driver is counted, too.
        if len(status.getExecutorInfos()) == 3:
            break
        jvm.java.lang.Thread.sleep(100)
    assert len(status.getExecutorInfos()) == 3
    # As many tasks as cores, and none so short that one executor does them all.
    pids = spark.sparkContext.parallelize(range(2), 2).map(lambda _: __import__("time").sleep(1) or os.getppid())
    assert len(set(pids.collect())) == 2


def rows_are_hidden_by_vectors() -> None:
    spark.sql(
        f"CREATE TABLE t (id BIGINT, part INT, v STRING) USING delta PARTITIONED BY (part) TBLPROPERTIES ({VECTORS}, {FEED})"
    )
    rows = spark.range(0, 4000, 1, 4).select("id", (F.col("id") % 2).cast("int").alias("part"), F.lit("a").alias("v"))
    rows.write.format("delta").mode("append").saveAsTable("t")
    before = files("t")
    assert one("DELETE FROM t WHERE id % 10 = 3") == (400,)
    assert files("t") == before
    assert one("SELECT count(*), count_if(id % 10 = 3), sum(part) FROM t") == (3600, 0, 1600)
    assert one("SELECT count(*) FROM t VERSION AS OF 1") == (4000,)
    # More columns than Spark reads in batches.
    spark.conf.set("spark.sql.codegen.maxFields", "1")
    assert one("SELECT count(v), sum(id % 10) FROM t WHERE id < 100") == (90, 420)
    spark.conf.unset("spark.sql.codegen.maxFields")
    # Code that is too long for the JVM's compiler: Spark sends expressions to executors instead.
    spark.conf.set("spark.sql.codegen.hugeMethodLimit", "1")
    assert one("SELECT count(v), sum(id % 10) FROM t WHERE id < 100") == (90, 420)
    spark.conf.unset("spark.sql.codegen.hugeMethodLimit")


def rows_are_changed() -> None:
    assert one("UPDATE t SET v = concat(v, id) WHERE id IN (SELECT id * 10 FROM range(0, 5, 1, 2))") == (5,)
    source = "(SELECT id * 1000 AS id, 1 AS part, 'm' AS v FROM range(0, 6, 1, 3))"
    merged = one(
        f"MERGE INTO t USING {source} s ON t.id = s.id WHEN MATCHED AND s.id = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged == (6, 3, 1, 2)
    assert one("SELECT count(*), count_if(v = 'm'), count_if(v = 'a10') FROM t") == (3601, 5, 1)
    changed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).table("t")
    counts = {row["_change_type"]: row["count"] for row in changed.groupBy("_change_type").count().collect()}
    assert counts == {"delete": 401, "insert": 2, "update_preimage": 8, "update_postimage": 8}
    replaced = spark.createDataFrame([(7, 1, "r")], "id LONG, part INT, v STRING")
    replaced.write.format("delta").mode("overwrite").option("replaceWhere", "part = 1 AND id < 10").saveAsTable("t")
    assert one("SELECT collect_list(id) FROM t WHERE part = 1 AND id < 10") == ([7],)


def rows_are_filtered_by_keys() -> None:
    """Limits are lowered, as if the table were large."""
    rows = spark.range(0, 4000, 1, 4).select("id", F.lit("a").alias("v"))
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").saveAsTable("keyed")
    source = "(SELECT id, 'm' AS v FROM range(0, 2000000, 1, 4) WHERE id % 8000 = 7 OR id IN (20, 40))"
    merge = f"MERGE INTO keyed t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v)"
    with (
        mock.patch.object(file_sample, "SAMPLED_BYTES_MIN", 0),
        mock.patch.object(merge_rows, "FILTERED_BYTES_MIN", 0),
        mock.patch.object(merge_at_once, "mark_rows", wraps=merge_at_once.mark_rows) as finds,
    ):
        assert one(f"{merge} WHEN NOT MATCHED THEN INSERT *") == (252, 3, 0, 249)
        assert finds.call_count == 0, "the executors have marked the rows that they wrote"
        for limit in ("maxFields", "hugeMethodLimit"):
            # Spark sends expressions to executors instead of code.
            spark.conf.set(f"spark.sql.codegen.{limit}", "1")
            assert one(merge) == (252, 252, 0, 0)
            spark.conf.unset(f"spark.sql.codegen.{limit}")
        assert finds.call_count == 2
    assert one("SELECT count(*), count_if(v = 'ammm'), count_if(v = 'mmm') FROM keyed") == (4249, 3, 249)


def a_violated_rule_keeps_its_type() -> None:
    spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (id < 100000)")
    try:
        spark.sql("INSERT INTO t SELECT id, 0, 'x' FROM range(99999, 100003, 1, 2)")
    except Exception as error:
        assert "small" in str(error), error
        assert "\tat " not in str(error), error
    else:
        raise AssertionError("the constraint let rows pass")
    assert one("SELECT max(id) FROM t") == (5000,)


def files_are_rearranged() -> None:
    before = spark.table("t").orderBy("id").collect()
    spark.sql("OPTIMIZE t")
    assert files("t") == 2
    spark.sql("OPTIMIZE t ZORDER BY (id)")
    spark.sql("REORG TABLE t APPLY (PURGE)")
    assert spark.table("t").orderBy("id").collect() == before
    spark.sql("VACUUM t")
    spark.sql("RESTORE t TO VERSION AS OF 1")
    assert one("SELECT count(*) FROM t") == (4000,)


def columns_are_mapped() -> None:
    spark.sql(f"CREATE TABLE mapped (`a b` INT, s STRUCT<x: INT, y: STRING>) USING delta TBLPROPERTIES ({MAPPING})")
    spark.sql("INSERT INTO mapped SELECT id, named_struct('x', id * 2, 'y', id) FROM range(0, 100, 1, 4)")
    spark.sql("ALTER TABLE mapped RENAME COLUMN `a b` TO c")
    spark.sql("ALTER TABLE mapped RENAME COLUMN s.x TO z")
    spark.sql("ALTER TABLE mapped ADD COLUMN (`a b` STRING)")
    assert one("SELECT count(*), sum(c), sum(s.z), count(`a b`) FROM mapped WHERE c >= 90 AND s.z < 190") == (
        5,
        460,
        920,
        0,
    )
    assert one("UPDATE mapped SET s.y = 'new', `a b` = c WHERE s.z = 8") == (1,)
    assert one("SELECT c, s.y, `a b` FROM mapped WHERE s.z = 8") == (4, "new", "4")


def streams_write() -> None:
    Path(FOLDER, "in").mkdir()
    for number in range(2):
        lines = "\n".join(json.dumps({"id": number * 100 + offset}) for offset in range(100))
        Path(FOLDER, "in", f"{number}.json").write_text(lines, "utf-8")
    stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(f"{FOLDER}/in")

    def start(frame: DataFrame) -> Any:
        options = {"checkpointLocation": f"{FOLDER}/checkpoint"}
        query = frame.writeStream.format("delta").options(**options).trigger(availableNow=True).start(f"{FOLDER}/sink")
        assert query.awaitTermination(120)
        assert query.exception() is None
        return query

    start(stream.repartition(4))
    sink = DeltaTable.forPath(spark, f"{FOLDER}/sink")
    assert sink.toDF().agg(F.count("*"), F.sum("id")).first() == (200, 19900)
    assert sink.history().where("operation = 'STREAMING UPDATE'").count() == 2
    start(stream.repartition(4))
    assert sink.toDF().count() == 200


def nested_values_have_ids() -> None:
    """Nested values have ids in any session: executors fetch what writes them."""
    compatible = "'delta.enableIcebergCompatV2' = 'true'"
    spark.sql(
        f"CREATE TABLE nested (id BIGINT, l ARRAY<STRUCT<m: MAP<STRING, INT>>>) USING delta TBLPROPERTIES ({compatible})"
    )
    rows = "SELECT id, array(named_struct('m', map('k', CAST(id AS INT)))) FROM range(0, 40, 1, 4)"
    other = spark.newSession()
    Path(FOLDER, "artifact.txt").write_text("of this session alone")
    other.addArtifact(f"{FOLDER}/artifact.txt", file=True)
    for session in (spark, spark.newSession(), other):
        session.sql(f"INSERT INTO nested {rows}")
    assert one("SELECT count(*), sum(l[0].m['k']) FROM nested") == (120, 2340)
    written = [Path(file) for file in spark.table("nested").inputFiles()]
    assert len(written) == 12
    for file in written:
        assert ids_in(pq.read_schema(str(file).removeprefix("file:")).field(1)) == [2, 4, 3, 5, 6]


def ids_in(field: pa.Field) -> list[int]:
    """The ids of the field and those below it."""
    kind = field.type
    below = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else []
    if pa.types.is_list(kind):
        below = [kind.value_field]
    elif pa.types.is_struct(kind):
        below = list(kind)
    return [int(field.metadata[b"PARQUET:field_id"]), *(number for child in below for number in ids_in(child))]


both_executors_work()
rows_are_hidden_by_vectors()
rows_are_changed()
rows_are_filtered_by_keys()
a_violated_rule_keeps_its_type()
files_are_rearranged()
columns_are_mapped()
nested_values_have_ids()
streams_write()
spark.stop()
print("done")
