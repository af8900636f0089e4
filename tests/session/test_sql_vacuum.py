"""Deleting old files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError, InvalidOptionError
from anabranch.errors.maintenance import InventorySchemaError, RetentionTooShortError, VacuumModeError
from session.documented import statement

pytestmark = pytest.mark.spark

PREFIX = "spark.databricks.delta."


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """Ten rows of 2024 and ten of 2025, the former deleted; an old file that no commit names beside them."""
    name = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {name} USING delta PARTITIONED BY (year) AS SELECT id, 2024 + id DIV 10 AS year FROM range(0, 20, 1, 1)"
    )
    delta.sql(f"DELETE FROM {name} WHERE year = 2024")
    Path(path, "orphan").write_text("x")
    os.utime(Path(path, "orphan"), (1.7e9, 1.7e9))
    return name


@contextmanager
def settings(delta: SparkSession, **changes: str) -> Iterator[None]:
    """Settings of Delta, with `__` for a dot, for a while."""
    keys = {PREFIX + name.replace("__", "."): value for name, value in changes.items()}
    for key, value in keys.items():
        delta.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            delta.conf.unset(key)


def named(delta: SparkSession, sql: str, path: str) -> list[str]:
    """What a dry run names, below the table's folder."""
    frame = delta.sql(sql)
    assert frame.columns == ["path"]
    return [row.path.removeprefix(f"file:{path}/") for row in frame.collect()]


@statement("VACUUM t [RETAIN n HOURS] [DRY RUN]")
def test_vacuum(delta: SparkSession, table: str, path: str) -> None:
    """Deletes files that no version within `delta.deletedFileRetentionDuration`, or within these hours, needs, and that
    are old enough that no writer is about to commit them. Returns the table's path. With `DRY RUN` nothing is deleted,
    and each file that would be deleted is a row of the result. The folder can also be written as a string."""
    assert named(delta, f"VACUUM {table} DRY RUN", path) == ["orphan"]
    assert named(delta, f"VACUUM '{path}' DRY RUN RETAIN 168 HOURS", path) == ["orphan"]
    assert [row.path for row in delta.sql(f"VACUUM {table}").collect()] == [f"file:{path}"]
    assert not Path(path, "orphan").exists()
    assert delta.table(table).count() == 10

    with pytest.raises(RetentionTooShortError, match=r"0\.5 hours.*168 hours"):
        delta.sql(f"VACUUM {table} RETAIN 0.5 HOURS")
    with pytest.raises(InvalidArgumentError):
        delta.sql(f"VACUUM {table} RETAIN x HOURS")
    with settings(delta, retentionDurationCheck__enabled="false", vacuum__parallelDelete__enabled="true"):
        folders = named(delta, f"VACUUM {table} RETAIN 0 HOURS DRY RUN", path)
        assert [name.partition("/")[0] for name in folders] == ["year=2024"]
        delta.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert not Path(path, "year=2024").exists()
    assert delta.table(table).count() == 10
    end, start = delta.sql(f"DESCRIBE HISTORY {table} LIMIT 2").collect()
    assert (end.operation, end.operationParameters) == ("VACUUM END", {"status": "COMPLETED"})
    assert end.operationMetrics == {"numDeletedFiles": "1", "numVacuumedDirectories": "3"}
    assert start.operationParameters == {
        "retentionCheckEnabled": "false",
        "defaultRetentionMillis": "604800000",
        "specifiedRetentionMillis": "0",
    }


@statement("VACUUM t {LITE | FULL}")
def test_vacuum_lite(delta: SparkSession, table: str, path: str) -> None:
    """`LITE` reads from the log which files were removed, instead of listing the folder; files that no commit ever
    named stay. `FULL`, the default, lists the folder. `spark.databricks.delta.vacuum.lite.enabled` makes `LITE` the
    default."""
    with settings(delta, retentionDurationCheck__enabled="false", vacuum__logging__enabled="false"):
        assert len(named(delta, f"VACUUM {table} LITE RETAIN 0 HOURS DRY RUN", path)) == 1
        assert len(named(delta, f"VACUUM {table} FULL RETAIN 0 HOURS DRY RUN", path)) == 2
        with settings(delta, vacuum__lite__enabled="true"):
            delta.sql(f"VACUUM {table} RETAIN 0 HOURS")
        assert named(delta, f"VACUUM {table} LITE RETAIN 0 HOURS DRY RUN", path) == []
    assert Path(path, "orphan").exists()
    assert delta.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first().operation == "DELETE"
    with pytest.raises(VacuumModeError):
        delta.sql(f"VACUUM {table} LITE FULL")
    os.unlink(Path(path, "_delta_log", "_last_vacuum_info"))
    os.unlink(Path(path, "_delta_log", f"{0:020d}.json"))
    with settings(delta, retentionDurationCheck__enabled="perhaps"), pytest.raises(InvalidOptionError):
        delta.sql(f"VACUUM {table}")


@statement("VACUUM t USING INVENTORY {i | (query)}")
def test_vacuum_with_an_inventory(delta: SparkSession, table: str, path: str, name: str) -> None:
    """Reads the list of the folder's files from a table or a query with the columns `path` (complete), `length`,
    `isDir` and `modificationTime` (milliseconds), instead of listing the folder. Storages offer such lists."""
    rows = [
        (f"file:{path}/orphan", 1, False, 0),
        (f"file:{path}/elsewhere/../x", 1, False, 0),
        ("file:/x", 1, False, 0),
    ]
    listed = delta.createDataFrame(rows, "path STRING, length BIGINT, isDir BOOLEAN, modificationTime BIGINT")
    listed.createOrReplaceTempView("listed")
    assert named(delta, f"VACUUM {table} USING INVENTORY (SELECT * FROM listed) DRY RUN", path) == ["orphan"]
    listed.write.format("delta").saveAsTable(name)
    delta.sql(f"VACUUM {table} USING INVENTORY {name}")
    assert not Path(path, "orphan").exists()
    with pytest.raises(InventorySchemaError, match="path string, length int"):
        delta.sql(f"VACUUM {table} USING INVENTORY (SELECT 'x' AS path, 1 AS length)")
    with pytest.raises(VacuumModeError, match="INVENTORY"):
        delta.sql(f"VACUUM {table} LITE USING INVENTORY {name}")
