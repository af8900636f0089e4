"""Tables on S3 and on HDFS, log and data files, by Hadoop's own clients in Spark: `make test-s3a`, `make test-services`."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.tables import TableAlreadyExistsError
from anabranch.exceptions import ProtocolChangedException
from anabranch.storage.log_store import LogStore
from anabranch.tables import DeltaTable
from interop.readers import read_by_delta_rs
from storage.services import BUCKET, HDFS, SETTINGS, hdfs_store, s3_store
from transactions.log_linter import lint

S3A_JARS = "ANABRANCH_S3A_JARS"
SERVICES = [name for name, variable in {"s3": S3A_JARS, "hdfs": HDFS}.items() if variable in os.environ]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not SERVICES, reason="needs Hadoop's connector for S3, or HDFS: run `make test-s3a` or `make test-services`"
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lake:
    """A folder of tables on a service, and a session whose warehouse is in it."""

    spark: SparkSession
    root: str
    endpoint: str | None
    """Of S3; None for HDFS."""

    def store(self, name: str) -> LogStore:
        if self.endpoint is None:
            return hdfs_store(self.spark, f"{self.root}/{name}")
        return s3_store(self.endpoint, name)

    def ids(self, path: str) -> list[int]:
        return sorted(row.id for row in self.spark.read.format("delta").load(path).collect())

    def objects(self, name: str) -> list[str]:
        return [file.path for file in self.store(name).list_tree() if not file.path.startswith("_")]

    def check(self, name: str, expected: Sequence[int], copy: Path) -> None:
        """The log is sound, and delta-rs reads these rows. It has no client of HDFS, so there it reads a copy."""
        store = self.store(name)
        assert lint(store) == []
        if self.endpoint is None:
            for file in store.list_tree():
                (copy / file.path).parent.mkdir(parents=True, exist_ok=True)
                (copy / file.path).write_bytes(store.read(file.path))
            read = read_by_delta_rs(str(copy), None)
        else:
            options = {
                "aws_access_key_id": SETTINGS["fs.s3a.access.key"],
                "aws_secret_access_key": SETTINGS["fs.s3a.secret.key"],
                "aws_region": SETTINGS["fs.s3a.endpoint.region"],
                "aws_endpoint_url": self.endpoint,
                "aws_allow_http": "true",
            }
            read = read_by_delta_rs(f"s3://{BUCKET}/{name}", None, options)
        assert sorted(read["id"].to_pylist()) == list(expected)


def settings_of_s3(endpoint: str) -> Mapping[str, str]:
    return {
        **{f"spark.hadoop.{key}": value for key, value in SETTINGS.items()},
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.jars": os.environ[S3A_JARS],
    }


@pytest.fixture(scope="module", params=SERVICES)
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    if request.param == "s3":
        endpoint = request.getfixturevalue("endpoint")
        root, more = f"s3a://{BUCKET}", settings_of_s3(endpoint)
    else:
        endpoint, root, more = None, f"{os.environ[HDFS]}/lake", {}
    settings = {
        **more,
        "spark.sql.warehouse.dir": f"{root}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
    name = f"tables on {request.param}"
    session = anabranch.session(name, cores=2, **{key.replace(".", "__"): settings[key] for key in settings})
    yield Lake(spark=session, root=root, endpoint=endpoint)
    session.stop()


def test_statements(lake: Lake, tmp_path: Path) -> None:
    spark = lake.spark
    root = f"{lake.root}/statements"
    spark.sql(f"CREATE TABLE delta.`{root}` (id BIGINT, part STRING) USING delta PARTITIONED BY (part)")
    spark.sql(f"INSERT INTO delta.`{root}` SELECT id, concat('p ', id % 2, '/ü') FROM range(20)")
    spark.sql(f"DELETE FROM delta.`{root}` WHERE id < 3")
    spark.sql(f"UPDATE delta.`{root}` SET id = -id WHERE id = 5")
    spark.sql(
        f"MERGE INTO delta.`{root}` t USING (SELECT id, 'new' AS part FROM range(18, 23)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [-5, 3, 4, *range(6, 18), 20, 21, 22]
    assert lake.ids(root) == expected
    spark.sql(f"OPTIMIZE delta.`{root}` ZORDER BY (id)")
    assert lake.ids(root) == expected
    assert spark.sql(f"SELECT count(*) FROM delta.`{root}` WHERE part = 'p 0/ü'").first()[0] == 7
    assert spark.read.format("delta").option("versionAsOf", 1).load(root).count() == 20
    old = set(lake.objects("statements"))
    spark.sql(f"VACUUM delta.`{root}` RETAIN 0 HOURS")
    kept = set(lake.objects("statements"))
    assert kept < old
    assert len(kept) == spark.sql(f"DESCRIBE DETAIL delta.`{root}`").first().numFiles
    assert lake.ids(root) == expected
    lake.check("statements", expected, tmp_path)


def test_tables_by_name(lake: Lake, tmp_path: Path) -> None:
    spark = lake.spark
    spark.sql("CREATE SCHEMA lake")
    spark.sql("CREATE TABLE lake.made USING delta AS SELECT id FROM range(5)")
    spark.range(5, 8).write.format("delta").mode("append").saveAsTable("lake.made")
    spark.sql("CREATE OR REPLACE TABLE lake.made USING delta AS SELECT id + 1 AS id FROM lake.made")
    assert [row.id for row in spark.table("lake.made").orderBy("id").collect()] == list(range(1, 9))
    location = spark.sql("DESCRIBE DETAIL lake.made").first().location
    name = location.removeprefix(f"{lake.root}/")
    lake.check(name, range(1, 9), tmp_path)
    spark.sql("DROP TABLE lake.made")
    assert list(lake.store(name).list_tree()) == []


@pytest.mark.parametrize("to_disk", [False, True], ids=["from disk", "to disk"])
def test_clones_between_disk_and_service(lake: Lake, tmp_path: Path, *, to_disk: bool) -> None:
    """Files stay where they are, in whichever store; what the clone changes is in its own."""
    spark = lake.spark
    roots = [f"file://{tmp_path}/table", f"{lake.root}/cloned-{to_disk}"]
    source, clone = roots[::-1] if to_disk else roots
    spark.range(10).write.format("delta").save(source)
    spark.sql(f"DELETE FROM delta.`{source}` WHERE id = 3")
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    spark.sql(f"DELETE FROM delta.`{clone}` WHERE id = 5")
    spark.sql(f"UPDATE delta.`{clone}` SET id = 70 WHERE id = 7")
    expected = [0, 1, 2, 4, 6, 8, 9, 70]
    assert lake.ids(clone) == expected
    spark.sql(f"OPTIMIZE delta.`{clone}`")
    spark.sql(f"VACUUM delta.`{clone}` RETAIN 0 HOURS")
    assert lake.ids(clone) == expected
    assert lake.ids(source) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_streams(lake: Lake, tmp_path: Path) -> None:
    spark = lake.spark
    source, target = f"{lake.root}/stream-source", f"{lake.root}/stream-target"
    spark.range(10).write.format("delta").save(source)
    for _ in range(2):
        stream = spark.readStream.format("delta").load(source).writeStream.format("delta")
        stream = stream.option("checkpointLocation", f"{lake.root}/stream-checkpoint").trigger(availableNow=True)
        stream.start(target).awaitTermination()
        spark.range(10, 15).write.format("delta").mode("append").save(source)
    assert lake.ids(target) == list(range(15))
    lake.check("stream-target", range(15), tmp_path)


def test_writers_of_one_file(lake: Lake, tmp_path: Path) -> None:
    """Each writer changes rows of its own, beside OPTIMIZE: no writer fails, and every change is there."""
    spark = lake.spark
    root = f"{lake.root}/races"
    spark.range(0, 40, 1, 1).selectExpr("id", "0 AS n").write.format("delta").save(root)
    failed: list[BaseException] = []

    def change(writer: int) -> None:
        try:
            for number in range(3):
                DeltaTable.forPath(spark, root).update(f"id % 4 = {writer} AND id % 3 = {number}", {"n": "n + 1"})
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=change, args=(writer,)) for writer in range(4)]
    for thread in writers:
        thread.start()
    for _ in range(2):
        DeltaTable.forPath(spark, root).optimize().executeCompaction()
    for thread in writers:
        thread.join()
    assert failed == []
    assert {row.n for row in spark.read.format("delta").load(root).collect()} == {1}
    lake.check("races", range(40), tmp_path)


def test_a_table_is_made_once(lake: Lake, tmp_path: Path) -> None:
    """Of those who create it at one time, one succeeds; the others get an error."""
    spark = lake.spark
    root, outcomes = f"{lake.root}/once", []

    def create() -> None:
        try:
            spark.range(3).write.format("delta").save(root)
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
    lake.check("once", range(3), tmp_path)


def test_a_parquet_folder_becomes_a_table(lake: Lake, tmp_path: Path) -> None:
    spark = lake.spark
    spark.range(6).selectExpr("id", "id % 2 AS part").write.partitionBy("part").parquet(f"{lake.root}/parquet")
    spark.sql(f"CONVERT TO DELTA parquet.`{lake.root}/parquet` PARTITIONED BY (part BIGINT)")
    spark.sql(f"DELETE FROM delta.`{lake.root}/parquet` WHERE part = 1 AND id > 2")
    lake.check("parquet", [0, 1, 2, 4], tmp_path)
