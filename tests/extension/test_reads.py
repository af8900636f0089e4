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
from anabranch.errors.dml import TableFunctionArgumentsError
from anabranch.errors.log import VersionNotFoundError
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.errors.tables import NotADeltaTableError

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


def test_tables_have_names_of_one_two_and_three_parts(delta: SparkSession, name: str) -> None:
    for parts in (name, f"default.{name}", f"spark_catalog.default.{name}", f"`default`.`{name}`"):
        assert delta.table(parts).count() == 3
        assert delta.sql(f"SELECT count({name}.k) FROM {parts}").first()[0] == 3
    assert delta.sql(f"SELECT default.{name}.b FROM default.{name} WHERE default.{name}.k = 1").first()[0] == "x"
    assert delta.sql(f"SELECT spark_catalog.default.{name}.b FROM {name} WHERE k = 1").first()[0] == "x"


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


def test_partition_folders_are_read_as_their_rows(delta: SparkSession, name: str, location: str) -> None:
    assert rows(delta.read.format("delta").load(f"{location}/p=1").select("k")) == [(1,), (3,)]


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


def test_frames_and_views_follow_their_table(delta: SparkSession, name: str, location: str) -> None:
    """Bug B46: a frame without a version of its own shows the newest each time it runs, as in Delta."""
    delta.table(name).createOrReplaceTempView(f"v_{name}")
    delta.sql(f"CREATE VIEW p_{name} AS SELECT k FROM {name}")
    delta.sql(f"CREATE OR REPLACE TEMP VIEW w_{name} AS SELECT k FROM {name}")
    delta.sql(f"CREATE OR REPLACE GLOBAL TEMP VIEW g_{name} AS SELECT k FROM {name}")
    frames = [
        delta.table(name),
        delta.read.table(name),
        delta.read.format("delta").load(location),
        delta.sql(f"SELECT * FROM {name}"),
        delta.table(f"v_{name}"),
        delta.table(f"p_{name}"),
        delta.table(f"w_{name}"),
        delta.table(f"global_temp.g_{name}"),
        delta.table(name).where("k > 0").select("k").distinct(),
    ]
    assert [frame.count() for frame in frames] == [3] * len(frames)
    delta.sql(f"INSERT INTO {name} VALUES (4, 'w', 2)")
    assert [frame.count() for frame in frames] == [4] * len(frames)
    delta.sql(f"DROP VIEW p_{name}")


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


def test_a_script_does_not_conflict_with_itself(delta: SparkSession, name: str, location: str) -> None:
    """Bug B17: rows computed from a table, then the table changed, then the rows appended to it."""
    more = delta.read.format("delta").load(location).where("p = 1").withColumn("k", F.col("k") + 10)
    delta.sql(f"DELETE FROM {name} WHERE k = 1")
    more.write.format("delta").mode("append").save(location)
    assert rows(delta.table(name).select("k")) == [(2,), (3,), (13,)]


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


def test_rows_of_tracked_tables_have_ids_in_metadata(delta: SparkSession, name: str) -> None:
    name = f"r_{name}"
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    delta.createDataFrame([(1,), (2,)], "a INT").coalesce(1).write.insertInto(name)
    delta.sql(f"INSERT INTO {name} VALUES (3)")
    delta.sql(f"DELETE FROM {name} WHERE a = 1")
    ids = f"SELECT a, _metadata.row_id, _metadata.row_commit_version, _metadata.base_row_id FROM {name}"
    assert rows(delta.sql(ids)) == [(2, 1, 1, 0), (3, 2, 2, 2)]
    assert rows(delta.sql(f"SELECT a FROM {name} WHERE _metadata.row_id = 1")) == [(2,)]
    assert "row_id" in delta.table(name).select("_metadata.*").columns


# Change feeds.


@pytest.fixture
def fed(delta: SparkSession, name: str) -> str:
    name = f"f_{name}"
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"INSERT INTO {name} VALUES (2)")
    return name


def test_changes_are_read_by_options_and_by_functions(delta: SparkSession, fed: str) -> None:
    last = 2
    location = delta.sql(f"SELECT DISTINCT _metadata.file_path FROM {fed}").first()[0].rpartition("/")[0]
    options = {"readChangeFeed": "true", "startingVersion": str(last)}
    expected = [(2, "insert", last)]
    names = ("a", "_change_type", "_commit_version")
    assert rows(delta.read.options(**options).table(fed).select(*names)) == expected
    assert rows(delta.read.format("delta").options(**options).load(location).select(*names)) == expected
    for call in (
        f"table_changes('{fed}', {last})",
        f"table_changes('{fed}', {last - 1} + 1, {last})",
        f"table_changes('default.{fed}', {last})",
        f"table_changes_by_path('{location}', {last})",
    ):
        assert rows(delta.sql(f"SELECT {', '.join(names)} FROM {call}")) == expected
    assert delta.sql("SELECT * FROM table_changes(:t, :v)", {"t": fed, "v": last}).count() == 1
    joined = f"SELECT count(*) FROM table_changes('{fed}', {last}) x JOIN table_changes('{fed}', {last}) y USING (a)"
    assert delta.sql(joined).first()[0] == 1
    hour = f"SELECT count(*) FROM table_changes('{fed}', current_timestamp() - INTERVAL 1 HOUR)"
    assert delta.sql(hour).first()[0] == 2


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark took functions of extensions for temporary ones")
def test_a_view_over_changes_works_in_other_sessions(delta: SparkSession, fed: str) -> None:
    delta.sql(f"CREATE VIEW v_{fed} AS SELECT a FROM table_changes('{fed}', 2)")
    assert delta.newSession().table(f"default.v_{fed}").count() == 1
    with pytest.raises(NotADeltaTableError, match="view"):
        delta.sql(f"SELECT * FROM table_changes('v_{fed}', 0)")
    delta.sql(f"DROP VIEW v_{fed}")


def test_functions_of_the_feed_check_their_arguments(delta: SparkSession, fed: str) -> None:
    for arguments in (f"'{fed}'", f"'{fed}', 1, 2, 3", "1, 1", f"'{fed}', -1", f"'{fed}', 1.5"):
        with pytest.raises(TableFunctionArgumentsError):
            delta.sql(f"SELECT * FROM table_changes({arguments})")


def test_one_frame_collected_twice(delta: SparkSession, name: str) -> None:
    """A frame that was collected is planned, as any of Spark's: what is made of it shows the newest rows."""
    delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS SELECT id FROM range(3)")
    frame = delta.table(name).where("id >= 0").orderBy("id")
    joined = frame.alias("a").join(frame.alias("b"), "id")
    assert (frame.collect(), frame.count(), joined.count()) == ([(0,), (1,), (2,)], 3, 3)
    delta.sql(f"DELETE FROM {name} WHERE id = 1")
    delta.sql(f"INSERT INTO {name} VALUES (7)")
    assert frame.collect() == [(0,), (1,), (2,)]
    assert frame.select("id").collect() == [(0,), (2,), (7,)]
    assert (frame.count(), joined.count(), frame.limit(2).collect()) == (3, 3, [(0,), (2,)])


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
