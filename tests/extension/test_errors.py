"""Errors are ours or Spark's own, short, and the same for all programs."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import socket
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.errors.exceptions import captured
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.errors.base import DeltaError
from anabranch.errors.dml import SubqueryRowsError
from anabranch.errors.environment import DataFileDamagedError, DataFileMissingError, StorageError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from streaming.streams import Feed, writer

pytestmark = pytest.mark.spark

LENGTH_MAX = 1500


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """One file, ids 0 to 4."""
    delta.range(5).coalesce(1).write.format("delta").save(path)
    return path


def data_file(path: str) -> Path:
    (file,) = Path(path).glob("*.parquet")
    return file


def raised_by(call: Any) -> DeltaError:
    """The error, which shows no Java."""
    with pytest.raises(DeltaError) as raised:
        call()
    assert len(str(raised.value)) < LENGTH_MAX
    assert "\tat " not in str(raised.value)
    assert "__anabranch" not in str(raised.value)
    return raised.value


MANY = "(SELECT k FROM VALUES (1L), (2L) AS v(k))"


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM {{t}} WHERE id = {MANY}",
        f"UPDATE {{t}} SET id = 1 WHERE id = {MANY}",
        f"UPDATE {{t}} SET id = {MANY} WHERE id > 1",
        f"MERGE INTO {{t}} t USING (SELECT id FROM range(1)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = {MANY}",
        f"MERGE INTO {{t}} t USING (SELECT id FROM range(9, 10)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES ({MANY})",
        f"MERGE INTO {{t}} t USING (SELECT {MANY} AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"INSERT INTO {{t}} SELECT {MANY}",
        f"INSERT INTO {{t}} REPLACE WHERE id = 1 SELECT {MANY}",
    ],
)
def test_a_subquery_of_several_rows(delta: SparkSession, table: str, statement: str) -> None:
    """Spark's exception for it has no counterpart in Python."""
    error = raised_by(lambda: delta.sql(statement.replace("{t}", f"delta.`{table}`")))
    assert isinstance(error, SubqueryRowsError)
    assert (error.getCondition(), error.getSqlState()) == ("SCALAR_SUBQUERY_TOO_MANY_ROWS", "21000")
    assert MANY.split()[1] in error.subquery
    assert DeltaTable.forPath(delta, table).history().count() == 1


def test_a_subquery_of_several_rows_over_the_api(delta: SparkSession, table: str) -> None:
    changed = DeltaTable.forPath(delta, table)
    merging = changed.alias("t").merge(delta.range(1).alias("s"), "t.id = s.id")
    calls: list[Callable[[], Any]] = [
        lambda: changed.delete(f"id = {MANY}"),
        lambda: changed.update(F.expr(f"id = {MANY}"), {"id": "1"}),
        lambda: changed.update(set={"id": MANY}),
        merging.whenMatchedUpdate(set={"id": MANY}).execute,
        merging.whenNotMatchedInsert(values={"id": MANY}).whenMatchedUpdate(set={"id": MANY}).execute,
        lambda: delta.sql(f"SELECT {MANY} AS id").write.format("delta").mode("append").save(table),
        lambda: delta.sql(f"SELECT {MANY} AS id").writeTo(f"delta.`{table}`").append(),
    ]
    for call in calls:
        assert isinstance(raised_by(call), SubqueryRowsError)
    assert changed.history().count() == 1


def test_a_missing_data_file(delta: SparkSession, table: str) -> None:
    """Whether a query, a statement or a stream reads it; while the newest version needs it and later."""
    gone = data_file(table)
    gone.unlink()
    calls = [
        lambda: delta.read.format("delta").load(table).collect(),
        lambda: delta.sql(f"SELECT sum(id) FROM delta.`{table}`").collect(),
        lambda: delta.sql(f"DELETE FROM delta.`{table}` WHERE id = 2"),
        lambda: delta.read.format("delta").load(table).write.format("noop").mode("overwrite").save(),
    ]
    for call in calls:
        error = raised_by(call)
        assert isinstance(error, DataFileMissingError)
        assert isinstance(error, FileNotFoundError)
        assert (error.table, error.file, error.version) == (f"delta.`{table}`", gone.name, 0)
        assert error.getCondition() == "DELTA_FILE_NOT_FOUND_DETAILED"
    delta.range(1).write.format("delta").mode("overwrite").save(table)
    error = raised_by(delta.read.format("delta").option("versionAsOf", 0).load(table).collect)
    assert isinstance(error, DataFileMissingError)
    assert error.version is None
    assert "VACUUM" in str(error)


def test_a_damaged_data_file(delta: SparkSession, table: str) -> None:
    damaged = data_file(table)
    damaged.write_bytes(b"no Parquet at all, but as long as a footer would be")
    error = raised_by(delta.read.format("delta").load(table).collect)
    assert isinstance(error, DataFileDamagedError)
    assert (error.table, error.file, error.version) == (f"delta.`{table}`", damaged.name, 0)
    assert "fsck" in str(error)


def test_a_path_with_blanks_and_signs(delta: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "a%20b ü")
    delta.range(2).coalesce(1).withColumn("p", F.lit("x y/z")).write.format("delta").partitionBy("p").save(path)
    (gone,) = Path(path).rglob("*.parquet")
    gone.unlink()
    error = raised_by(delta.read.format("delta").load(path).collect)
    assert isinstance(error, DataFileMissingError)
    assert (Path(path) / error.file, error.version) == (gone, 0)


def test_other_peoples_files_keep_sparks_error(delta: SparkSession, tmp_path: Path) -> None:
    """Also those in a folder whose name begins as a table's."""
    delta.range(3).write.format("delta").save(str(tmp_path / "t"))
    delta.read.format("delta").load(str(tmp_path / "t")).count()
    delta.range(3).coalesce(1).write.parquet(str(tmp_path / "t2"))
    frame = delta.read.parquet(str(tmp_path / "t2"))
    data_file(str(tmp_path / "t2")).unlink()
    with pytest.raises((PySparkException, Py4JJavaError), match="FAILED_READ_FILE") as raised:
        frame.collect()
    assert not isinstance(raised.value, DeltaError)


def test_a_folder_that_is_gone(delta: SparkSession, table: str) -> None:
    frame = delta.read.format("delta").load(table)
    shutil.rmtree(table)
    error = raised_by(frame.collect)
    assert isinstance(error, NotADeltaTableError)
    assert table in str(error)


def test_a_folder_that_takes_no_files(delta: SparkSession, path: str) -> None:
    """A file has the name of the folder for a partition: nothing is committed."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    Path(path, "p=x").write_text("in the way")
    error = raised_by(lambda: delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')"))
    assert isinstance(error, StorageError)
    assert error.root == path
    assert [file.name for file in Path(path, "_delta_log").glob("*.json")] == [f"{0:020}.json"]


def creations(delta: SparkSession, path: str, checkpoint: str) -> list[Callable[[], Any]]:
    """Everything that makes a table in a folder."""
    frame, name = delta.range(2).withColumn("p", F.lit("x")), f"delta.`{path}`"
    delta.range(1).write.format("delta").mode("ignore").save(f"{checkpoint}-source")
    stream = delta.readStream.format("delta").load(f"{checkpoint}-source").writeStream.format("delta")
    stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)

    def sink() -> None:
        with pytest.raises(StreamingQueryException) as raised:
            stream.start(path).awaitTermination(60)
        assert raised.value.__cause__ is not None
        raise raised.value.__cause__

    statements = [
        f"CREATE TABLE {name} (id INT) USING delta",
        f"CREATE TABLE {name} USING delta AS SELECT 1 AS id",
        f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT 1 AS id",
        f"CREATE TABLE {name} SHALLOW CLONE delta.`{checkpoint}-source`",
    ]
    return [
        lambda: frame.write.format("delta").save(path),
        lambda: frame.write.format("delta").mode("append").save(path),
        lambda: frame.write.format("delta").mode("overwrite").save(path),
        lambda: frame.write.format("delta").partitionBy("p").mode("append").save(path),
        lambda: frame.writeTo(name).using("delta").create(),
        lambda: DeltaTable.createIfNotExists(delta).location(path).addColumn("id", "INT").execute(),
        *(functools.partial(delta.sql, statement) for statement in statements),
        sink,
    ]


@pytest.mark.parametrize(
    "obstacle",
    [
        "is a file",
        *(pytest.param(obstacle, marks=pytest.mark.long) for obstacle in ("is below a file", "cannot be made")),
    ],
)
def test_a_folder_that_cannot_be(delta: SparkSession, tmp_path: Path, obstacle: str) -> None:
    """Covers bug B94: what creates a table raised the writer's exception of Java, with 200 lines."""
    file = tmp_path / "file"
    file.write_text("in the way")
    path = {"is a file": str(file), "is below a file": f"{file}/t", "cannot be made": "/proc/anabranch/t"}[obstacle]
    for call in creations(delta, path, str(tmp_path / "checkpoint")):
        error = raised_by(call)
        assert type(error) is StorageError
        assert error.root == path
        assert ("A file has the path" in str(error)) == ("file" in obstacle)
    assert file.read_text() == "in the way"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write into every folder")
def test_a_folder_that_is_read_only(delta: SparkSession, table: str) -> None:
    """Covers bug B94: for any statement, with the missing right."""
    name = f"delta.`{table}`"
    delta.sql(f"INSERT INTO {name} VALUES (7)")
    source = f"MERGE INTO {name} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 8"
    calls: list[Callable[[], Any]] = [
        *(
            functools.partial(delta.sql, statement)
            for statement in (
                f"INSERT INTO {name} VALUES (9)",
                f"INSERT OVERWRITE {name} VALUES (9)",
                f"UPDATE {name} SET id = 8 WHERE id = 1",
                f"DELETE FROM {name} WHERE id = 1",
                source,
                f"OPTIMIZE {name}",
                f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = 'b')",
            )
        ),
        lambda: delta.range(1).write.format("delta").mode("append").save(table),
        lambda: delta.range(1).writeTo(name).append(),
    ]
    folders = [Path(table), Path(table, "_delta_log")]
    for folder in folders:
        folder.chmod(0o555)
    try:
        for call in calls:
            error = raised_by(call)
            assert isinstance(error, StorageError)
            assert "no right" in str(error)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert DeltaTable.forPath(delta, table).history().count() == 2


def test_an_error_of_a_stream_names_the_file(delta: SparkSession, table: str, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    feed = Feed(tmp_path / "feed", columns="id long")
    feed.put({"id": 1})
    existing = delta.read.format("delta").load(table)
    data_file(table).unlink()
    query = writer(feed.frame(delta).join(existing, "id"), feed).start(str(tmp_path / "into"))
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(60)
    assert isinstance(raised.value.__cause__, DataFileMissingError)


def test_a_program_of_the_jvm_sees_the_same(delta: SparkSession, path: str) -> None:
    """Condition, SQLSTATE and message, as Spark's own errors have them."""
    delta.range(1).write.format("delta").save(path)
    statement = f"DELETE FROM delta.`{path}` WHERE nothing = 1"
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        delta.sql(statement)
    error = raised_by(lambda: delta.read.format("delta").option("versionAsOf", 9).load(path))
    thrown = delta._jvm.delta.DeltaError(error.getCondition(), error.getSqlState(), error.message(), 0)
    assert (thrown.getCondition(), thrown.getSqlState()) == (error.getCondition(), error.getSqlState())
    assert thrown.getMessage() == f"{error} SQLSTATE: {error.getSqlState()}"


def test_other_programs_get_no_answer(delta: SparkSession) -> None:
    """A program of the machine that finds the port of the callbacks and knows no token gets no answer."""
    gateway: Any = delta.sparkContext._gateway
    doors = [
        key for key, thing in gateway.gateway_property.pool.dict.items() if type(thing).__name__ == "CallbackEndpoint"
    ]
    assert doors
    for token in (None, "wrong"):
        with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=10) as stranger:
            if token is not None:
                stranger.sendall(f"A\n{token}\n".encode())
            stranger.sendall(f"c\n{doors[0]}\napply\nsnonsense\nn\ne\n".encode())
            reply = b""
            try:
                while part := stranger.recv(1000):
                    reply += part
            except ConnectionError:
                pass
        assert b"KeyError" not in reply
        assert not reply.startswith((b"!yr", b"!yn"))


def test_an_error_holds_nothing_of_the_program(delta: SparkSession, table: str) -> None:
    """The same error is returned twice, and it does not keep the variables of the frames that it passed."""

    class Large:
        pass

    frame = delta.read.format("delta").load(table)

    def meet(call: Callable[[], object]) -> tuple[str, weakref.ref[Large]]:
        large = Large()
        return str(raised_by(call)), weakref.ref(large)

    shutil.rmtree(table)
    calls = [frame.collect, frame.collect, lambda: delta.read.format("delta").option("versionAsOf", 9).load(table)]
    met = [meet(call) for call in calls]
    assert met[0][0] == met[1][0]
    gc.collect()
    assert [held() for _, held in met] == [None] * len(calls)


def test_the_parser_throws_no_wrapper(delta: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a proxy in the JVM. Clients of a server know an error by its class, so it must not be Java's wrapper."""
    convert, thrown = captured.convert_exception, []

    def recorded(error: Any) -> Any:
        thrown.append(str(error.getClass().getName()))
        return convert(error)

    monkeypatch.setattr(captured, "convert_exception", recorded)
    with pytest.raises(SqlSyntaxError):
        delta.sql("RESTORE TABLE delta.`/nowhere` TO")
    assert thrown[-1] == "delta.DeltaError"


def test_an_internal_error_names_its_line(delta: SparkSession) -> None:
    jvm: Any = delta._jvm
    with pytest.raises(KeyError) as raised:
        jvm.anabranch.PythonCallbacks.refuseFilteredTarget("no such node")
    assert raised.value.args == ("no such node",)
    (note,) = raised.value.__notes__
    assert note.startswith("Raised while Python answered Spark:\n")
    assert "callbacks" in note


WRITES: dict[str, Callable[[DataFrame, str], object]] = {
    "DELTA_PATH_EXISTS": lambda frame, path: frame.write.format("delta").save(path),
    "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS": lambda frame, path: (
        frame.write.format("delta").mode("append").option("txnAppId", "a").save(path)
    ),
    "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE": lambda frame, path: (
        frame.write.format("delta")
        .mode("overwrite")
        .options(replaceWhere="id = 1", partitionOverwriteMode="dynamic")
        .save(path)
    ),
    "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE": lambda frame, path: (
        frame.write.format("delta")
        .mode("overwrite")
        .partitionBy("id")
        .options(overwriteSchema="true", partitionOverwriteMode="dynamic")
        .save(path)
    ),
}


def test_writers_raise_deltas_conditions(delta: SparkSession, path: str) -> None:
    """Raised before anything is said of schema and partitions. Other conditions of writers are in `tests/differential`."""
    frame = delta.range(3)
    frame.write.format("delta").save(path)
    raised = {condition: raised_by(functools.partial(run, frame, path)) for condition, run in WRITES.items()}
    assert [error.getCondition() for error in raised.values()] == list(raised)
