"""Rules of columns and descriptions of tables, with the delta-spark jar and anabranch taking turns on one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_columns import (
    alter_add_columns,
    alter_change_columns,
    alter_drop_columns,
    alter_sync_identity,
)
from anabranch.commands.alter.alter_constraints import alter_add_constraint, alter_drop_constraint
from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef, table_at
from anabranch.errors.constraints import CheckConstraintViolationError, GeneratedColumnMismatchError
from anabranch.schema.column_changes import FIRST, ColumnChange, NewColumn
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables import DeltaTable, IdentityGenerator
from interop.jar import JARS, Jar, JarError
from tables.races import beaten_to_the_commit

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def ours(native: SparkSession, root: str) -> TableRef:
    return table_at(DeltaSession.of(native), root)


def append(native: SparkSession, root: str, query: str) -> None:
    native.sql(query).write.format("delta").mode("append").save(root)


def both(jar: Jar, native: SparkSession, root: str, columns: str = "*") -> list[dict[str, Any]]:
    """The rows, which both read alike."""
    theirs = jar.rows(f"SELECT {columns} FROM delta.`{root}`").to_pylist()
    here = native.read.format("delta").load(root).selectExpr(columns).toArrow().to_pylist()
    assert sorted(map(str, theirs)) == sorted(map(str, here))
    return here


def test_identity_columns_go_on_where_the_other_stopped(jar: Jar, native: SparkSession, root: str) -> None:
    jar.run(
        f"CREATE TABLE delta.`{root}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 5), v INT) "
        "USING delta",
        f"INSERT INTO delta.`{root}` (v) SELECT CAST(id AS INT) FROM range(0, 4, 1, 2)",
    )
    append(native, root, "SELECT CAST(id AS INT) AS v FROM range(0, 4, 1, 2)")
    jar.run(f"INSERT INTO delta.`{root}` (v) VALUES (1), (2)")
    append(native, root, "SELECT 3 AS v")
    ids = [row["id"] for row in both(jar, native, root)]
    assert len(set(ids)) == len(ids) == 11
    assert all(value % 5 == 0 and value >= 5 for value in ids)
    mark = ours(native, root).latest().schema["id"].metadata["delta.identity.highWaterMark"]
    assert mark == max(ids)


def test_identity_columns_of_ours_there(jar: Jar, native: SparkSession, root: str) -> None:
    builder = DeltaTable.create(native).location(root).addColumn("v", "INT")
    builder.addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator(start=0, step=-2)).execute()
    append(native, root, "SELECT 1 AS v")
    jar.run(f"INSERT INTO delta.`{root}` (v) VALUES (2)", f"INSERT INTO delta.`{root}` (v, id) VALUES (3, -100)")
    alter_sync_identity(ours(native, root), ("id",))
    jar.run(f"INSERT INTO delta.`{root}` (v) VALUES (4)")
    assert sorted((row["v"], row["id"]) for row in both(jar, native, root)) == [(1, 0), (2, -2), (3, -100), (4, -102)]


def test_numbers_that_ours_reserves_are_never_used_there(jar: Jar, native: SparkSession, root: str) -> None:
    """An append of ours that loses its numbers to the jar's rows reserves others in the log, and lands with them."""
    jar.run(
        f"CREATE TABLE delta.`{root}` (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING delta",
        f"INSERT INTO delta.`{root}` (v) VALUES (1)",
    )
    theirs = lambda: jar.run(f"INSERT INTO delta.`{root}` (v) VALUES (2), (3)")  # noqa: E731
    beaten_to_the_commit(native, lambda: append(native, root, "SELECT 4 AS v UNION ALL SELECT 5"), theirs)
    theirs()
    operations = [entry.operation for entry in DeltaTable.forPath(native, root).history().collect()]
    assert operations[::-1][2:] == ["WRITE", "RESERVE IDENTITY", "WRITE", "WRITE", "WRITE"]
    ids = [row["id"] for row in both(jar, native, root)]
    assert len(set(ids)) == len(ids) == 9
    mark = ours(native, root).latest().schema["id"].metadata["delta.identity.highWaterMark"]
    assert mark == max(ids)


def test_constraints_of_both(jar: Jar, native: SparkSession, root: str) -> None:
    jar.run(f"CREATE TABLE delta.`{root}` (id BIGINT, w STRING) USING delta")
    jar.run(f"ALTER TABLE delta.`{root}` ADD CONSTRAINT Theirs CHECK (id > 0 OR w LIKE 'its%')")
    alter_add_constraint(ours(native, root), "Ours", "length(w) < 10")
    append(native, root, "SELECT -1L AS id, 'itself' AS w")
    with pytest.raises(CheckConstraintViolationError, match="theirs"):
        append(native, root, "SELECT -1L AS id, 'x' AS w")
    with pytest.raises(JarError, match=r"(?i)ours"):
        jar.run(f"INSERT INTO delta.`{root}` VALUES (1, 'much too long')")
    alter_drop_constraint(ours(native, root), "THEIRS")
    jar.run(f"ALTER TABLE delta.`{root}` DROP CONSTRAINT ours", f"INSERT INTO delta.`{root}` VALUES (-1, '0123456789')")
    alter_drop_feature(ours(native, root), "checkConstraints")
    assert len(both(jar, native, root)) == 2


def test_generated_and_default_columns_of_both(jar: Jar, native: SparkSession, root: str) -> None:
    jar.run(
        f"CREATE TABLE delta.`{root}` (at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
        "n INT DEFAULT 40 + 2) USING delta PARTITIONED BY (day) TBLPROPERTIES "
        "('delta.feature.allowColumnDefaults' = 'supported')"
    )
    append(native, root, "SELECT TIMESTAMP'2024-02-29 10:00:00' AS at")
    jar.run(f"INSERT INTO delta.`{root}` (at) VALUES (TIMESTAMP'2024-03-01 10:00:00')")
    with pytest.raises(GeneratedColumnMismatchError):
        append(native, root, "SELECT TIMESTAMP'2024-02-29 10:00:00' AS at, DATE'2024-03-01' AS day")
    alter_change_columns(ours(native, root), [ColumnChange(path=("n",), default="7")])
    jar.run(f"INSERT INTO delta.`{root}` (at) VALUES (NULL)")
    rows = both(jar, native, root)
    assert sorted((str(row["day"]), row["n"]) for row in rows) == [("2024-02-29", 42), ("2024-03-01", 42), ("None", 7)]


def test_columns_changed_by_us_and_read_there(jar: Jar, native: SparkSession, root: str) -> None:
    """And the other way round: names, nested columns, types, positions."""
    native.sql("SELECT 1 AS a, named_struct('x', 2, 'y', 3) AS s, array(4) AS l").write.format("delta").save(root)
    table = ours(native, root)
    alter_set_properties(table, {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"})
    alter_add_columns(table, [NewColumn(path=("b",), data_type=StringType(), position=FIRST, comment="first")])
    alter_add_columns(table, [NewColumn(path=("s", "z"), data_type=IntegerType())])
    alter_change_columns(table, [ColumnChange(path=("a",), new_name="odd name")])
    alter_drop_columns(table, [("s", "x")])
    alter_change_columns(table, [ColumnChange(path=("odd name",), data_type=LongType())])
    alter_change_columns(table, [ColumnChange(path=("l", "element"), data_type=LongType())])
    both(jar, native, root)
    jar.run(f"INSERT INTO delta.`{root}` VALUES ('x', 5000000000, named_struct('y', 1, 'z', 2), array(6000000000))")
    jar.run(f"ALTER TABLE delta.`{root}` RENAME COLUMN b TO c", f"ALTER TABLE delta.`{root}` DROP COLUMN s.y")
    assert len(both(jar, native, root)) == 2
    assert ours(native, root).latest().schema.names == ["c", "odd name", "s", "l"]


def test_clustering_of_ours_there(jar: Jar, native: SparkSession, root: str) -> None:
    native.sql("SELECT id AS a, id % 3 AS b FROM range(10)").write.format("delta").save(root)
    alter_cluster_by(ours(native, root), [("b",)])
    jar.run(f"INSERT INTO delta.`{root}` VALUES (1, 1)", f"OPTIMIZE delta.`{root}`")
    assert jar.rows(f"DESCRIBE DETAIL delta.`{root}`").to_pylist()[0]["clusteringColumns"] == ["b"]
    alter_cluster_by(ours(native, root), [])
    assert jar.rows(f"DESCRIBE DETAIL delta.`{root}`").to_pylist()[0]["clusteringColumns"] == []
    assert len(both(jar, native, root)) == 11
