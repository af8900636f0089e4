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
from pyspark.sql import functions as F

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.constraints import NotNullViolationError, ReplaceWhereMismatchError
from anabranch.errors.schema import SchemaMismatchError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def rows(delta: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in delta.table(table).collect()), key=str)


@pytest.fixture
def parts(delta: SparkSession, name: str) -> str:
    """Rows of a number, a text and the partition they are in."""
    delta.sql(f"CREATE TABLE {name} (id INT, word STRING, part INT) USING delta PARTITIONED BY (part)")
    delta.sql(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 2)")
    return name


@pytest.fixture
def pair(delta: SparkSession, name: str) -> str:
    """A table of two columns that take each other's values, and a struct of two such fields."""
    delta.sql(f"CREATE TABLE {name} (a INT, b INT, s STRUCT<x: INT, y: INT>) USING delta")
    return name


SWAPPED = "SELECT 1 AS b, 2 AS a, named_struct('y', 3, 'x', 4) AS s"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"INSERT INTO {{t}} {SWAPPED}", (1, 2, (3, 4))),
        (f"INSERT INTO {{t}} BY NAME {SWAPPED}", (2, 1, (4, 3))),
        # As Spark has it: the list names columns, and what is in them goes by position.
        (f"INSERT INTO {{t}} (b, a, s) {SWAPPED}", (2, 1, (3, 4))),
        (f"INSERT OVERWRITE {{t}} {SWAPPED}", (1, 2, (3, 4))),
        (f"INSERT OVERWRITE {{t}} BY NAME {SWAPPED}", (2, 1, (4, 3))),
        (f"INSERT INTO {{t}} REPLACE WHERE true {SWAPPED}", (1, 2, (3, 4))),
    ],
)
def test_columns_and_fields_go_by_position_or_by_name(
    delta: SparkSession, pair: str, statement: str, expected: tuple[Any, ...]
) -> None:
    """Columns match by position with any names, in structs, too; or by name in any order."""
    delta.sql(statement.replace("{t}", pair))
    a, b, s = rows(delta, pair)[0]
    assert (a, b, tuple(s)) == expected


def test_fields_of_structs_go_by_name_where_columns_are_the_table_s(delta: SparkSession, name: str) -> None:
    """Covers bugs B108 and B102: by position too, if top columns have the table's names and all types are its own."""
    fields = "STRUCT<a: INT, b: INT>"
    delta.sql(
        f"CREATE TABLE {name} (k INT, s {fields}, l ARRAY<{fields}>, m MAP<STRING, {fields}>, d INT DEFAULT 5) "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    s = "named_struct('b', 20, 'a', 10)"
    columns = f"2 AS k, {s} AS s, array({s}) AS l, map('x', {s}) AS m"
    query, frame = f"SELECT {columns}, 5 AS d", delta.sql(f"SELECT {columns}, 5 AS d")
    values = f"VALUES (2, {s}, array({s}), map('x', {s}), 5)"
    named, placed = (10, 20), (20, 10)
    for write, wanted in [
        (lambda: delta.sql(f"INSERT INTO {name} {query}"), named),
        (lambda: delta.sql(f"INSERT INTO {name} SELECT {columns}, DEFAULT"), named),
        (lambda: delta.sql(f"INSERT OVERWRITE {name} {query}"), named),
        (lambda: delta.sql(f"INSERT INTO {name} REPLACE WHERE true {query}"), named),
        (lambda: frame.write.insertInto(name), named),
        (lambda: frame.write.insertInto(name, overwrite=True), named),
        (lambda: delta.sql(f"INSERT INTO {name} {values}"), placed),
        (lambda: delta.sql(f"INSERT INTO {name} {query.replace('2 AS k', '2L AS k')}"), placed),
    ]:
        write()
        for row in delta.table(name).collect():
            assert {tuple(struct) for struct in (row.s, *row.l, row.m["x"])} == {wanted}
            assert row.d == 5
        delta.sql(f"DELETE FROM {name}")
    delta.sql(f"INSERT INTO {name} (k, s, l, m, d) {query}")
    (row,) = delta.table(name).collect()
    # With a list of columns Spark casts structs to the table's, and only from 4.3 on those in arrays and maps, too.
    nested = placed if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else named
    assert [tuple(struct) for struct in (row.s, *row.l, row.m["x"])] == [placed, nested, nested]
    delta.sql(f"DELETE FROM {name}")
    wider = query.replace(s, "named_struct('c', 30, 'b', 20, 'a', 10)", 1)
    with pytest.raises(SchemaMismatchError, match=r"s\.c \(int\) is not in the table"):
        delta.sql(f"INSERT INTO {name} {wider}")
    delta.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {name} {wider}")
    assert [tuple(row.s) for row in delta.table(name).collect()] == [(10, 20, 30)]


def test_writers_go_by_position_or_by_name(delta: SparkSession, pair: str) -> None:
    frame = delta.sql(SWAPPED)
    expected = {"insertInto": (1, 2, (3, 4)), "by name": (2, 1, (4, 3))}
    for write, wanted in [
        (lambda: frame.write.insertInto(pair, overwrite=True), "insertInto"),
        (lambda: frame.writeTo(pair).overwrite(F.lit(True)), "by name"),
        (lambda: frame.write.format("delta").mode("overwrite").saveAsTable(pair), "by name"),
        (lambda: frame.writeTo(pair).overwritePartitions(), "by name"),
    ]:
        write()
        ((a, b, s),) = rows(delta, pair)
        assert (a, b, tuple(s)) == expected[wanted]
    delta.sql(f"DELETE FROM {pair}")
    frame.write.insertInto(pair)
    frame.writeTo(pair).append()
    frame.write.format("delta").mode("append").saveAsTable(pair)
    assert sorted((a, b, tuple(s)) for a, b, s in rows(delta, pair)) == [(1, 2, (3, 4)), *[(2, 1, (4, 3))] * 2]


def test_replace_where_takes_any_condition(delta: SparkSession, parts: str) -> None:
    """Spark has no filter for all of them."""
    delta.sql(f"INSERT INTO {parts} VALUES (30, 'c', 2)")
    delta.sql(f"INSERT INTO {parts} REPLACE WHERE part = 2 AND id % 10 = 0 AND length(word) = 1 SELECT 40, 'x', 2")
    assert rows(delta, parts) == [(1, "a", 1), (2, "b", 2), (40, "x", 2)]
    with pytest.raises(ReplaceWhereMismatchError):
        delta.sql(f"INSERT INTO {parts} REPLACE WHERE id >= 2 SELECT 1, 'new', 2")
    with pytest.raises(AnalysisException, match="subquery"):
        delta.sql(f"INSERT INTO {parts} REPLACE WHERE id IN (SELECT max(id) FROM {parts}) SELECT 40, 'new', 2")
    assert len(rows(delta, parts)) == 3


def test_an_insert_reads_its_own_table_at_one_version(delta: SparkSession, parts: str) -> None:
    delta.sql(f"INSERT INTO {parts} SELECT id + (SELECT count(*) FROM {parts}), word, part FROM {parts}")
    assert [row[0] for row in rows(delta, parts)] == [1, 2, 3, 4]
    last = DeltaTable.forName(delta, parts).history(1).first()
    assert last is not None
    assert last.isBlindAppend is False
    delta.sql(f"INSERT OVERWRITE {parts} SELECT id + 1, word, part FROM {parts} WHERE part = 1")
    assert sorted(row[0] for row in rows(delta, parts)) == [2, 4]


def test_a_script_does_not_conflict_with_itself(delta: SparkSession, parts: str) -> None:
    """Bug B17: rows of a frame that was made before a statement of the same session."""
    frame = delta.table(parts).where("id = 1")
    delta.sql(f"DELETE FROM {parts} WHERE id = 2")
    frame.write.insertInto(parts)
    frame.selectExpr("id + 1 AS id", "word", "part").write.format("delta").mode("overwrite").saveAsTable(parts)
    assert rows(delta, parts) == [(2, "a", 1), (2, "a", 1)]


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
