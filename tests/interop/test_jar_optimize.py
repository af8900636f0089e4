"""What OPTIMIZE leaves behind is what the delta-spark jar would have left: cubes, and the ids of rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.optimize.optimize_command import optimize
from anabranch.commands.optimize.purge import purge
from anabranch.commands.table_access import TableRef, table_at
from anabranch.spark.session.delta_session import DeltaSession
from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar
from interop.jar_tables import CHANGES

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

ROWS = "SELECT id, CAST(id * 7 % 40 AS INT) AS part, concat('w', id) AS word FROM range({}, {}, 1, 2)"


def files_optimized(jar: Jar, table: TableRef) -> int:
    """The number of files that the jar rewrites."""
    before = {add.path for add in table.latest().files.to_actions()}
    jar.run(f"OPTIMIZE delta.`{table.path}`")
    return len(before - {add.path for add in table.latest().files.to_actions()})


def test_each_finds_what_the_other_clustered(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    table = table_at(DeltaSession.of(native), root)
    jar.run(
        f"CREATE TABLE delta.`{root}` (id BIGINT, part INT, word STRING) USING delta CLUSTER BY (part, word)",
        f"INSERT INTO delta.`{root}` {ROWS.format(0, 40)}",
    )
    assert optimize(table).num_bins == 1
    assert files_optimized(jar, table) == 0
    jar.run(f"INSERT INTO delta.`{root}` {ROWS.format(40, 50)}")
    assert files_optimized(jar, table) > 1, "a small cube is merged with what is new"
    assert optimize(table).num_bins == 0
    jar.run(f"ALTER TABLE delta.`{root}` CLUSTER BY (id)")
    assert (optimize(table).num_bins, files_optimized(jar, table)) == (0, 0)
    assert optimize(table, full=True).num_bins == 1
    assert files_optimized(jar, table) == 0

    here = native.read.format("delta").load(root).toArrow()
    assert len(here) == 50
    assert explain(rows_of(here), rows_of(jar.rows(f"SELECT * FROM delta.`{root}`"), here.column_names)) == ""


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_rows_keep_the_ids_that_the_jar_gave_them(jar: Jar, native: SparkSession, tmp_path: Path, mode: str) -> None:
    root = str(tmp_path / "t")
    properties = f"'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = '{mode}'"
    jar.run(
        f"CREATE TABLE delta.`{root}` USING delta TBLPROPERTIES ({properties}) AS {ROWS.format(0, 40)}",
        f"INSERT INTO delta.`{root}` {ROWS.format(40, 60)}",
        *(statement.format(t=f"delta.`{root}`") for statement in CHANGES),
    )
    query = f"SELECT *, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM delta.`{root}`"
    before = jar.rows(query)
    table = table_at(DeltaSession.of(native), root)
    purge(table)
    assert optimize(table, zorder_by=["part", "word"]).num_bins
    assert explain(rows_of(jar.rows(query)), rows_of(before)) == ""
    jar.run(f"INSERT INTO delta.`{root}` {ROWS.format(100, 110)}", f"UPDATE delta.`{root}` SET part = 1 WHERE id = 104")
    before = jar.rows(query)
    assert optimize(table).num_bins == 1
    after = jar.rows(query)
    assert explain(rows_of(after), rows_of(before)) == ""
    assert len(set(after["r"].to_pylist())) == len(after)
