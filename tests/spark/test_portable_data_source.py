"""The registered data source, in a session where nothing else of anabranch is in place."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.datasource
import pytest
from engines import OVER_CONNECT, EngineTable, mapped, struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructType, TimestampType

from anabranch.connect.python_source import registration
from anabranch.connect.python_source.delta_source import DeltaDataSource
from anabranch.connect.python_source.source_reader import DeltaReader
from anabranch.connect.python_source.source_writer import DeltaWriter, FilesOfTask
from anabranch.protocol.actions import PARQUET, Action, CommitInfo, Metadata, Protocol
from anabranch.protocol.actions_json import encode_actions
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.serialization import schema_string
from anabranch.spark.portable.portable_engine import PortableEngine
from anabranch.storage.store_opening import open_store

pytestmark = [pytest.mark.spark]

MakeTable = Callable[..., EngineTable]
FORMAT = "delta" if OVER_CONNECT in os.environ else "delta_in_python"
"""What the source is called. Where other tests of the process have brought our classes into the JVM, Spark knows `delta`."""
FEATURES = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "variantType"]


@pytest.fixture(scope="module")
def plain(session: SparkSession) -> Iterator[SparkSession]:
    """A session that has the source and nothing else."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = session if OVER_CONNECT in os.environ else session.newSession()
    # Of a module that Python workers cannot import, so that it travels to them whole.
    named = type(
        "DeltaDataSource", (DeltaDataSource,), {"name": classmethod(lambda _: FORMAT), "__module__": "__main__"}
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registration, "DeltaDataSource", named)
        registration.register(made)
        yield made


@pytest.fixture(autouse=True)
def plain_is_active(plain: SparkSession) -> Iterator[None]:
    """Spark looks for the source of a write in the thread's active session, which may be that of another test."""
    with registration._active(plain):
        yield


@pytest.fixture
def table_of(plain: SparkSession, tmp_path: Path) -> MakeTable:
    def make(schema: StructType, **facts: Any) -> EngineTable:
        return EngineTable(
            spark=plain, engine=PortableEngine(plain), schema=schema, **{"root": str(tmp_path / "a table"), **facts}
        )

    return make


def log(table: EngineTable, version: int, *actions: Action, minute: int = 0) -> None:
    """Write a commit by hand."""
    folder = Path(table.root) / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{version:020d}.json"
    path.write_bytes(encode_actions([CommitInfo(timestamp=0, operation="WRITE"), *actions]))
    at = datetime.datetime(2024, 1, 1, 0, minute, tzinfo=datetime.UTC).timestamp()
    os.utime(path, (at, at))


def created(table: EngineTable, *, minute: int = 0, **configuration: str) -> None:
    """Version 0: the table with the files it has."""
    if table.mode.maps:
        configuration["delta.columnMapping.mode"] = table.mode.value
        configuration["delta.columnMapping.maxColumnId"] = "99"
    actions = creation(table.schema, list(table.partition_columns), configuration)
    log(table, 0, *actions, *table.adds, minute=minute)


def creation(schema: StructType, partition_columns: list[str], configuration: dict[str, str]) -> list[Action]:
    metadata = Metadata(
        id="00000000-0000-0000-0000-000000000000",
        format=PARQUET,
        schema_string=schema_string(schema),
        partition_columns=partition_columns,
        configuration=dict(configuration),
        created_time=0,
    )
    return [
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=FEATURES, writer_features=FEATURES),
        metadata,
    ]


def test_a_table_reads_as_its_log_says(table_of: MakeTable, plain: SparkSession) -> None:
    """Mapped names, hidden rows, partition values, dates: all at once."""
    inner = struct(("x", LongType()), ("t", StringType()))
    schema = mapped(struct(("id", LongType()), ("s", inner), ("day", DateType()), ("at", TimestampType())))
    table = table_of(schema, mode=ColumnMappingMode.NAME, partition_columns=("day",))
    rows = "id", "named_struct('x', id, 't', 'é') AS s", "date_add(date'2024-01-01', int(id % 2)) AS day"
    table.write(plain.range(0, 10, 1, 1).selectExpr(*rows, "timestamp'2024-01-01 00:00:00.123456' AS at"))
    table.hide(0, [0, 2])
    created(table)

    frame = plain.read.format(FORMAT).load(table.root)
    assert frame.schema.simpleString() == schema.simpleString()
    assert table.rows(frame) == table.rows()
    assert len(table.rows(frame)) == 8
    assert frame.where("day = '2024-01-02' AND s.x > 4").count() == 3


def test_a_stream_of_a_table(table_of: MakeTable, plain: SparkSession, tmp_path: Path) -> None:
    """Without anything enabled, and with a start as ISO 8601 writes it."""
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(1))
    created(table, minute=0)
    log(table, 1, *table.write(plain.range(1, 3)).adds, minute=10)
    stream = plain.readStream.format(FORMAT).option("startingTimestamp", "2024-01-01T00:05:00Z").load(table.root)
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(60)
    assert sorted(row.id for row in plain.read.parquet(str(tmp_path / "out")).collect()) == [1, 2]


def test_time_travel(table_of: MakeTable, plain: SparkSession) -> None:
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(1))
    created(table, minute=0)
    log(table, 1, *table.write(plain.range(1, 3)).adds, minute=10)
    read = plain.read.format(FORMAT)
    assert read.load(table.root).count() == 3
    assert read.option("versionAsOf", 0).load(table.root).count() == 1
    assert plain.read.format(FORMAT).option("timestampAsOf", "2024-01-01 00:05:00").load(table.root).count() == 1
    assert plain.read.format(FORMAT).option("TIMESTAMPASOF", "2024-01-01T01:10:00+01:00").load(table.root).count() == 3
    plain.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        registration.register(plain)
        tokyo = plain.read.format(FORMAT).option("timestampAsOf", "2024-01-01 09:05:00")
        assert tokyo.load(table.root).count() == 1
    finally:
        plain.conf.set("spark.sql.session.timeZone", "UTC")
        registration.register(plain)
    with pytest.raises(Exception, match="timestampAsOf"):
        plain.read.format(FORMAT).option("timestampAsOf", "yesterday").load(table.root).count()
    with pytest.raises(Exception, match="DELTA_VERSION"):
        plain.read.format(FORMAT).option("versionAsOf", "9").load(table.root).count()


def test_what_is_no_table_says_so(plain: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"DELTA_\w+.*not"):
        plain.read.format(FORMAT).load(str(tmp_path)).count()
    with pytest.raises(Exception, match="path"):
        plain.read.format(FORMAT).load().count()


@pytest.mark.skipif(not hasattr(pyspark.sql.datasource, "Filter"), reason="PySpark 4.0 hands out no filters")
def test_filters_leave_files_unopened(table_of: MakeTable, plain: SparkSession) -> None:
    schema = struct(("id", LongType()), ("t", StringType()), ("at", TimestampType()), ("p", IntegerType()))
    table = table_of(schema, partition_columns=("p",))
    for p in range(3):
        table.write(plain.range(p * 10, p * 10 + 5, 1, 1).selectExpr(
            "id", "concat('k', id) AS t", "timestamp_seconds(id * 60) AS at", f"{p} AS p"))  # fmt: skip
    created(table)
    # Only the last file is there: a query that opens another one fails.
    for add in table.adds[:2]:
        os.unlink(Path(table.root) / add.path)

    read = plain.read.format(FORMAT).load(table.root)
    for condition in [
        "id > 19",
        "p = 2",
        "p IN (2, 5)",
        "t LIKE 'k2%' AND id >= 20",
        "id = 21",
        "at >= timestamp'1970-01-01 00:20:00'",
        "p > 1 AND NOT (id <= 15)",
    ]:
        assert read.where(condition).select("p").distinct().collect() == [(2,)], condition
    with pytest.raises(Exception, match=r"(?i)no such file"):
        read.where("id > 3").count()


def test_filters_can_be_switched_off(table_of: MakeTable, plain: SparkSession) -> None:
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(5))
    created(table)
    plain.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert plain.read.format(FORMAT).load(table.root).where("id > 2").count() == 2
    finally:
        plain.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_append_and_overwrite(table_of: MakeTable, plain: SparkSession) -> None:
    table = table_of(struct(("id", LongType()), ("p", StringType())), partition_columns=("p",))
    table.write(plain.range(2).selectExpr("id", "'old' AS p"))
    created(table)
    more = plain.range(10, 30, 1, 1).selectExpr("concat('p', id % 3) AS p", "id")
    more.write.format(FORMAT).mode("append").save(table.root)
    read = plain.read.format(FORMAT).load(table.root)
    assert read.groupBy("p").count().orderBy("p").collect() == [("old", 2), ("p0", 6), ("p1", 7), ("p2", 7)]
    commit = [
        json.loads(line) for line in (Path(table.root) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    ]
    assert sum("add" in action for action in commit) == 3
    info = next(action["commitInfo"] for action in commit if "commitInfo" in action)
    assert info["isBlindAppend"] is True
    assert info["operationMetrics"]["numOutputRows"] == "20"

    plain.range(1).selectExpr("id", "NULL AS p").selectExpr("id", "CAST(p AS STRING) AS p").write.format(FORMAT).mode(
        "overwrite"
    ).save(table.root)
    assert plain.read.format(FORMAT).load(table.root).collect() == [(0, None)]
    assert plain.read.format(FORMAT).option("versionAsOf", 1).load(table.root).count() == 22


def test_what_a_write_cannot_do_says_how_to(table_of: MakeTable, plain: SparkSession, tmp_path: Path) -> None:
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(2))
    created(table)
    for frame in [plain.range(2).select(F.col("id").cast("int")), plain.range(2).selectExpr("id", "1 AS extra")]:
        with pytest.raises(Exception, match="DELTA_"):
            frame.write.format(FORMAT).mode("append").save(table.root)
    with pytest.raises(Exception, match=r"anabranch\.enable"):
        plain.range(2).write.format(FORMAT).mode("append").save(str(tmp_path / "new"))
    with pytest.raises(Exception, match=r"anabranch\.enable"):
        plain.read.format(FORMAT).option("readChangeFeed", "true").load(table.root).count()
    assert plain.read.format(FORMAT).load(table.root).count() == 2


def test_a_failed_write_commits_nothing(table_of: MakeTable, plain: SparkSession) -> None:
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(2))
    created(table)
    bad = plain.range(100).selectExpr(
        "CASE WHEN id = 99 THEN CAST(raise_error('stop here') AS BIGINT) ELSE id END AS id"
    )
    with pytest.raises(Exception, match="stop here"):
        bad.write.format(FORMAT).mode("append").save(table.root)
    assert os.listdir(Path(table.root) / "_delta_log") == [f"{0:020d}.json"]


def crashing_source(name: str) -> type[DeltaDataSource]:
    """The source, with workers that end by a segmentation fault when they have passed some rows on."""

    def crash() -> None:
        import faulthandler
        import os
        import signal

        # The test's own report of a crash would be printed otherwise.
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    class CrashingReader(DeltaReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            yield next(DeltaReader.read(self, partition))
            crash()

    class CrashingWriter(DeltaWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesOfTask:
            DeltaWriter.write(self, iterator)
            crash()
            raise AssertionError("it crashed")

    class CrashingSource(DeltaDataSource):
        def reader(self, schema: StructType) -> DataSourceReader:
            return CrashingReader(self._options(), schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return CrashingWriter(self._options(), schema, overwrite=overwrite)

    CrashingSource.called = name
    return CrashingSource


def test_a_worker_that_crashes(table_of: MakeTable, plain: SparkSession) -> None:
    """Covers fault F63: the query fails, with no part of its rows; a write commits nothing, and the next one works."""
    table = table_of(struct(("id", LongType())))
    table.write(plain.range(0, 100, 1, 2))
    created(table)
    name = f"crashing_{FORMAT}"
    plain.dataSource.register(crashing_source(name))
    seen: list[Any] = []
    with pytest.raises(Exception, match=r"(?i)worker.*(exited|crashed)"):
        seen += plain.read.format(name).load(table.root).collect()
    assert seen == []

    before = {each.name for each in Path(table.root).glob("*.parquet")}
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=r"(?i)worker.*(exited|crashed)"):
            plain.range(100, 110, 1, 1).write.format(name).mode(mode).option("path", table.root).save()
    assert [each.name for each in Path(table.root, "_delta_log").glob("*.json")] == [f"{0:020d}.json"]
    # What the worker has written belongs to no commit.
    assert len({each.name for each in Path(table.root).glob("*.parquet")} - before) == 2
    assert plain.read.format(FORMAT).load(table.root).count() == 100
    plain.range(100, 110).write.format(FORMAT).mode("append").option("path", table.root).save()
    assert plain.read.format(FORMAT).load(table.root).count() == 110


def test_a_table_on_s3_needs_nothing_of_hadoop(plain: SparkSession) -> None:
    """Spark here has no S3 connector at all: rows come and go through Python alone."""
    boto3 = pytest.importorskip("boto3")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="tables")
        options = {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.access.key": "a",
            "fs.s3a.secret.key": "b",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }
        root = "s3a://tables/a table"
        store = open_store(root, options)
        schema = struct(("id", LongType()), ("p", StringType()))
        store.put_if_absent(f"_delta_log/{0:020d}.json", encode_actions(creation(schema, ["p"], {})))
        frame = plain.range(100).selectExpr("id", "concat('é ', id % 2) AS p")
        frame.write.format(FORMAT).options(**options).mode("append").save(root)
        read = plain.read.format(FORMAT).options(**options).load(root)
        assert read.groupBy("p").count().orderBy("p").collect() == [("é 0", 50), ("é 1", 50)]
    finally:
        server.stop()
