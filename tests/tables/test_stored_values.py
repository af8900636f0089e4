"""Rules are checked on what readers of the table get back, not on what the writer gave."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    LengthLimitError,
    NotNullViolationError,
    ReplaceWhereMismatchError,
)
from anabranch.tables import DeltaTable
from tables.test_rules_on_every_path import OF_THEIR_OWN, PATHS, scratch
from tables.write_paths import Target

pytestmark = pytest.mark.spark

TEXT, BYTES = "STRING", "BINARY"
EMPTY = [(TEXT, "''"), (TEXT, "'__HIVE_DEFAULT_PARTITION__'"), ("VARCHAR(3)", "''"), (BYTES, "X''")]
"""What a partition directory says as it says NULL."""


def table(delta: SparkSession, name: str, folder: Path, columns: str, *, mapping: str = "none") -> Target:
    path = str(folder / name)
    delta.sql(
        f"CREATE TABLE {name} (id INT, {columns}) USING delta PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')"
    )
    return Target(delta=delta, path=path, name=name, key="id", partition="p", scratch=folder)


def test_an_empty_partition_value_is_null_for_every_rule(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Covers bug B61: by each way of writing, NOT NULL and CHECK see the NULL that readers get."""
    checked = table(delta, name, scratch(tmp_path), "p STRING, CONSTRAINT there CHECK (p IS NOT NULL)", mapping="name")
    delta.sql(f"INSERT INTO {name} VALUES (0, 'a')")
    for way in (*OF_THEIR_OWN, "overwrite", "INSERT OVERWRITE"):
        with pytest.raises(CheckConstraintViolationError) as refused:
            PATHS[way](checked, {"id": "0", "p": "''"}, False)
        assert '"p":null' in refused.value.row, way
    with pytest.raises(CheckConstraintViolationError):
        DeltaTable.forName(delta, name).update(set={"p": "''"})
    assert [tuple(row) for row in delta.table(name).collect()] == [(0, "a")]
    assert DeltaTable.forName(delta, name).history(1).first().version == 1

    properties = "TBLPROPERTIES ('delta.constraints.there' = 'p IS NOT NULL')"
    with pytest.raises(CheckConstraintViolationError):
        delta.sql(f"CREATE TABLE {name}_as USING delta PARTITIONED BY (p) {properties} AS SELECT 1 AS id, '' AS p")
    for number, (kind, value) in enumerate(EMPTY):
        required = table(delta, f"{name}_{number}", tmp_path, f"p {kind} NOT NULL")
        with pytest.raises(NotNullViolationError):
            delta.sql(f"INSERT INTO {required.quoted} VALUES (1, {value})")
        delta.sql(f"DROP TABLE {required.name}")


def test_what_replace_where_takes_is_what_readers_get(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Covers bug B61: `p = ''` is true for no row of a partition column, also where the table has no rules."""
    plain = table(delta, name, tmp_path, "p STRING")
    row = {"id": "1", "p": "''"}
    for way in ("replaceWhere", "INSERT REPLACE WHERE"):
        with pytest.raises(ReplaceWhereMismatchError, match='"p":null'):
            PATHS[way](plain, row, False)
    delta.sql(f"INSERT INTO {name} REPLACE WHERE p IS NULL SELECT 1, ''")
    assert [tuple(row) for row in delta.table(name).collect()] == [(1, None)]


def test_generated_columns_are_of_stored_values(delta: SparkSession, name: str, tmp_path: Path) -> None:
    """Covers bug B61: computed from the NULL that readers get, and stored as NULL where they are partitions."""
    generated = "s STRING, p STRING GENERATED ALWAYS AS (substring(s, 1, 1)), CONSTRAINT there CHECK (p IS NOT NULL)"
    initial = table(delta, name, tmp_path, generated)
    for statement in (
        "INSERT INTO {t} (id, s) VALUES (1, '')",
        "MERGE INTO {t} USING (SELECT 1 AS id, '' AS s) s ON false WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(CheckConstraintViolationError, match='"p":null'):
            delta.sql(statement.replace("{t}", initial.quoted))
    delta.sql(f"ALTER TABLE {name} DROP CONSTRAINT there")
    delta.sql(f"INSERT INTO {name} (id, s, p) VALUES (1, '', '')")
    merge = "USING (SELECT 2 AS id, '' AS s, '' AS p) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    delta.sql(f"MERGE INTO {name} t {merge}")
    assert {(row.id, row.p) for row in delta.table(name).where("s = ''").collect()} == {(1, None), (2, None)}

    sourced = table(delta, f"{name}_of", tmp_path, "p STRING, g STRING GENERATED ALWAYS AS (concat(p, 'x'))")
    delta.sql(f"INSERT INTO {sourced.quoted} (id, p) VALUES (1, ''), (2, 'y')")
    values = delta.sql(f"SELECT id, p, g FROM {sourced.quoted} ORDER BY id").collect()
    assert [tuple(row) for row in values] == [(1, None, None), (2, "y", "yx")]
    delta.sql(f"DROP TABLE {sourced.name}")


def test_files_of_iceberg_say_what_directories_say(delta: SparkSession, name: str) -> None:
    """Covers bug B61: a table whose files hold partition columns has NULL in both places."""
    compatible = "'delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true'"
    delta.sql(
        f"CREATE TABLE {name} (id INT, p STRING, b BINARY) USING delta PARTITIONED BY (p, b) TBLPROPERTIES ({compatible})"
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, '', X''), (2, '__HIVE_DEFAULT_PARTITION__', X'00')")
    folder = DeltaTable.forName(delta, name).detail().first().location
    read = delta.read.option("recursiveFileLookup", True).parquet(folder)
    number, text, binary = read.columns
    stored = {row[number]: (row[text], row[binary]) for row in read.collect()}
    assert stored == {1: (None, None), 2: (None, bytearray(b"\0"))}
    assert {row.id: (row.p, row.b) for row in delta.table(name).collect()} == stored


def test_char_columns_compare_padded_in_rules(delta: SparkSession, name: str) -> None:
    """Covers bug B61: `c = 'x'` is true for `x` of a CHAR(3) to readers and ALTER, and so it is on writing."""
    delta.sql(
        f"CREATE TABLE {name} (id INT, c CHAR(3), is_x BOOLEAN GENERATED ALWAYS AS (c = 'x'), "
        "CONSTRAINT no_y CHECK (c <> 'y')) USING delta"
    )
    delta.sql(f"INSERT INTO {name} (id, c) VALUES (1, 'x'), (2, 'z')")
    delta.sql(f"UPDATE {name} SET c = 'x' WHERE id = 2")
    assert [row.is_x for row in delta.table(name).collect()] == [True, True]
    source = "(SELECT 1 AS id, 'y' AS c) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = s.c"
    for statement in (
        "INSERT INTO {t} (id, c) VALUES (3, 'y')",
        "UPDATE {t} SET c = 'y'",
        f"MERGE INTO {{t}} t USING {source}",
    ):
        with pytest.raises(CheckConstraintViolationError):
            delta.sql(statement.replace("{t}", name))


def test_computed_text_keeps_to_its_length(delta: SparkSession, name: str) -> None:
    """Covers bug B61: a generated column is padded or refused by its declared type, as a value that a statement has."""
    builder = DeltaTable.create(delta).tableName(name).addColumn("id", "INT").addColumn("s", "STRING")
    builder = builder.addColumn("v", "VARCHAR(3)", generatedAlwaysAs="s").addColumn(
        "c", "CHAR(3)", generatedAlwaysAs="s"
    )
    builder.execute()
    delta.sql(f"INSERT INTO {name} (id, s) VALUES (1, 'a')")
    delta.sql(f"INSERT INTO {name} (id, s, v, c) VALUES (2, 'b', 'b', 'b')")
    source = "(SELECT 3 AS id, 'c' AS s, 'c' AS v, 'c' AS c) s ON false WHEN NOT MATCHED THEN INSERT *"
    delta.sql(f"MERGE INTO {name} t USING {source}")
    stored = delta.table(name).selectExpr("concat(v, '|')", "concat(c, '|')").collect()
    assert {tuple(row) for row in stored} == {(f"{text}|", f"{text}  |") for text in "abc"}
    for statement in ("INSERT INTO {t} (id, s) VALUES (4, 'abcd')", "UPDATE {t} SET s = 'abcd'"):
        with pytest.raises(LengthLimitError) as refused:
            delta.sql(statement.replace("{t}", name))
        assert '"s":"abcd"' in refused.value.row
