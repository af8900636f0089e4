"""Paths that mean less than a table: partitions, old versions, the log.

Covers bug B57: nothing that changes rows reaches rows that its words do not name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.arguments import HistoricalTargetError, InvalidOptionError, PartialTargetError
from anabranch.errors.base import DeltaError
from anabranch.errors.tables import LocationInTableError
from anabranch.tables import DeltaTable
from session_kinds import in_this_process

pytestmark = pytest.mark.spark

ROWS: list[tuple[int, str | None]] = [(1, "a b"), (2, "a b"), (3, "2"), (4, None)]
STATEMENTS = """\
DELETE FROM {t}
DELETE FROM {t} WHERE v = 1
DELETE FROM part_of_it WHERE v = 1
UPDATE {t} SET v = 9
MERGE INTO {t} AS a USING (SELECT 1 v) s ON a.v = s.v WHEN MATCHED THEN DELETE
TRUNCATE TABLE {t}
INSERT INTO {t} VALUES (7, 'n')
INSERT INTO {t} (v, k) VALUES (7, 'n')
INSERT INTO {t} BY NAME SELECT 7 v, 'n' k
INSERT OVERWRITE {t} VALUES (7, 'n')
INSERT OVERWRITE {t} PARTITION (k = '2') VALUES (7)
INSERT INTO {t} REPLACE WHERE k = '2' VALUES (7, '2')
OPTIMIZE {t}
VACUUM {t}
REORG TABLE {t} APPLY (PURGE)
RESTORE TABLE {t} TO VERSION AS OF 0
ALTER TABLE {t} ADD COLUMN z INT
ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')
ALTER TABLE {t} ADD CONSTRAINT c CHECK (v > 0)
ALTER TABLE {t} DROP FEATURE deletionVectors
ALTER TABLE {t} ALTER COLUMN v COMMENT 'x'
COMMENT ON TABLE {t} IS 'x'
GENERATE symlink_format_manifest FOR TABLE {t}
CREATE OR REPLACE TABLE {t} (v INT) USING delta
CREATE OR REPLACE TABLE {t} USING delta AS SELECT 7 v
CREATE TABLE part_by_name (v INT) USING delta LOCATION '{p}'
CREATE TABLE delta.`{other}` LIKE {t}
CREATE TABLE delta.`{other}` SHALLOW CLONE {t}
CONVERT TO DELTA parquet.`{p}`
DROP TABLE {t}""".splitlines()


def _apis(spark: SparkSession) -> dict[str, Callable[[str], object]]:
    def new() -> DataFrame:
        return spark.sql("SELECT 7 v, 'n' k")

    def name(path: str) -> str:
        return f"delta.`{path}`"

    return {
        "save, append": lambda path: new().write.format("delta").mode("append").save(path),
        "save, overwrite": lambda path: new().write.format("delta").mode("overwrite").save(path),
        "save": lambda path: new().write.format("delta").save(path),
        "insertInto": lambda path: new().write.insertInto(name(path)),
        "insertInto, overwrite": lambda path: new().write.insertInto(name(path), overwrite=True),
        "saveAsTable, append": lambda path: new().write.format("delta").mode("append").saveAsTable(name(path)),
        "saveAsTable, overwrite": lambda path: new().write.format("delta").mode("overwrite").saveAsTable(name(path)),
        "append": lambda path: new().writeTo(name(path)).append(),
        "overwrite": lambda path: new().writeTo(name(path)).overwrite(F.lit(True)),
        "overwritePartitions": lambda path: new().writeTo(name(path)).overwritePartitions(),
        "createOrReplace": lambda path: new().writeTo(name(path)).using("delta").createOrReplace(),
        "forPath": lambda path: DeltaTable.forPath(spark, path).delete(),
        "forName": lambda path: DeltaTable.forName(spark, name(path)).update(set={"v": "9"}),
        "builder": lambda path: DeltaTable.createOrReplace(spark).location(path).addColumn("v", "INT").execute(),
    }


@pytest.fixture
def partitioned(delta: SparkSession, path: str) -> str:
    delta.sql(f"CREATE TABLE delta.`{path}` (v INT, k STRING) USING delta PARTITIONED BY (k)")
    delta.createDataFrame(ROWS, "v INT, k STRING").repartition(1).write.format("delta").mode("append").save(path)
    return path


def _files(path: str) -> list[str]:
    """What is on disk in and beside the table: no commit, no table, no file comes or goes without a change of it."""
    return sorted(str(file) for file in Path(path).parent.rglob("*") if file.is_file())


def _rows(spark: SparkSession, path: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(f"SELECT * FROM delta.`{path}`").collect())


@pytest.mark.parametrize("part", ["/k=a%20b", "@v1", "/_delta_log/k=2"])
def test_what_changes_tables_refuses_parts_of_them(
    delta: SparkSession, partitioned: str, tmp_path: Path, part: str
) -> None:
    path, other = partitioned + part, str(tmp_path / "other")
    delta.sql("DROP TABLE IF EXISTS part_by_name")
    if "_delta_log" not in part:
        delta.sql(f"CREATE OR REPLACE TEMPORARY VIEW part_of_it AS SELECT * FROM delta.`{path}`")
    before, taken = _files(partitioned), []
    actions: dict[str, Callable[[str], object]] = {
        text: lambda path, text=text: delta.sql(text.format(t=f"delta.`{path}`", p=path, other=other))
        for text in STATEMENTS
        if "part_of_it" not in text or "_delta_log" not in part
    }
    for name, action in {**actions, **_apis(delta)}.items():
        try:
            action(path)
            taken.append(name)
        except (DeltaError, PySparkException):
            pass
        assert _files(partitioned) == before, name
    assert taken == []
    assert _rows(delta, partitioned) == sorted(ROWS)


def test_a_path_to_a_partition_shows_its_rows(delta: SparkSession, partitioned: str) -> None:
    """By every way to read it. Folders are named as Hive names them: `%20`, and a name of its own for NULL."""
    expected = {"k=a b": [1, 2], "k=a%20b": [1, 2], "K=2": [3], "k=__HIVE_DEFAULT_PARTITION__": [4], "k=nowhere": []}
    for part, values in expected.items():
        path = f"{partitioned}/{part}"
        frames = (
            delta.read.format("delta").load(path),
            delta.table(f"delta.`{path}`"),
            delta.sql(f"SELECT * FROM delta.`{path}`"),
        )
        for frame in frames:
            assert sorted(row.v for row in frame.collect()) == values, part
            assert (frame.count(), frame.columns) == (len(values), ["v", "k"])
    assert delta.sql(f"SELECT * FROM delta.`{partitioned}/k=2@v0`").collect() == []


def test_what_is_no_partition_is_named(delta: SparkSession, partitioned: str, path: str) -> None:
    for read in (delta.table, delta.read.table):
        with pytest.raises(InvalidOptionError, match="nope is not a partition column"):
            read(f"delta.`{path}/nope=1`").collect()
    with pytest.raises(PartialTargetError, match="one partition of") as partial:
        delta.sql(f"DELETE FROM delta.`{path}/k=2`")
    assert partial.value.getCondition() == "DELTA_UNEXPECTED_PARTIAL_SCAN"
    with pytest.raises(HistoricalTargetError, match="version 0"):
        delta.sql(f"ALTER TABLE delta.`{path}@v0` ADD COLUMN z INT")
    with pytest.raises(LocationInTableError, match="one of its partitions"):
        delta.range(1).write.format("delta").save(f"{path}/k=3")
    with pytest.raises(LocationInTableError, match="its log"):
        delta.range(1).write.format("delta").save(f"{path}/_delta_log")
    with pytest.raises(InvalidOptionError, match="whole table"):
        assert delta.readStream.table(f"delta.`{path}/k=2`").schema


@in_this_process
def test_a_stream_writes_to_no_partition(delta: SparkSession, partitioned: str, tmp_path: Path) -> None:
    source = delta.readStream.format("delta").load(partitioned)
    sink = source.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    for part in ("/k=2", "/_delta_log", "@v0"):
        with pytest.raises((DeltaError, PySparkException)):
            sink.start(partitioned + part).processAllAvailable()
    assert _rows(delta, partitioned) == sorted(ROWS)


def test_folders_with_such_names_hold_tables(delta: SparkSession, tmp_path: Path) -> None:
    """Where no table is around them."""
    for name in ("k=1", "t@v3", "log"):
        folder = str(tmp_path / name)
        delta.range(3).write.format("delta").save(folder)
        delta.sql(f"DELETE FROM delta.`{folder}` WHERE id = 0")
        assert delta.sql(f"SELECT * FROM delta.`{folder}`").count() == 2
