"""Local times in conditions mean the moments that Spark means. Covers bug B60."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.spark.conditions.user_condition import resolve_condition
from anabranch.spark.gateway.jvm_sessions import zones_of
from anabranch.tables import DeltaTable
from session_kinds import CONNECT, in_this_process, table_ref

pytestmark = pytest.mark.spark

ZONES = [
    "UTC",
    "+05:30",
    "GMT+8",
    "UTC+1",
    "PST",
    "Z",
    "Europe/Oslo",
    "America/New_York",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Europe/Amsterdam",
]
"""Offsets, names that Python's data lacks, and zones in which the two differ, or that change in odd ways."""
TIMES = [
    "0001-01-01 00:00:00",
    "1582-10-04 12:00:00",
    "1582-10-15 00:00:00",
    "1850-06-15 12:00:00",
    "1900-01-01 00:00:00",
    "1937-07-01 00:00:00",
    "1945-05-02 00:30:00",
    "1965-07-15 12:00:00",
    "1970-01-01 00:00:00",
    "2011-12-30 12:00:00",
    "2018-11-04 00:00:00",
    "2024-03-31 02:30:00",
    "2024-11-03 01:30:00",
    "2026-07-01 00:00:00",
    "9999-07-01 00:00:00",
    "9999-12-31 23:59:59",
]


@pytest.fixture
def zoned(delta: SparkSession) -> Iterator[SparkSession]:
    before = str(delta.conf.get("spark.sql.session.timeZone"))
    yield delta
    delta.conf.set("spark.sql.session.timeZone", before)


@in_this_process
def test_rules_are_those_of_the_jvm(zoned: SparkSession) -> None:
    """What clocks show of a moment, and the moment of what clocks show, as Spark's casts have both."""
    if CONNECT is not None:
        pytest.skip("looks into the session")
    jvm = zoned._jvm
    assert jvm is not None
    find = zones_of(jvm.anabranch)
    texts = ", ".join(f"('{text}')" for text in [*TIMES, "12024-07-01 00:00:00", "-0044-03-15 12:00:00"])
    for name in ZONES:
        zoned.conf.set("spark.sql.session.timeZone", name)
        zone = find(name)
        assert zone is not None
        instant, ntz = "CAST(t AS TIMESTAMP)", "CAST(t AS TIMESTAMP_NTZ)"
        shown = ", ".join(f"unix_micros(to_timestamp(CAST({column} AS STRING) || 'Z'))" for column in (ntz, instant))
        query = f"SELECT unix_micros({instant}), {shown} FROM VALUES {texts} AS v(t)"
        for moment, local, wall in zoned.sql(query).collect():
            assert zone.to_utc(local) == moment, (name, local)
            assert zone.to_local(moment) == wall, (name, moment)
    assert find("Nowhere/Else") is None


def test_how_far_oslo_is_ahead_in_summer(zoned: SparkSession) -> None:
    """The zone data are the JVM's, which `test_other_zone_data.py` changes."""
    zoned.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    row = zoned.sql("SELECT unix_timestamp(TIMESTAMP'2024-07-01 12:00:00') / 3600 % 24").first()
    assert row is not None
    assert 12 - row[0] == int(os.environ.get("ANABRANCH_TEST_OSLO_AHEAD_HOURS", "2"))


@in_this_process
@pytest.mark.parametrize("zones", [ZONES[6:7], pytest.param(ZONES[1::2], marks=pytest.mark.long)], ids=["one", "many"])
def test_no_file_with_a_row_is_left_out(zoned: SparkSession, tmp_path: Path, zones: list[str]) -> None:
    """Of each form of condition, in each zone: the rows that Spark finds without us are in files that we keep."""
    if CONNECT is not None:
        pytest.skip("looks into the session")
    for name in zones:
        zoned.conf.set("spark.sql.session.timeZone", name)
        path = tmp_path / "t"
        shutil.rmtree(path, ignore_errors=True)
        texts = ", ".join(f"('{text}')" for text in TIMES)
        rows = zoned.sql(
            f"SELECT CAST(t AS TIMESTAMP) AS ts, CAST(t AS TIMESTAMP_NTZ) AS ntz FROM VALUES {texts} AS v(t)"
        )
        made = rows.selectExpr("ts", "ntz", "CAST(ts AS DATE) AS day", "ts AS part").repartition(1)
        options = {"maxRecordsPerFile": "1", "path": str(path)}
        made.write.format("delta").partitionBy("part").options(**options).save()
        table = table_ref(zoned, str(path))
        snapshot = table.latest()
        conditions = [condition for text in TIMES for condition in _conditions(text)]
        truth = (
            zoned.read.format("delta").load(str(path)).selectExpr("input_file_name() AS file", *conditions).collect()
        )
        names = [path.rpartition("/")[2] for path in snapshot.files.columns("path")["path"].to_pylist()]
        for number, condition in enumerate(conditions, start=1):
            read = resolve_condition(
                zoned,
                condition,
                schema=snapshot.schema,
                column_mapping=snapshot.column_mapping_mode,
                now_ms=0,
                reads_table=lambda _: False,
            )
            kept = {
                file
                for file, keeps in zip(names, can_be_true(read.predicate, snapshot.skipping_columns), strict=True)
                if keeps
            }
            needed = {row.file.rpartition("/")[2] for row in truth if row[number]}
            assert needed <= kept, (name, condition)


def _conditions(text: str) -> list[str]:
    day = text.partition(" ")[0]
    return [
        f"ts = TIMESTAMP'{text}'",
        f"ts = '{text}'",
        f"part <= TIMESTAMP'{text}' AND part >= '{text}'",
        f"ts IN (TIMESTAMP'{text}', TIMESTAMP'2000-01-01 00:00:00')",
        f"CAST(ts AS DATE) = DATE'{day}'",
        f"NOT (CAST(ts AS DATE) < DATE'{day}')",
        f"year(ts) = {int(text[:4])}",
        f"ts >= DATE'{day}' AND day = DATE'{day}'",
        f"ntz = TIMESTAMP_NTZ'{text}'",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Europe/Oslo", "1965-07-15 12:00:00"),
        pytest.param("America/New_York", "9999-07-01 00:00:00", marks=pytest.mark.long),
    ],
)
def test_statements_find_the_row(zoned: SparkSession, path: str, name: str, text: str) -> None:
    """The row is in the results of SELECT, UPDATE, MERGE, `replaceWhere` and DELETE, also where files are left out by what a column generates."""
    zoned.conf.set("spark.sql.session.timeZone", name)
    table = f"delta.`{path}`"
    builder = DeltaTable.create(zoned).location(path).addColumn("ts", "TIMESTAMP").addColumn("v", "INT")
    builder.addColumn("day", "DATE", generatedAlwaysAs="CAST(ts AS DATE)").partitionedBy("day").execute()
    zoned.sql(f"INSERT INTO {table} (ts, v) VALUES (TIMESTAMP'{text}', 1), (TIMESTAMP'2000-01-01 00:00:00', 2)")
    where = f"ts = TIMESTAMP'{text}'"
    assert [row.v for row in zoned.sql(f"SELECT v FROM {table} WHERE {where}").collect()] == [1]
    assert zoned.sql(f"SELECT v FROM {table} WHERE CAST(ts AS DATE) = DATE'{text[:10]}'").count() == 1
    zoned.sql(f"UPDATE {table} SET v = 3 WHERE {where}")
    merge = f"MERGE INTO {table} t USING (SELECT TIMESTAMP'{text}' AS ts, 4 AS v) s ON t.ts = s.ts"
    zoned.sql(f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (ts, v) VALUES (s.ts, s.v)")
    assert sorted(row.v for row in zoned.sql(f"SELECT v FROM {table}").collect()) == [2, 4]
    new = zoned.sql(f"SELECT TIMESTAMP'{text}' AS ts, 5 AS v")
    new.write.format("delta").mode("overwrite").option("replaceWhere", where).save(path)
    assert sorted(row.v for row in zoned.sql(f"SELECT v FROM {table}").collect()) == [2, 5]
    zoned.sql(f"DELETE FROM {table} WHERE {where}")
    assert [row.v for row in zoned.sql(f"SELECT v FROM {table}").collect()] == [2]


@pytest.mark.parametrize(
    "name", ["+05:30", "PST", *(pytest.param(name, marks=pytest.mark.long) for name in ("GMT+8", "UTC+1", "Z"))]
)
def test_zones_that_python_does_not_know(zoned: SparkSession, path: str, name: str) -> None:
    zoned.conf.set("spark.sql.session.timeZone", name)
    zoned.sql(f"CREATE TABLE delta.`{path}` (ts TIMESTAMP) USING delta")
    zoned.sql(f"INSERT INTO delta.`{path}` VALUES (TIMESTAMP'2024-01-01 00:00:00')")
    row = zoned.sql("SELECT TIMESTAMP'2024-01-01 00:00:00' AS ts")
    row.write.format("delta").mode("overwrite").option("replaceWhere", "ts < '2025-01-01'").save(path)
    # As text: PySpark's client makes no datetime in a zone that Python does not know.
    history = zoned.sql(f"DESCRIBE HISTORY delta.`{path}`").where("version = 1")
    written = history.selectExpr("CAST(timestamp AS STRING) AS at").first()
    assert written is not None
    zoned.sql(f"RESTORE TABLE delta.`{path}` TO TIMESTAMP AS OF '{written.at}'")
    parameters = zoned.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").select("operationParameters").first()
    assert parameters is not None
    assert parameters[0]["timestamp"].startswith(written.at[:19])


LOST_DAYS = [
    "1500-02-28",
    "1582-10-04",
    "1582-10-05",
    "1582-10-10",
    "1582-10-14",
    "1582-10-15",
    "1582-10-16",
    "1883-11-18",
]


@pytest.mark.long
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_days_that_the_old_calendar_lacks_are_found(zoned: SparkSession, tmp_path: Path, mapping: str) -> None:
    """Covers bug B112: filters of Parquet get java.sql.Date and Timestamp, which lack 1582-10-05 to 14; row groups with rows that
    match were skipped. Also in nested columns, IN, and statements that change rows."""
    path = str(tmp_path / "old")
    zoned.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = ", ".join(f"('{day}', DATE'{day}', TIMESTAMP'{day} 12:00:00')" for day in LOST_DAYS)
    zoned.sql(
        f"CREATE TABLE delta.`{path}` (day STRING, d DATE, t TIMESTAMP, s STRUCT<t: TIMESTAMP>) USING delta "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')"
    )
    values = (
        f"SELECT /*+ REPARTITION({len(LOST_DAYS)}, day) */ *, named_struct('t', t) FROM VALUES {rows} AS v (day, d, t)"
    )
    zoned.sql(f"INSERT INTO delta.`{path}` {values}")
    table = f"delta.`{path}`"
    for day in LOST_DAYS:
        date, time = f"DATE'{day}'", f"TIMESTAMP'{day} 12:00:00'"
        for condition in (
            f"d = {date}",
            f"t = {time}",
            f"s.t = {time}",
            f"d IN ({date}, DATE'0001-01-01')",
            f"t <=> {time}",
            f"d BETWEEN {date} AND {date}",
            f"NOT (t < {time} OR t > {time})",
        ):
            selected = zoned.sql(f"SELECT day FROM {table} WHERE {condition}").collect()
            assert [row.day for row in selected] == [day], condition
    zoned.sql(f"UPDATE {table} SET day = 'changed' WHERE t = TIMESTAMP'1582-10-10 12:00:00'")
    zoned.sql(f"DELETE FROM {table} WHERE d < DATE'1582-10-10' AND d > DATE'1582-10-04'")
    left = [*(day for day in LOST_DAYS if day not in {"1582-10-05", "1582-10-10"}), "changed"]
    assert sorted(row.day for row in zoned.sql(f"SELECT day FROM {table}").collect()) == left
