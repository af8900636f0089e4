"""Tables on S3, log and data files, with Hadoop's own connector in Spark: `make test-s3a`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.tables import TableAlreadyExistsError
from anabranch.exceptions import ProtocolChangedException
from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs
from storage.services import BUCKET, SETTINGS, s3_store
from transactions.log_linter import lint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        "ANABRANCH_S3A_JARS" not in os.environ, reason="needs Hadoop's connector for S3: run `make test-s3a`"
    ),
]

ROOT = f"s3a://{BUCKET}"


@pytest.fixture(scope="module")
def s3(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose warehouse is on S3."""
    settings = {
        **{f"spark.hadoop.{key}": value for key, value in SETTINGS.items()},
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.jars": os.environ["ANABRANCH_S3A_JARS"],
        "spark.sql.warehouse.dir": f"{ROOT}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
    session = anabranch.session("tables on S3", cores=2, **{key.replace(".", "__"): settings[key] for key in settings})
    yield session
    session.stop()


def rows(spark: SparkSession, root: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(root).select("id").collect())


def check(endpoint: str, name: str, expected: Sequence[int]) -> None:
    """The log is sound, and delta-rs reads these rows."""
    assert lint(s3_store(endpoint, name)) == []
    options = {
        "aws_access_key_id": SETTINGS["fs.s3a.access.key"],
        "aws_secret_access_key": SETTINGS["fs.s3a.secret.key"],
        "aws_region": SETTINGS["fs.s3a.endpoint.region"],
        "aws_endpoint_url": endpoint,
        "aws_allow_http": "true",
    }
    found = read_by_delta_rs(f"s3://{BUCKET}/{name}", None, options)
    assert sorted(found["id"].to_pylist()) == list(expected)


def objects(endpoint: str, name: str) -> list[str]:
    return [file.path for file in s3_store(endpoint, name).list_tree() if not file.path.startswith("_")]


def test_statements(s3: SparkSession, endpoint: str) -> None:
    root = f"{ROOT}/statements"
    s3.sql(f"CREATE TABLE delta.`{root}` (id BIGINT, part STRING) USING delta PARTITIONED BY (part)")
    s3.sql(f"INSERT INTO delta.`{root}` SELECT id, concat('p ', id % 2, '/ü') FROM range(20)")
    s3.sql(f"DELETE FROM delta.`{root}` WHERE id < 3")
    s3.sql(f"UPDATE delta.`{root}` SET id = -id WHERE id = 5")
    s3.sql(
        f"MERGE INTO delta.`{root}` t USING (SELECT id, 'new' AS part FROM range(18, 23)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [-5, 3, 4, *range(6, 18), 20, 21, 22]
    assert rows(s3, root) == expected
    s3.sql(f"OPTIMIZE delta.`{root}` ZORDER BY (id)")
    assert rows(s3, root) == expected
    assert s3.sql(f"SELECT count(*) FROM delta.`{root}` WHERE part = 'p 0/ü'").first()[0] == 7
    assert s3.read.format("delta").option("versionAsOf", 1).load(root).count() == 20
    old = set(objects(endpoint, "statements"))
    s3.sql(f"VACUUM delta.`{root}` RETAIN 0 HOURS")
    kept = set(objects(endpoint, "statements"))
    assert kept < old
    assert len(kept) == s3.sql(f"DESCRIBE DETAIL delta.`{root}`").first().numFiles
    assert rows(s3, root) == expected
    check(endpoint, "statements", expected)


def test_tables_by_name(s3: SparkSession, endpoint: str) -> None:
    s3.sql("CREATE SCHEMA lake")
    s3.sql("CREATE TABLE lake.made USING delta AS SELECT id FROM range(5)")
    s3.range(5, 8).write.format("delta").mode("append").saveAsTable("lake.made")
    s3.sql("CREATE OR REPLACE TABLE lake.made USING delta AS SELECT id + 1 AS id FROM lake.made")
    assert [row.id for row in s3.table("lake.made").orderBy("id").collect()] == list(range(1, 9))
    location = s3.sql("DESCRIBE DETAIL lake.made").first().location
    name = location.removeprefix(f"{ROOT}/")
    check(endpoint, name, range(1, 9))
    s3.sql("DROP TABLE lake.made")
    assert list(s3_store(endpoint, name).list_tree()) == []


@pytest.mark.parametrize("to_s3", [True, False], ids=["to S3", "from S3"])
def test_clones_between_disk_and_s3(s3: SparkSession, tmp_path: Path, *, to_s3: bool) -> None:
    """Files stay where they are, in whichever store; what the clone changes is in its own."""
    places = [str(tmp_path / "table"), f"{ROOT}/cloned-{to_s3}"]
    source, clone = places if to_s3 else places[::-1]
    s3.range(10).write.format("delta").save(source)
    s3.sql(f"DELETE FROM delta.`{source}` WHERE id = 3")
    s3.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    s3.sql(f"DELETE FROM delta.`{clone}` WHERE id = 5")
    s3.sql(f"UPDATE delta.`{clone}` SET id = 70 WHERE id = 7")
    expected = [0, 1, 2, 4, 6, 8, 9, 70]
    assert rows(s3, clone) == expected
    s3.sql(f"OPTIMIZE delta.`{clone}`")
    s3.sql(f"VACUUM delta.`{clone}` RETAIN 0 HOURS")
    assert rows(s3, clone) == expected
    assert rows(s3, source) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_streams(s3: SparkSession, endpoint: str) -> None:
    source, target = f"{ROOT}/stream-source", f"{ROOT}/stream-target"
    s3.range(10).write.format("delta").save(source)
    for _ in range(2):
        stream = s3.readStream.format("delta").load(source).writeStream.format("delta")
        stream = stream.option("checkpointLocation", f"{ROOT}/stream-checkpoint").trigger(availableNow=True)
        stream.start(target).awaitTermination()
        s3.range(10, 15).write.format("delta").mode("append").save(source)
    assert rows(s3, target) == list(range(15))
    check(endpoint, "stream-target", range(15))


def test_writers_of_one_file(s3: SparkSession, endpoint: str) -> None:
    """Each writer changes rows of its own, beside OPTIMIZE: no writer fails, and every change is there."""
    root = f"{ROOT}/races"
    s3.range(0, 40, 1, 1).selectExpr("id", "0 AS n").write.format("delta").save(root)
    failed: list[BaseException] = []

    def change(writer: int) -> None:
        try:
            for number in range(3):
                DeltaTable.forPath(s3, root).update(f"id % 4 = {writer} AND id % 3 = {number}", {"n": "n + 1"})
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=change, args=(writer,)) for writer in range(4)]
    for thread in writers:
        thread.start()
    for _ in range(2):
        DeltaTable.forPath(s3, root).optimize().executeCompaction()
    for thread in writers:
        thread.join()
    assert failed == []
    assert {row.n for row in s3.read.format("delta").load(root).collect()} == {1}
    check(endpoint, "races", range(40))


def test_a_table_is_made_once(s3: SparkSession, endpoint: str) -> None:
    """Of those who create it at one time, one succeeds; the others get an error."""
    root, outcomes = f"{ROOT}/once", []

    def create() -> None:
        try:
            s3.range(3).write.format("delta").save(root)
            outcomes.append("created")
        except (ProtocolChangedException, TableAlreadyExistsError) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4
    assert outcomes.count("created") == 1
    check(endpoint, "once", range(3))


def test_a_parquet_folder_becomes_a_table(s3: SparkSession, endpoint: str) -> None:
    s3.range(6).selectExpr("id", "id % 2 AS part").write.partitionBy("part").parquet(f"{ROOT}/parquet")
    s3.sql(f"CONVERT TO DELTA parquet.`{ROOT}/parquet` PARTITIONED BY (part BIGINT)")
    s3.sql(f"DELETE FROM delta.`{ROOT}/parquet` WHERE part = 1 AND id > 2")
    check(endpoint, "parquet", [0, 1, 2, 4])
