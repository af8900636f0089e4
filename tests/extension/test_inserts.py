"""INSERT in all of its forms, where Spark itself resolves it."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.constraints import NotNullViolationError

pytestmark = pytest.mark.spark


def rows(delta: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in delta.table(table).collect()), key=str)


@pytest.fixture
def parts(delta: SparkSession, name: str) -> str:
    """Rows of a number, a text and the partition they are in."""
    delta.sql(f"CREATE TABLE {name} (id INT, word STRING, part INT) USING delta PARTITIONED BY (part)")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 2)")
    return name


def test_fields_of_structs_beside_default_and_in_a_list_of_columns(delta: SparkSession, name: str) -> None:
    """Covers bug B108: by name, where top columns have the table's names and all types are its own; not behind a list. Other forms
    are in `tests/differential/programs/inserts.txt`."""
    fields = "STRUCT<a: INT, b: INT>"
    delta.sql(
        f"CREATE TABLE {name} (k INT, s {fields}, l ARRAY<{fields}>, m MAP<STRING, {fields}>, d INT DEFAULT 5) "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    s = "named_struct('b', 20, 'a', 10)"
    columns = f"2 AS k, {s} AS s, array({s}) AS l, map('x', {s}) AS m"
    named, placed = (10, 20), (20, 10)
    delta.sql(f"INSERT INTO {name} SELECT {columns}, DEFAULT")
    (row,) = delta.table(name).collect()
    assert [tuple(struct) for struct in (row.s, *row.l, row.m["x"])] == [named] * 3
    assert row.d == 5
    delta.sql(f"DELETE FROM {name}")
    delta.sql(f"INSERT INTO {name} (k, s, l, m, d) SELECT {columns}, 5 AS d")
    (row,) = delta.table(name).collect()
    # With a list of columns Spark casts structs to the table's, and only from 4.3 on those in arrays and maps, too.
    nested = placed if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else named
    assert [tuple(struct) for struct in (row.s, *row.l, row.m["x"])] == [placed, nested, nested]


def test_replace_where_takes_any_condition(delta: SparkSession, parts: str) -> None:
    """Spark has no filter for all of them."""
    delta.sql(f"INSERT INTO {parts} VALUES (30, 'c', 2)")
    delta.sql(f"INSERT INTO {parts} REPLACE WHERE part = 2 AND id % 10 = 0 AND length(word) = 1 SELECT 40, 'x', 2")
    assert rows(delta, parts) == [(1, "a", 1), (2, "b", 2), (40, "x", 2)]


def test_default_where_the_list_names_a_partition_with_a_value(delta: SparkSession, parts: str) -> None:
    """Bug B4: the list's value was lost."""
    for verb in ("INTO", "OVERWRITE"):
        with pytest.raises(AnalysisException) as refused:
            delta.sql(f"INSERT {verb} {parts} PARTITION (part = 2) (id, word, Part) VALUES (DEFAULT, 'c', 5)")
        assert refused.value.getCondition() == "STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST"
        assert refused.value.getSqlState() == "42713"
    assert len(rows(delta, parts)) == 2


@pytest.fixture
def defaults(delta: SparkSession, name: str) -> str:
    """A column with a default, one without, one that is computed."""
    delta.sql(
        f"""CREATE TABLE {name} (id INT, n INT DEFAULT 7, m INT, g INT GENERATED ALWAYS AS (id + 1)) USING delta
            TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    return name


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO {t} VALUES (1, DEFAULT, 5, DEFAULT), (2, default, DEFAULT, DEFAULT)", None),
        ("WITH q AS (SELECT 8 AS x) INSERT INTO {t} (id, n) SELECT x, DEFAULT FROM q", [(8, 7, None, 9)]),
    ],
)
def test_the_keyword_default(delta: SparkSession, defaults: str, statement: str, expected: Any) -> None:
    """It means the column's default, NULL without one, and what the table computes; a column of that name goes
    before it (bug B35). Other forms are in `tests/differential/programs/inserts.txt`."""
    delta.sql(statement.replace("{t}", defaults))
    assert rows(delta, defaults) == (expected or [(1, 7, 5, 2), (2, 7, None, 3)])


def test_default_in_some_rows_for_a_computed_column(delta: SparkSession, defaults: str) -> None:
    with pytest.raises(UnsupportedOperationError, match="generated column g"):
        delta.sql(f"INSERT INTO {defaults} VALUES (1, 2, 3, DEFAULT), (1, 2, 3, 2)")
    with pytest.raises(AnalysisException):
        delta.sql(f"INSERT INTO {defaults} (id, n) VALUES (1, DEFAULT + 1)")
    assert rows(delta, defaults) == []


def test_default_for_identity_and_not_null(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT NOT NULL) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (DEFAULT, 5), (DEFAULT, 6)")
    inserted = rows(delta, name)
    assert [row[1] for row in sorted(inserted, key=lambda row: row[1])] == [5, 6]
    assert len({row[0] for row in inserted} - {None}) == 2
    with pytest.raises(NotNullViolationError):
        delta.sql(f"INSERT INTO {name} VALUES (DEFAULT, DEFAULT)")


@pytest.mark.parametrize(("verb", "expected"), [("OVERWRITE", [2, 2]), ("INTO", [1, 1, 2, 2])])
def test_an_execution_after_a_conflict_computes_the_rows_again(
    delta: SparkSession, path: str, verb: str, expected: list[int]
) -> None:
    """Bug B11: another writer appends while the rows of an INSERT are computed; done again, they come from the new
    version.
    """
    delta.sql(f"CREATE TABLE delta.`{path}` (v INT) USING delta")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1)")

    def appended_to(value: int) -> int:
        log = os.path.join(path, "_delta_log")
        with open(os.path.join(log, f"{1:020}.json")) as file:
            add = next(json.loads(line)["add"] for line in file if '"add"' in line)
        theirs = os.path.join(log, f"{2:020}.json")
        if not os.path.exists(theirs):
            shutil.copy(os.path.join(path, add["path"]), os.path.join(path, "theirs.parquet"))
            with open(theirs, "x") as file:
                file.write(json.dumps({"add": {**add, "path": "theirs.parquet"}}) + "\n")
        return value

    delta.udf.register("appended_to", appended_to, "int")
    insert = f"INSERT {verb} delta.`{path}` SELECT appended_to(v) + 1 FROM delta.`{path}`"
    delta.conf.set("spark.anabranch.conflictRetries", "1")
    try:
        delta.sql(insert)
    finally:
        delta.conf.unset("spark.anabranch.conflictRetries")
    assert sorted(row.v for row in delta.read.format("delta").load(path).collect()) == expected


def test_replace_on_and_using(delta: SparkSession, parts: str) -> None:
    """Spark knows them from 4.2 on, and refuses them for tables of catalogs."""
    new = "SELECT * FROM VALUES (2, 'new', 2), (7, 'new', 2) AS (x, y, z)"
    delta.sql(f"INSERT INTO {parts} REPLACE USING (id, part) {new}")
    assert rows(delta, parts) == [(1, "a", 1), (2, "new", 2), (7, "new", 2)]
    delta.sql(f"INSERT INTO {parts} BY NAME REPLACE USING (part) SELECT 1 AS part, 'by name' AS word")
    assert [row for row in rows(delta, parts) if row[2] == 1] == [(None, "by name", 1)]
    on = f"(SELECT id + 1 AS id, 'next' AS word, part FROM {parts} WHERE id = 7) AS s"
    delta.sql(f"INSERT INTO {parts} AS t REPLACE ON t.id = s.id - 1 {on}")
    assert [row for row in rows(delta, parts) if row[2] == 2] == [(2, "new", 2), (8, "next", 2)]


def test_replace_on_takes_what_conditions_may_hold(delta: SparkSession, parts: str) -> None:
    """A subquery, a variable, a higher-order function: as Spark's parser has read them, or as they were written."""
    delta.sql("DECLARE OR REPLACE VARIABLE last_part INT DEFAULT 1")
    new = "(SELECT 9 AS key, 'new' AS word, 1 AS part) AS s"
    condition = "t.part = last_part AND t.id < (SELECT max(id) FROM range(3)) AND exists(array(s.key), k -> k > t.id)"
    delta.sql(f"INSERT INTO {parts} AS t REPLACE ON {condition} {new}")
    assert [row for row in rows(delta, parts) if row[2] == 1] == [(9, "new", 1)]
    parameters = delta.sql(f"DESCRIBE HISTORY {parts} LIMIT 1").first().operationParameters
    assert parameters["replaceOnCond"] == condition
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        delta.sql(f"INSERT INTO {parts} AS t REPLACE ON t.nope IN (SELECT id FROM range(3)) {new}")
    assert [row for row in rows(delta, parts) if row[2] == 1] == [(9, "new", 1)]
