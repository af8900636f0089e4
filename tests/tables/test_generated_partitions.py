"""Statements with a condition on a column open only the partitions that were computed from fitting values of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from anabranch.protocol import value_text
from anabranch.tables import DeltaTable
from snapshot.generated_partitions import COLUMNS, DATE, INT, MOMENT, TEXT, WALL, schema_of, skipping_columns

pytestmark = pytest.mark.spark

CLOCKS_CHANGE = """
    -200000-05-05 01:02:03, -0001-12-31 23:59:59.999999, 0001-01-01 00:00:00, 1582-10-04 12:00:00, 1582-10-15 00:00:00,
    1844-12-31 10:00:00, 1883-11-18 17:00:00, 1900-01-01 00:00:00, 1969-12-31 23:59:59.5, 2011-12-30 09:59:59,
    2011-12-30 10:00:00, 2018-11-04 02:59:59, 2018-11-04 03:00:00, 2024-02-29 23:30:00, 2024-03-10 06:59:59.999999,
    2024-03-10 07:00:00, 2024-03-31 01:00:00, 2024-04-06 15:29:59, 2024-10-05 15:30:00, 2024-10-27 00:59:59,
    2024-10-27 01:30:00, 2024-11-03 05:30:00, 2024-11-03 06:30:00, 2024-12-31 23:00:00, 9999-12-31 23:59:59.999999,
    +10000-01-01 00:00:00, +123456-07-08 09:10:11
"""
"""Around changes of clocks and calendars, as UTC: days that Samoa and Manila left out, midnights that São Paulo did."""
ZONES = ["UTC", "Pacific/Apia", "Asia/Manila", "America/Sao_Paulo", "Australia/Lord_Howe", "+18:00", "-18:00"]

_AS_STORED = {DATE: "unix_date({})", MOMENT: "unix_micros({})", INT: "{}", TEXT: "{}"}


def _stored(value: Any, data_type: T.DataType) -> str:
    if data_type is DATE:
        return value_text.format_days(value)
    return value_text.format_utc_micros(value) if data_type is MOMENT else str(value)


@pytest.mark.parametrize(("zone", "legacy"), [*((zone, False) for zone in ZONES), ("America/New_York", True)])
def test_what_spark_computes_anywhere_is_found(spark: SparkSession, zone: str, legacy: bool) -> None:
    """Spark itself computes the partition values; no row is left out by its own value, in whichever zone it was written."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY" if legacy else "CORRECTED")
    written = [(value_text.parse_local_micros(text), text.strip()) for text in CLOCKS_CHANGE.split(",")]
    moments = session.createDataFrame(written, "counted long, wall string")
    sources = {MOMENT: "timestamp_micros(counted)", WALL: "CAST(wall AS TIMESTAMP_NTZ)", DATE: "CAST(wall AS DATE)"}
    for source, sql in sources.items():
        counted = "unix_date(at)" if source is DATE else "counted"
        names = [name for name in COLUMNS if source is not DATE or name != "hour"]
        frame = moments.selectExpr("counted", f"{sql} AS at").selectExpr(
            f"{counted} AS counted",
            *(f"{_AS_STORED[COLUMNS[name][1]].format(COLUMNS[name][0])} AS {name}" for name in names),
        )
        rows = frame.collect()
        chosen = [[name] for name in names] + [[name for name in ("year", "month", "day", "hour") if name in names]]
        for partitions in chosen:
            files = [{name: _stored(row[name], COLUMNS[name][1]) for name in partitions} for row in rows]
            bounds = skipping_columns(schema_of(source, partitions), files).bounds([("at",)])["at",]
            for row, lower, upper in zip(rows, bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True):
                assert lower is None or lower <= row.counted, (source, row.counted, [row[name] for name in partitions])
                assert upper is None or upper >= row.counted, (source, row.counted, [row[name] for name in partitions])
            assert bounds.null_free.all()


THIRD = "at >= TIMESTAMP_NTZ'2024-01-03 00:00:00' AND at < TIMESTAMP_NTZ'2024-01-04 00:00:00'"
LATER = "at BETWEEN TIMESTAMP_NTZ'2024-01-03 00:00:00' AND TIMESTAMP_NTZ'2024-01-05 23:59:59'"


def six_days(delta: SparkSession, path: str) -> DeltaTable:
    """Rows 0 to 5 of six days from 2024-01-01 on, without statistics, of which the days 1, 2 and 6 cannot be read."""
    table = (
        DeltaTable.create(delta)
        .location(path)
        .addColumn("id", "LONG")
        .addColumn("at", "TIMESTAMP_NTZ")
        .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        .partitionedBy("day")
        .property("delta.dataSkippingNumIndexedCols", "0")
        .execute()
    )
    rows = "SELECT id, TIMESTAMP_NTZ'2024-01-01 12:00:00' + MAKE_DT_INTERVAL(CAST(id AS INT)) AS at FROM range(6)"
    delta.sql(rows).write.format("delta").mode("append").save(path)
    for day in (1, 2, 6):
        for file in Path(path, f"day=2024-01-0{day}").glob("*.parquet"):
            file.write_bytes(b"spoilt")
    return table


def test_a_query_opens_no_other_partition(native: SparkSession, path: str) -> None:
    frame = six_days(native, path).toDF()
    assert [row.id for row in frame.where(THIRD).collect()] == [2]
    assert [row.id for row in frame.where("CAST(at AS DATE) = DATE'2024-01-03'").collect()] == [2]
    assert frame.where(LATER).count() == 3
    with pytest.raises(Exception, match="2024-01-0"):
        frame.where("at < TIMESTAMP_NTZ'2024-01-03 00:00:00'").collect()


def test_statements_open_no_other_partition(delta: SparkSession, path: str) -> None:
    table = six_days(delta, path)
    table.update(THIRD, {"id": "id + 10"})
    source = delta.sql("SELECT 12L AS id, 22L AS changed")
    merge = table.alias("t").merge(source.alias("s"), f"t.id = s.id AND t.{LATER}")
    merge.whenMatchedUpdate(set={"id": "s.changed"}).execute()
    table.delete(f"id = 3 AND {LATER}")
    added = delta.sql("SELECT 30L AS id, TIMESTAMP_NTZ'2024-01-03 01:00:00' AS at")
    added.write.format("delta").mode("overwrite").option("replaceWhere", THIRD).save(path)
    table.delete("day < DATE'2024-01-03' OR day > DATE'2024-01-05'")
    assert sorted(row.id for row in delta.read.format("delta").load(path).collect()) == [4, 30]
