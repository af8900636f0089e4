"""Reading through Spark's own analyzer: names, versions, `_metadata`, feeds, and which version a frame shows."""

from __future__ import annotations

import concurrent.futures
import uuid
from collections.abc import Iterator
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.log import VersionNotFoundError
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.storage.local.local_store import LocalStore

pytestmark = pytest.mark.spark


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    """A table of three versions: none, then (1, x) and (2, y), then (3, z) as well; partitioned by `p`."""
    made = f"t_{uuid.uuid4().hex[:8]}"
    delta.sql(f"CREATE TABLE {made} (k INT, b STRING, p INT) USING delta PARTITIONED BY (p)")
    delta.sql(f"INSERT INTO {made} VALUES (1, 'x', 1), (2, 'y', 2)")
    delta.sql(f"INSERT INTO {made} VALUES (3, 'z', 1)")
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


@pytest.fixture
def location(delta: SparkSession, name: str) -> str:
    return delta.sql(f"SELECT DISTINCT _metadata.file_path FROM {name}").first()[0].split("/p=")[0]


# Names and versions.


def test_every_way_to_name_a_version(delta: SparkSession, name: str, location: str) -> None:
    first = [(1, "x", 1), (2, "y", 2)]
    path = location.removeprefix("file:")
    frames = [
        delta.sql(f"SELECT * FROM {name} VERSION AS OF 1"),
        delta.sql(f"SELECT * FROM {name} FOR SYSTEM_VERSION AS OF 1"),
        delta.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 1"),
        delta.sql(f"SELECT * FROM delta.`{path}@v1`"),
        delta.sql(f"SELECT * FROM `{name}@v1`"),
        delta.sql(f"SELECT * FROM {name}@v1"),
        delta.sql(f"SELECT t.* FROM default.{name}@v1 t"),
        delta.table(f"{name}@v1"),
        delta.read.option("versionAsOf", 1).table(name),
        delta.read.format("delta").option("VERSIONasof", "1").load(path),
        delta.read.format("delta").load(f"{path}@v1"),
        delta.read.format("delta").load([f"{path}@v1"]),
    ]
    delta.sql(f"DELETE FROM {name}")
    assert [rows(frame) for frame in frames] == [first] * len(frames)
    with pytest.raises(VersionNotFoundError, match="9"):
        delta.table(f"{name}@v9")


def test_text_with_a_version_and_a_mistake_gets_an_error_of_sparks(delta: SparkSession, name: str) -> None:
    with pytest.raises(ParseException):
        delta.sql(f"SELECT * FROM {name}@v1 WHERE )")
    assert delta.sql(f"SELECT '{name}@v1' AS k FROM {name}@v1").first()[0] == f"{name}@v1"
    assert delta.sql(f"SELECT ? FROM {name}@v1 LIMIT ?", ["x", 1]).collect() == [("x",)]


def test_errors_name_what_does_not_exist(delta: SparkSession, tmp_path: Any) -> None:
    missing = str(tmp_path / "nothing here")
    for read in (
        lambda: delta.sql(f"SELECT * FROM delta.`{missing}`"),
        lambda: delta.newSession().sql(f"SELECT * FROM delta.`{missing}`"),
        lambda: delta.sql(f"SELECT * FROM delta.`{missing}` VERSION AS OF 1"),
        lambda: delta.sql(f"SELECT 1 WHERE EXISTS (SELECT 1 FROM delta.`{missing}`)"),
        lambda: delta.sql(f"DELETE FROM delta.`{missing}` WHERE id = 1"),
        lambda: delta.read.format("delta").load(missing),
    ):
        with pytest.raises(NotADeltaTableError, match="nothing here"):
            read()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        delta.table("nonesuch")
    with pytest.raises(InvalidOptionError, match="exactly one path"):
        delta.read.format("delta").load([missing, missing])


def test_a_schema_given_to_the_reader_must_be_the_tables(delta: SparkSession, name: str, location: str) -> None:
    reader = delta.read.format("delta")
    assert reader.schema("k INT, b STRING, p INT").load(location).count() == 3
    with pytest.raises(InvalidOptionError, match="its own schema"):
        reader.schema("k STRING").load(location)


# Which version a frame shows.


def test_an_execution_sees_one_version_however_often_it_reads(delta: SparkSession, name: str) -> None:
    """Rows come all the time: every leaf of a query, those of its subqueries too, is of one version."""
    query = delta.sql(
        f"SELECT (SELECT count(*) FROM {name}) AS once, count(*) AS again, count_if(k IN (SELECT k FROM {name})) AS third "
        f"FROM {name} x JOIN {name} y USING (k)"
    )
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = pool.submit(lambda: [delta.sql(f"INSERT INTO {name} VALUES ({k}, 'n', 1)") for k in range(10, 20)])
        seen = [query.first()]
        while not done.done():
            seen.append(query.first())
    done.result()
    assert [len(set(row)) for row in seen] == [1] * len(seen)
    assert len({row.once for row in seen}) > 1


def test_a_frame_whose_columns_changed_says_so(delta: SparkSession, name: str) -> None:
    """Covers fault F51."""
    delta.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    frame = delta.table(name)
    delta.sql(f"ALTER TABLE {name} ADD COLUMNS (more INT)")
    assert (frame.count(), frame.columns) == (3, ["k", "b", "p"])
    delta.sql(f"ALTER TABLE {name} DROP COLUMN b")
    with pytest.raises(SchemaChangedSinceAnalysisError, match="column b"):
        frame.collect()


# Sessions.


def test_new_sessions_and_clones_know_the_table(delta: SparkSession, name: str) -> None:
    other = delta.newSession()
    assert other.table(f"default.{name}").count() == 3
    other.sql(f"DELETE FROM default.{name} WHERE k = 1")
    assert delta.table(name).count() == 2


# Columns that no schema names.


def test_metadata_is_what_spark_says_of_files_and_rows(delta: SparkSession, name: str) -> None:
    frame = delta.sql(f"SELECT _metadata.file_name, _metadata.file_size, _metadata.row_index, k FROM {name}")
    assert len({row.file_name for row in frame.collect()}) == 3
    assert all(row.file_size > 0 and row.row_index == 0 for row in frame.collect())
    assert delta.table(name).where("_metadata.row_index = 0").select("_metadata.file_path").count() == 3
    joined = f"SELECT x._metadata.file_path, y._metadata.file_path FROM {name} x JOIN {name} y ON x.k = y.k"
    assert all(row[0] == row[1] for row in delta.sql(joined).collect())
    delta.sql(f"DELETE FROM {name} WHERE k = 3")
    assert rows(delta.sql(f"SELECT k FROM {name} WHERE _metadata.row_index >= 0")) == [(1,), (2,)]
    assert delta.table(name).select(F.input_file_name().alias("f")).where("f LIKE '%parquet'").count() == 2


# Change feeds.


@pytest.fixture
def fed(delta: SparkSession, name: str) -> str:
    name = f"f_{name}"
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"INSERT INTO {name} VALUES (2)")
    return name


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark took functions of extensions for temporary ones")
def test_a_view_over_changes_works_in_other_sessions(delta: SparkSession, fed: str) -> None:
    delta.sql(f"CREATE VIEW v_{fed} AS SELECT a FROM table_changes('{fed}', 2)")
    assert delta.newSession().table(f"default.v_{fed}").count() == 1
    with pytest.raises(NotADeltaTableError, match="view"):
        delta.sql(f"SELECT * FROM table_changes('v_{fed}', 0)")
    delta.sql(f"DROP VIEW v_{fed}")


def test_rows_hidden_in_a_table_of_many_columns(delta: SparkSession, name: str) -> None:
    """Beyond `spark.sql.codegen.maxFields` Spark does not read by columns, and vectors are joined instead."""
    delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT id, id % 7 AS v FROM range(0, 100, 1, 1)")
    assert delta.sql(f"DELETE FROM {name} WHERE id % 10 = 3").first() == (10,)
    delta.conf.set("spark.sql.codegen.maxFields", "1")
    try:
        assert delta.sql(f"SELECT count(*), sum(id % 10), count(v) FROM {name}").first() == (90, 420, 90)
        assert delta.sql(f"SELECT (SELECT count(*) FROM {name} WHERE id < 4)").first() == (3,)
        assert delta.sql(f"UPDATE {name} SET v = -1 WHERE id IN (SELECT max(id) FROM {name})").first() == (1,)
        source = f"(SELECT id + 1 AS id FROM {name} WHERE v = -1)"
        merge = f"MERGE INTO {name} t USING {source} s ON t.id = s.id - 1 WHEN MATCHED THEN DELETE"
        assert delta.sql(merge).first()[0] == 1
        assert delta.sql(f"REORG TABLE {name} APPLY (PURGE)").first().metrics.numFilesRemoved > 0
        assert delta.table(name).count() == 89
    finally:
        delta.conf.unset("spark.sql.codegen.maxFields")


def test_vectors_in_one_file_are_read_together(delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement stores its vectors in one file. On an object store a request for each would take the longest."""
    delta.conf.set("spark.databricks.delta.properties.defaults.enableChangeDataFeed", "true")
    delta.range(0, 8000, 1, 4).write.format("delta").save(path)
    delta.conf.unset("spark.databricks.delta.properties.defaults.enableChangeDataFeed")
    for rest in (0, 1):
        assert delta.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = {rest}").first() == (2667,)
    vector_files, read_range = [], LocalStore.read_range

    def recorded(store: LocalStore, file: str, offset: int, length: int) -> bytes:
        vector_files.append(file)
        return read_range(store, file, offset, length)

    monkeypatch.setattr(LocalStore, "read_range", recorded)
    assert delta.read.format("delta").load(path).where("id % 2 = 0").count() == 1333
    assert len(vector_files) == 1
    vector_files.clear()
    changes = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    assert changes.where("id % 2 = 0").count() == 2667
    assert len(vector_files) == len(set(vector_files)) == 2, "the vectors of two statements"
