"""Columns of intervals, which other engines have written: read, and never written. See "Interval Types" of the protocol's RFC."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from anabranch.errors.protocol import IntervalWriteError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

DAY = datetime.timedelta(days=1)
MICROSECONDS = 86_400_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table as another engine leaves it: one row a file, partitioned by an interval."""
    root = tmp_path / "table"
    (root / "_delta_log").mkdir(parents=True)

    def field(name: str, kind: object) -> dict[str, object]:
        return {"name": name, "type": kind, "nullable": True, "metadata": {}}

    durations = {"type": "array", "elementType": "interval hour to second", "containsNull": True}
    schema = {
        "type": "struct",
        "fields": [
            field("id", "long"),
            field("d", "interval day to second"),
            field("m", "interval year"),
            field("ds", durations),
            field("p", "interval day to second"),
        ],
    }
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "intervals",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": ["p"],
                "configuration": {},
            }
        },
    ]
    for days in (1, 2):
        rows = pa.table(
            {
                "id": pa.array([days], pa.int64()),
                "d": pa.array([days * MICROSECONDS], pa.int64()),
                "m": pa.array([days * 12], pa.int32()),
                "ds": pa.array([[days * MICROSECONDS]], pa.list_(pa.int64())),
            }
        )
        pq.write_table(rows, root / f"{days}.parquet")
        statistics = {"numRecords": 1, "minValues": {"id": days}, "maxValues": {"id": days}, "nullCount": {"d": 0}}
        add = {
            "path": f"{days}.parquet",
            "partitionValues": {"p": f"INTERVAL '{days} 00:00:00' DAY TO SECOND"},
            "size": (root / f"{days}.parquet").stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(statistics),
        }
        actions.append({"add": add})
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(root)


def test_intervals_are_read(delta: SparkSession, path: str) -> None:
    """Covers bug B90: the table could not be read, and the message was one for writers."""
    rows = delta.read.format("delta").load(path)
    assert rows.schema["d"].dataType.simpleString() == "interval day to second"
    assert rows.schema["m"].dataType.simpleString() == "interval year to month"
    assert rows.select("id", "d", "ds", "p").orderBy("id").collect() == [
        (1, DAY, [DAY], DAY),
        (2, 2 * DAY, [2 * DAY], 2 * DAY),
    ]
    assert rows.selectExpr("sum(extract(YEAR FROM m))").collect() == [(3,)]
    two = "INTERVAL '2' DAY"
    for condition in (f"d = {two}", f"p = {two}", "m > INTERVAL '1' YEAR", f"d IS NOT NULL AND p >= {two}", "id = 2"):
        assert rows.where(condition).select("id").collect() == [(2,)], condition
    assert delta.sql(f"DESCRIBE delta.`{path}`").where("col_name = 'd'").first().data_type == "interval day to second"  # type: ignore[union-attr]
    stream = delta.readStream.format("delta").load(path)
    assert stream.schema == rows.schema


def test_rows_with_intervals_are_not_written(delta: SparkSession, path: str) -> None:
    """Covers bug B90: refused by name."""
    table = DeltaTable.forPath(delta, path)
    rows = table.toDF()
    calls: list[Callable[[], Any]] = [
        lambda: rows.write.format("delta").mode("append").save(path),
        lambda: rows.select("id", "p").write.format("delta").mode("append").save(path),
        lambda: delta.sql(f"INSERT INTO delta.`{path}` SELECT * FROM delta.`{path}`"),
        lambda: table.update("id = 1", {"id": "5L"}),
        lambda: table.optimize().executeCompaction(),
        lambda: (
            table.alias("t")
            .merge(rows.alias("s"), "t.id = s.id")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        ),
    ]
    for call in calls:
        with pytest.raises(IntervalWriteError, match="interval columns"):
            call()
    assert table.history().count() == 1
    table.delete("id = 1")
    assert table.toDF().select("id").collect() == [(2,)]
