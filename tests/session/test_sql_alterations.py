"""Changing a table's definition."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.alterations import ColumnNamesNeedMappingError, FeatureDropError, FeatureInHistoryError
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.constraints import CheckConstraintViolationError, ExistingRowsViolateError
from anabranch.errors.tables import CreateTableMismatchError, NotADeltaTableError
from session.documented import statement

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    name = f"delta.`{path}`"
    delta.sql(
        f"""CREATE TABLE {name} (id INT, n INT, s STRUCT<x: INT>) USING delta
            TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'k' = 'v',
                           'delta.feature.allowColumnDefaults' = 'supported', 'delta.enableTypeWidening' = 'true')"""
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, 10, named_struct('x', 5))")
    return name


def detail(delta: SparkSession, table: str) -> Any:
    return delta.sql(f"DESCRIBE DETAIL {table}").first()


def columns(delta: SparkSession, table: str) -> list[tuple[str, str]]:
    return delta.sql(f"SELECT * FROM {table}").dtypes


def last_operation(delta: SparkSession, table: str) -> str:
    return str(delta.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first().operation)


@statement("ALTER TABLE t SET TBLPROPERTIES (…), UNSET TBLPROPERTIES [IF EXISTS] (…)")
def test_properties(delta: SparkSession, table: str) -> None:
    """Sets properties, and adds the table features that they need. UNSET restores their defaults."""
    altered = delta.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable', other.key = 5)"
    )
    assert altered.columns == []
    properties = detail(delta, table).properties
    assert (properties["delta.isolationLevel"], properties["other.key"], properties["k"]) == ("Serializable", "5", "v")
    delta.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('other.key', k)")
    delta.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('nope')")
    assert not {"other.key", "k"} & detail(delta, table).properties.keys()
    with pytest.raises(ValueError, match="Sometimes"):
        delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.isolationLevel' = 'Sometimes')")


@statement("ALTER TABLE t ADD COLUMNS (c type [COMMENT 'x'] [DEFAULT …] [FIRST | AFTER d], …)")
def test_add_columns(delta: SparkSession, table: str) -> None:
    """Adds columns, also to structs (`s.y`). Existing rows have NULL in them."""
    delta.sql(f"ALTER TABLE {table} ADD COLUMNS (first STRING COMMENT 'c' FIRST, s.y DATE, m BIGINT AFTER id)")
    assert columns(delta, table) == [
        ("first", "string"),
        ("id", "int"),
        ("m", "bigint"),
        ("n", "int"),
        ("s", "struct<x:int,y:date>"),
    ]
    assert delta.sql(f"SELECT first, id, s.y FROM {table}").first() == (None, 1, None)


@statement(
    "ALTER TABLE t ALTER COLUMN c {TYPE … | COMMENT … | FIRST | AFTER d | SET NOT NULL | SET DEFAULT … | …}, d …"
)
def test_alter_column(delta: SparkSession, table: str) -> None:
    """Changes the type (with `delta.enableTypeWidening`), comment, position, default or nullability of one or more
    columns."""
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT, n COMMENT 'tens'")
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN n FIRST")
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN n SET DEFAULT 3 + 4")
    assert columns(delta, table)[:2] == [("n", "int"), ("id", "bigint")]
    delta.sql(f"INSERT INTO {table} (id) VALUES ({2**40})")
    assert delta.sql(f"SELECT n FROM {table} WHERE id > 1").first() == (7,)
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN n DROP DEFAULT")
    delta.sql(f"ALTER TABLE {table} CHANGE COLUMN n number INT COMMENT 'renamed'")
    assert delta.sql(f"DESCRIBE {table}").first() == ("number", "int", "renamed")


@statement("ALTER TABLE t RENAME COLUMN a TO b, DROP COLUMN c")
def test_rename_and_drop_columns(delta: SparkSession, table: str) -> None:
    """Renames and drops columns without rewriting a file. The table needs `delta.columnMapping.mode = 'name'`."""
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN s.x TO `a b`")
    delta.sql(f"ALTER TABLE {table} DROP COLUMNS (n)")
    delta.sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS nope")
    assert columns(delta, table) == [("id", "int"), ("s", "struct<a b:int>")]
    assert delta.sql(f"SELECT s.`a b` FROM {table}").first() == (5,)


@statement("ALTER TABLE t REPLACE COLUMNS (…)")
def test_replace_columns(delta: SparkSession, table: str) -> None:
    """Gives the table these columns in this order: others are dropped, and new ones are added."""
    delta.sql(f"ALTER TABLE {table} REPLACE COLUMNS (n INT COMMENT 'c', id INT)")
    delta.sql(f"ALTER TABLE {table} REPLACE COLUMNS (n INT, more STRING, id INT)")
    assert columns(delta, table) == [("n", "int"), ("more", "string"), ("id", "int")]
    assert delta.sql(f"SELECT * FROM {table}").first() == (10, None, 1)


@statement("ALTER TABLE t ADD CONSTRAINT c CHECK (condition), DROP CONSTRAINT [IF EXISTS] c")
def test_constraints(delta: SparkSession, table: str) -> None:
    """Adds a condition that every row must satisfy, including the existing ones; or removes it."""
    with pytest.raises(ExistingRowsViolateError):
        delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (n < 10)")
    delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (n < 11)")
    with pytest.raises(CheckConstraintViolationError, match="small"):
        delta.sql(f"INSERT INTO {table} (n) VALUES (11)")
    delta.sql(f"ALTER TABLE {table} DROP CONSTRAINT small")
    delta.sql(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS small")
    delta.sql(f"INSERT INTO {table} (n) VALUES (11)")


@statement("ALTER TABLE t CLUSTER BY (columns) | NONE")
def test_cluster_by(delta: SparkSession, table: str) -> None:
    """Sets the clustering columns, by which OPTIMIZE orders rows, or removes them."""
    delta.sql(f"ALTER TABLE {table} CLUSTER BY (id, s.x)")
    assert detail(delta, table).clusteringColumns == ["id", "s.x"]
    delta.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    assert detail(delta, table).clusteringColumns == []


@statement("ALTER TABLE t ALTER COLUMN c SYNC IDENTITY")
def test_sync_identity(delta: SparkSession, path: str) -> None:
    """Lets an identity column continue after the highest number that inserted rows had."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, n INT) USING delta")
    delta.sql(f"INSERT INTO {table} VALUES (100, 1)")
    delta.sql(f"ALTER TABLE {table} ALTER COLUMN id SYNC IDENTITY")
    delta.sql(f"INSERT INTO {table} (n) VALUES (2)")
    assert delta.sql(f"SELECT min(id) FROM {table} WHERE n = 2").first()[0] > 100


@statement("ALTER TABLE t DROP FEATURE feature [TRUNCATE HISTORY]")
def test_drop_feature(delta: SparkSession, path: str) -> None:
    """Removes all uses of a feature from the table, and the feature from the protocol. If something must be done first,
    the error says what."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (n INT, CONSTRAINT small CHECK (n < 9)) USING delta")
    with pytest.raises(FeatureDropError, match="small"):
        delta.sql(f"ALTER TABLE {table} DROP FEATURE checkConstraints")
    delta.sql(f"ALTER TABLE {table} DROP CONSTRAINT small")
    delta.sql(f"ALTER TABLE {table} DROP FEATURE 'checkConstraints'")
    assert "checkConstraints" not in detail(delta, table).tableFeatures
    delta.sql(f"INSERT INTO {table} VALUES (1), (2)")
    delta.sql(f"DELETE FROM {table} WHERE n = 1")
    with pytest.raises(FeatureInHistoryError, match="24 hours"):
        delta.sql(f"ALTER TABLE {table} DROP FEATURE deletionVectors TRUNCATE HISTORY")
    delta.sql(f"ALTER TABLE {table} DROP FEATURE deletionVectors")
    assert "deletionVectors" not in detail(delta, table).tableFeatures
    assert [row.n for row in delta.sql(f"SELECT n FROM {table}").collect()] == [2]


@statement("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
def test_column_mapping_off(delta: SparkSession, table: str) -> None:
    """Turns column mapping off: rewrites the data files with the names of the columns that users see. UNSET does the
    same."""
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN n TO `n n`")
    with pytest.raises(ColumnNamesNeedMappingError, match="`n n`"):
        delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    delta.sql(f"ALTER TABLE {table} RENAME COLUMN `n n` TO m")
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    assert last_operation(delta, table) == "REMOVE COLUMN MAPPING"
    assert columns(delta, table) == [("id", "int"), ("m", "int"), ("s", "struct<x:int>")]
    assert delta.sql(f"SELECT m FROM {table} WHERE s.x = 5").first()[0] == 10


@statement("COMMENT ON TABLE t IS 'text' | NULL")
def test_comment(delta: SparkSession, table: str) -> None:
    """Sets the table's comment."""
    delta.sql(f'COMMENT ON TABLE {table} IS "it\'s \\\\ mine"')
    assert detail(delta, table).description == "it's \\ mine"
    delta.sql(f"COMMENT ON TABLE {table} IS NULL")
    assert detail(delta, table).description is None


@statement("ALTER TABLE t RENAME TO u")
def test_rename_table(delta: SparkSession, name: str) -> None:
    """Gives the table another name."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(f"ALTER TABLE {name} RENAME TO {name}_renamed")
    try:
        assert delta.sql(f"SELECT * FROM {name}_renamed").collect() == [(1,)]
        assert not delta.catalog.tableExists(name)
        delta.sql(f"INSERT INTO {name}_renamed VALUES (2)")
    finally:
        delta.sql(f"DROP TABLE {name}_renamed")


@statement("ALTER TABLE t SET LOCATION 'folder'")
def test_set_location(delta: SparkSession, name: str, path: str) -> None:
    """Lets the name refer to another Delta table with the same columns."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT 2 AS id")
    delta.sql(f"CREATE TABLE delta.`{path}/other` USING delta AS SELECT 2 AS other")
    delta.sql(f"ALTER TABLE {name} SET LOCATION '{path}'")
    assert delta.sql(f"SELECT * FROM {name}").collect() == [(2,)]
    with pytest.raises(CreateTableMismatchError, match="other"):
        delta.sql(f"ALTER TABLE {name} SET LOCATION '{path}/other'")
    with pytest.raises(NotADeltaTableError):
        delta.sql(f"ALTER TABLE {name} SET LOCATION '{path}/nowhere'")


@pytest.mark.parametrize(
    ("form", "what"),
    [
        ("ADD PARTITION (id = 1)", "ADD PARTITION|partition management"),
        ("RECOVER PARTITIONS", "RECOVER PARTITIONS"),
        ("SET SERDEPROPERTIES ('a' = 'b')", "SERDEPROPERTIES"),
        ("RENAME TO other", "RENAME TO"),
        ("ADD COLUMNS (c INT GENERATED ALWAYS AS (id + 1))", "computed|GENERATED"),
    ],
)
def test_what_is_refused_by_name(delta: SparkSession, table: str, form: str, what: str) -> None:
    with pytest.raises((UnsupportedOperationError, AnalysisException), match=what):
        delta.sql(f"ALTER TABLE {table} {form}")
