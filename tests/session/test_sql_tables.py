"""Creating and dropping tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from anabranch.errors.arguments import InvalidArgumentError, SqlSyntaxError, UnsupportedOperationError
from anabranch.errors.constraints import NestedNotNullError, NotNullViolationError
from anabranch.errors.schema import MissingColumnsError
from anabranch.errors.tables import NotADeltaTableError, TableAlreadyExistsError
from anabranch.tables import DeltaTable
from session.documented import statement

pytestmark = pytest.mark.spark


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def operations(delta: SparkSession, name: str) -> list[str]:
    return [row.operation for row in delta.sql(f"DESCRIBE HISTORY {name}").collect()]


@statement("CREATE TABLE [IF NOT EXISTS] t (…) USING delta")
def test_create_table(delta: SparkSession, name: str) -> None:
    """Creates an empty table and registers its name in the catalog. With `IF NOT EXISTS` an existing table stays as it
    is."""
    created = delta.sql(
        f"""CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'the key', `a b` STRING, s STRUCT<x: INT, y: ARRAY<DATE>>)
            USING delta COMMENT "it's mine" TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'k' = 'v')"""
    )
    assert (created.columns, created.collect()) == ([], [])
    assert delta.table(name).dtypes == [
        ("id", "bigint"),
        ("a b", "string"),
        ("s", "struct<x:int,y:array<date>>"),
    ]
    detail = DeltaTable.forName(delta, name).detail().first()
    assert detail.description == "it's mine"
    assert detail.properties["k"] == "v"
    assert "deletionVectors" in detail.tableFeatures
    with pytest.raises((TableAlreadyExistsError, AnalysisException)):
        delta.sql(f"CREATE TABLE {name} (other INT) USING delta")
    delta.sql(f"CREATE TABLE IF NOT EXISTS {name} (other INT) USING delta")
    assert operations(delta, name) == ["CREATE TABLE"]


@statement("… PARTITIONED BY (columns)")
def test_create_partitioned(delta: SparkSession, name: str) -> None:
    """Partitions the table: each file has rows with the same values of these columns. A column with a type after it is
    added as the last column of the table."""
    delta.sql(f"CREATE TABLE {name} (id INT, part STRING) USING delta PARTITIONED BY (part)")
    assert DeltaTable.forName(delta, name).detail().first().partitionColumns == ["part"]
    delta.sql(f"CREATE OR REPLACE TABLE {name} (id INT) USING delta PARTITIONED BY (day DATE COMMENT 'when')")
    assert delta.table(name).columns == ["id", "day"]
    assert DeltaTable.forName(delta, name).detail().first().partitionColumns == ["day"]


@statement("… CLUSTER BY (columns)")
def test_create_clustered(delta: SparkSession, path: str) -> None:
    """Sets the clustering columns, by which OPTIMIZE orders rows."""
    delta.sql(f"CREATE TABLE delta.`{path}` (a INT, s STRUCT<b: INT>) USING delta CLUSTER BY (a, s.b)")
    assert DeltaTable.forPath(delta, path).detail().first().clusteringColumns == ["a", "s.b"]


@statement("… LOCATION 'folder'")
def test_create_at_a_location(delta: SparkSession, name: str, path: str) -> None:
    """Creates an external table: its files are in that folder, and stay there when the table is dropped. If the folder
    is a Delta table already, the name then refers to it."""
    delta.sql(f"CREATE TABLE {name} (id INT) USING delta LOCATION '{path}'")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"DROP TABLE {name}")
    assert rows(delta.read.format("delta").load(path)) == [(1,)]
    delta.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    assert rows(delta.table(name)) == [(1,)]


def test_create_by_path(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    assert DeltaTable.isDeltaTable(delta, path)
    with pytest.raises(InvalidArgumentError, match="LOCATION"):
        delta.sql(f"CREATE OR REPLACE TABLE delta.`{path}` (id INT) USING delta LOCATION '/elsewhere'")


@statement("… (c type DEFAULT …, c type GENERATED ALWAYS AS (…), c BIGINT GENERATED … AS IDENTITY, CHECK (…))")
def test_columns_with_rules(delta: SparkSession, path: str) -> None:
    """Defines defaults, generated columns, identity columns, and conditions that all rows must satisfy. Defaults need
    the property `delta.feature.allowColumnDefaults = 'supported'`."""
    delta.sql(
        f"""CREATE TABLE delta.`{path}` (
              id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5),
              n INT DEFAULT 7,
              double INT GENERATED ALWAYS AS (n * 2),
              CONSTRAINT small CHECK (n < 100))
            USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    delta.sql(f"INSERT INTO delta.`{path}` (n) VALUES (1)")
    delta.sql(f"INSERT INTO delta.`{path}` (n) VALUES (DEFAULT)")
    assert sorted((row.n, row.double) for row in delta.read.format("delta").load(path).collect()) == [(1, 2), (7, 14)]
    assert {row.id % 5 for row in delta.read.format("delta").load(path).collect()} == {0}
    with pytest.raises(Exception, match="small"):
        delta.sql(f"INSERT INTO delta.`{path}` (n) VALUES (100)")


@statement("CREATE TABLE t USING delta AS query")
def test_create_table_as_select(delta: SparkSession, name: str) -> None:
    """Creates the table with the query's columns and rows, in one commit."""
    delta.sql(
        f"CREATE TABLE {name} USING delta PARTITIONED BY (part) COMMENT 'c' AS SELECT id, id % 2 AS part FROM range(4)"
    )
    assert rows(delta.table(name)) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert operations(delta, name) == ["CREATE TABLE AS SELECT"]
    assert DeltaTable.forName(delta, name).detail().first().description == "c"
    with pytest.raises((TableAlreadyExistsError, AnalysisException)):
        delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta AS SELECT raise_error('never run') AS id")
    with pytest.raises((InvalidArgumentError, ParseException), match=r"columns|Schema"):
        delta.sql(f"CREATE OR REPLACE TABLE {name} (a INT) USING delta AS SELECT 1 AS a")


@statement("CREATE OR REPLACE TABLE t …, REPLACE TABLE t …")
def test_replace(delta: SparkSession, name: str) -> None:
    """Gives the table a new definition, and the rows of the query if there is one, in one commit. Older versions stay
    readable. `REPLACE` needs an existing table."""
    with pytest.raises((NotADeltaTableError, AnalysisException)):
        delta.sql(f"REPLACE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS id")
    delta.sql(f"REPLACE TABLE {name} USING delta AS SELECT id + 1 AS other FROM {name}")
    assert delta.table(name).columns == ["other"]
    assert rows(delta.table(name)) == [(2,)]
    delta.sql(f"CREATE OR REPLACE TABLE {name} (x DATE) USING delta")
    assert operations(delta, name) == [
        "CREATE OR REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE AS SELECT",
    ]
    assert rows(delta.sql(f"SELECT * FROM {name} VERSION AS OF 0")) == [(1,)]
    assert "a" not in DeltaTable.forName(delta, name).detail().first().properties


@statement("CREATE TABLE t LIKE s [USING delta]")
def test_create_like(delta: SparkSession, name: str, path: str) -> None:
    """Creates an empty table with the columns, partitioning, comment and properties of another table, which need not be
    a Delta table."""
    delta.sql(
        f"""CREATE TABLE delta.`{path}` (id INT NOT NULL COMMENT 'c', n BIGINT GENERATED BY DEFAULT AS IDENTITY, part INT)
            USING delta PARTITIONED BY (part) COMMENT 'd' TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'k' = 'v')"""
    )
    delta.sql(f"CREATE TABLE {name} LIKE delta.`{path}` TBLPROPERTIES ('k' = 'w')")
    detail = DeltaTable.forName(delta, name).detail().first()
    assert (detail.partitionColumns, detail.description, detail.properties["k"]) == (["part"], "d", "w")
    assert "id INT NOT NULL" in delta.sql(f"SHOW CREATE TABLE {name}").first().createtab_stmt
    delta.sql(f"INSERT INTO {name} (id, part) VALUES (1, 2)")
    delta.sql("CREATE OR REPLACE TEMP VIEW a_view AS SELECT 1 AS x")
    delta.sql(f"CREATE TABLE delta.`{path} 2` LIKE a_view USING delta")
    assert delta.read.format("delta").load(f"{path} 2").columns == ["x"]


@statement("DROP TABLE [IF EXISTS] t")
def test_drop(delta: SparkSession, name: str) -> None:
    """Removes the name, and also the files if the catalog chose their folder. A table without a name is refused."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    delta.sql(f"DROP TABLE {name}")
    assert not delta.catalog.tableExists(name)
    delta.sql(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(AnalysisException):
        delta.sql(f"DROP TABLE {name}")


def test_a_managed_table_goes_with_its_files(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} USING delta PARTITIONED BY (p) AS SELECT 1 AS id, 'a b' AS p")
    location = Path(delta.sql(f"DESCRIBE DETAIL {name}").first().location.removeprefix("file:"))
    assert (location / "_delta_log").is_dir()
    delta.sql(f"DROP TABLE {name}")
    assert not list(location.glob("*"))
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 'new' AS other")
    assert rows(delta.table(name)) == [("new",)]


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("(id INT PRIMARY KEY) USING delta", "PRIMARY KEY"),
        ("(id INT) USING delta CLUSTERED BY (id) INTO 2 BUCKETS", "CLUSTERED BY"),
    ],
)
def test_what_delta_tables_have_not(delta: SparkSession, path: str, clause: str, name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=name):
        delta.sql(f"CREATE TABLE delta.`{path}` {clause}")
    assert not DeltaTable.isDeltaTable(delta, path)


def test_mistakes_say_where_they_are(delta: SparkSession, path: str) -> None:
    with pytest.raises((SqlSyntaxError, ParseException), match=r"line 2, (column 9|pos 12)"):
        delta.sql(f"CREATE TABLE delta.`{path}`\n(id INT NOT NUL) USING delta")
    with pytest.raises(ParseException):
        delta.sql(f"CREATE TABLE delta.`{path}` (id NONSENSE) USING delta")
    assert not DeltaTable.isDeltaTable(delta, path)


def test_tables_of_other_formats_are_sparks(delta: SparkSession, name: str, path: str) -> None:
    delta.range(2).write.format("delta").save(path)
    delta.sql(f"CREATE TABLE {name} USING parquet AS SELECT * FROM delta.`{path}`")
    assert rows(delta.sql(f"SELECT * FROM {name}")) == [(0,), (1,)]
    with pytest.raises(NotADeltaTableError, match="parquet"):
        delta.sql(f"CREATE OR REPLACE TABLE {name} (id INT) USING delta")


def test_null_in_place_of_a_struct_with_a_field_that_is_not_null(delta: SparkSession, path: str) -> None:
    """Covers bug B89: the error of every statement is about the row with the NULL, not about data that lacks a column."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, s STRUCT<a: INT NOT NULL, b: INT>) USING delta")
    delta.sql(f"INSERT INTO {table} VALUES (1, named_struct('a', 1, 'b', 2))")
    merge = f"MERGE INTO {table} t USING (SELECT 1 AS id) q ON t.id ="
    for text in (
        f"INSERT INTO {table} VALUES (1, NULL)",
        f"INSERT INTO {table} SELECT 1, NULL",
        f"INSERT INTO {table} BY NAME SELECT 1 AS id, NULL AS s",
        f"UPDATE {table} SET s = NULL",
        f"{merge} q.id WHEN MATCHED THEN UPDATE SET s = NULL",
        f"{merge} 9 WHEN NOT MATCHED THEN INSERT (id, s) VALUES (9, NULL)",
    ):
        with pytest.raises(NotNullViolationError, match=r"s\.a"):
            delta.sql(text)
    with pytest.raises(NotNullViolationError, match=r"s\.a"):
        delta.sql("SELECT 1 AS id, NULL AS s").write.format("delta").mode("append").save(path)
    with pytest.raises(MissingColumnsError, match=r"s\.a"):
        delta.sql("SELECT 1 AS id, named_struct('b', 1) AS s").write.format("delta").mode("append").save(path)


def test_not_null_inside_arrays_and_maps(delta: SparkSession, path: str) -> None:
    """No writer would check it: refused, or left out where the session says so."""
    table = f"delta.`{path}`"
    for kind in ("ARRAY<STRUCT<y: INT NOT NULL>>", "MAP<STRING, STRUCT<y: INT NOT NULL>>"):
        with pytest.raises(NestedNotNullError, match=r"l\.(element|value)\.y"):
            delta.sql(f"CREATE TABLE {table} (id INT NOT NULL, l {kind}) USING delta")
    delta.conf.set("spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled", "true")
    try:
        delta.sql(f"CREATE TABLE {table} (id INT NOT NULL, l ARRAY<STRUCT<y: INT NOT NULL>>) USING delta")
    finally:
        delta.conf.unset("spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled")
    delta.sql(f"INSERT INTO {table} SELECT 1, array(named_struct('y', IF(id >= 0, NULL, 1))) FROM range(1)")
    assert delta.sql(f"SELECT l.y FROM {table}").first() == ([None],)
    with pytest.raises(NotNullViolationError):
        delta.sql(f"INSERT INTO {table} SELECT IF(id >= 0, NULL, 1), array() FROM range(1)")


def test_elements_of_a_new_table_may_be_null(delta: SparkSession, path: str) -> None:
    """DataFrames often say that elements are never NULL, which is no wish of anybody's."""
    rows = StructType([StructField("l", ArrayType(IntegerType(), containsNull=False))])
    DeltaTable.create(delta).location(path).addColumns(rows).execute()
    delta.sql(f"INSERT INTO delta.`{path}` SELECT array(IF(id >= 0, NULL, 1)) FROM range(1)")
    assert delta.read.format("delta").load(path).first() == ([None],)


def test_a_foreign_table_without_null_inside_arrays_and_maps(delta: SparkSession, path: str) -> None:
    """A NULL there was stored as 0, or as another value of the buffer."""
    number, struct = pa.int64(), pa.struct([pa.field("y", pa.int64(), nullable=False)])
    fields = [
        pa.field("id", number),
        pa.field("l", pa.list_(pa.field("element", number, nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", number, nullable=False))),
        pa.field("s", pa.list_(pa.field("element", struct))),
    ]
    deltalake.DeltaTable.create(path, pa.schema(fields))
    table = f"delta.`{path}`"
    assert '"containsNull":false' in deltalake.DeltaTable(path).schema().to_json()
    filled = "array(1), map('a', 1), array(named_struct('y', 1), NULL)"
    delta.sql(f"INSERT INTO {table} SELECT id, {filled} FROM range(2)")
    delta.sql(f"INSERT INTO {table} VALUES (2, NULL, NULL, NULL)")
    null = "IF(id >= 0, NULL, 1)"
    for column, value in {
        "l.element": f"array(1, {null}), map(), array()",
        "m.value": f"array(), map('a', {null}), array()",
        "s.element.y": f"array(), map(), array(NULL, named_struct('y', {null}))",
    }.items():
        with pytest.raises(NotNullViolationError, match=re.escape(column)):
            delta.sql(f"INSERT INTO {table} SELECT id, {value} FROM range(1)")
    with pytest.raises(NotNullViolationError, match=r"l\.element"):
        delta.sql(f"UPDATE {table} SET l = array({null}) WHERE id = 1")
    delta.sql(f"UPDATE {table} SET l = array(2) WHERE id = 1")
    assert rows(delta.sql(f"SELECT id, s.y FROM {table}")) == [(0, [1, None]), (1, [1, None]), (2, None)]
    read = deltalake.DeltaTable(path).to_pyarrow_table(columns=["id", "l", "m"]).sort_by("id").to_pylist()
    expected = {"id": 0, "l": [1], "m": [("a", 1)]}
    assert read == [expected, {**expected, "id": 1, "l": [2]}, {"id": 2, "l": None, "m": None}]
