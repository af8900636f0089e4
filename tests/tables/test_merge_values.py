"""What the clauses of MERGE write: stars, nested fields, casts, defaults, rules of the table, a schema that grows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import AssignmentError, ConflictingAssignmentsError
from anabranch.errors.constraints import (
    CastOverflowError,
    GeneratedColumnMismatchError,
)
from anabranch.errors.dml import MergeColumnNotFoundError
from anabranch.errors.schema import IdentityInsertError, IncompatibleTypesError, MissingFieldsError
from anabranch.tables import DeltaTable, IdentityGenerator

pytestmark = pytest.mark.spark


def rows(table: DeltaTable) -> list[Any]:
    return sorted((tuple(row) for row in table.toDF().collect()), key=str)


def table_of(delta: SparkSession, path: str, ddl: str, *values: str, **properties: str) -> DeltaTable:
    """A table of these columns, and of rows written as SQL."""
    builder = DeltaTable.create(delta).location(path)
    for column in ddl.split("; "):
        name, kind = column.split(" ", 1)
        nullable = not kind.endswith(" NOT NULL")
        builder = builder.addColumn(name, kind.removesuffix(" NOT NULL"), nullable=nullable)
    for key, value in properties.items():
        builder = builder.property(f"delta.{key}", value)
    table = builder.execute()
    if values:
        frame = delta.sql(f"SELECT * FROM VALUES {', '.join(values)}").toDF(*table.toDF().columns)
        frame.to(table.toDF().schema).write.format("delta").mode("append").save(path)
    return table


def test_stars_go_by_name(delta: SparkSession, path: str) -> None:
    """Case and order do not matter; what the source has besides is left out."""
    table = table_of(delta, path, "Id INT; Name STRING; n BIGINT", "(1, 'a', 10)", "(2, 'b', 20)")
    source = delta.sql("SELECT * FROM VALUES ('x', 5, 1, true), ('y', 6, 3, false) AS v(NAME, N, id, extra)").alias("s")
    merging = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll("s.extra").whenNotMatchedInsertAll()
    merging.execute()
    assert rows(table) == [(1, "x", 5), (2, "b", 20), (3, "y", 6)]
    with pytest.raises(MergeColumnNotFoundError, match="no n "):
        table.alias("t").merge(source.drop("n"), "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(MergeColumnNotFoundError) as caught:
        table.alias("t").merge(source.drop("name"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert (caught.value.column, caught.value.clause) == ("Name", "INSERT")
    assert caught.value.available == ("N", "id", "extra")


def test_fields_of_structs(delta: SparkSession, path: str) -> None:
    table = table_of(
        delta,
        path,
        "k INT; s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING>>",
        "(1, named_struct('a', 1, 'b', named_struct('c', 2, 'd', 'x')))",
        "(2, NULL)",
    )
    source = delta.sql("SELECT 1 AS k, 9L AS n UNION ALL SELECT 2, 8").alias("src")
    merging = table.alias("t").merge(source, "t.k = src.k")
    merging.whenMatchedUpdate(set={"s.a": "src.n", "t.s.b.c": "t.s.b.c + src.n"}).execute()
    assert rows(table) == [(1, (9, (11, "x"))), (2, (8, (None, None)))]
    with pytest.raises(AnalysisException, match="nope"):
        merging.whenMatchedUpdate(set={"s.nope": "1"}).execute()
    with pytest.raises(ConflictingAssignmentsError, match="set as well") as conflicting:
        merging.whenMatchedUpdate(set={"s.b.c": "1", "s.b": "NULL"}).execute()
    assert conflicting.value.getCondition() == "DELTA_CONFLICT_SET_COLUMN"
    with pytest.raises(AssignmentError, match="whole columns"):
        merging.whenNotMatchedInsert(values={"k": "src.k", "s.a": "1"}).execute()


def test_values_are_cast_to_the_column(delta: SparkSession, path: str) -> None:
    """Clause by clause, so that text in one does not make text of the other's number."""
    table = table_of(delta, path, "k INT; n SMALLINT; t STRING", "(1, 1, 'x')", "(2, 2, 'y')")
    source = delta.sql("SELECT * FROM VALUES (1, 70000L), (2, 7L), (3, 3L) AS v(id, big)")
    merging = table.merge(source, "k = id")
    merging.whenMatchedUpdate("k = 1", {"n": "'12'", "t": "big"}).whenMatchedUpdate(set={"n": "big"}).execute()
    assert rows(table) == [(1, 12, "70000"), (2, 7, "y")]
    with pytest.raises(CastOverflowError) as caught:
        merging.whenMatchedUpdate(set={"n": "big"}).execute()
    assert (caught.value.column, caught.value.value) == ("n", "70000")
    with pytest.raises(CastOverflowError):
        merging.whenNotMatchedInsert(values={"k": "id", "n": "big * 100000"}).execute()
    with pytest.raises(IncompatibleTypesError):
        merging.whenMatchedUpdate(set={"n": "array(1)"}).execute()
    assert rows(table) == [(1, 12, "70000"), (2, 7, "y")]


def test_random_values_are_drawn_once(delta: SparkSession, path: str) -> None:
    table = table_of(delta, path, "k INT; a STRING; b STRING", "(1, '', '')", "(2, '', '')")
    source = delta.range(1, 5).selectExpr("CAST(id AS INT) AS id")
    merging = table.merge(source, "k = id").whenMatchedUpdate(set={"a": "uuid()", "b": "current_timestamp()"})
    merging.whenNotMatchedInsert(values={"k": "id", "a": "uuid()", "b": "current_timestamp()"}).execute()
    merged = rows(table)
    assert len({a for _, a, _ in merged}) == 4
    assert len({b for _, _, b in merged}) == 1


def test_defaults_generated_and_numbered_columns(delta: SparkSession, path: str) -> None:
    builder = DeltaTable.create(delta).location(path).addColumn("k", "INT").addColumn("d", "DATE")
    builder = builder.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(start=10, step=10))
    # The column by which rows are parted into files is none that the INSERT gives.
    table = builder.addColumn("y", "INT", generatedAlwaysAs="YEAR(d)").partitionedBy("y").execute()
    days = "(1, DATE'2020-01-01'), (2, DATE'2021-01-01'), (3, DATE'2022-01-01'), (4, DATE'2023-05-05')"
    source = delta.sql(f"SELECT * FROM VALUES {days} AS v(k, d)").alias("s")
    table.alias("t").merge(source.where("k < 3"), "t.k = s.k").whenNotMatchedInsertAll().execute()
    first = rows(table)
    assert [(k, d.year, y) for k, d, _, y in first] == [(1, 2020, 2020), (2, 2021, 2021)]
    numbers = {number for _, _, number, _ in first}
    merging = table.alias("t").merge(source, "t.k = s.k").whenMatchedUpdate(set={"d": "DATE'1999-09-09'"})
    merging.whenNotMatchedInsert("k = 3", {"k": "k", "d": "d", "y": "2022"}).whenNotMatchedInsertAll().execute()
    second = rows(table)
    assert [(k, d.year, y) for k, d, _, y in second] == [
        (1, 1999, 1999),
        (2, 1999, 1999),
        (3, 2022, 2022),
        (4, 2023, 2023),
    ]
    assert len({number for _, _, number, _ in second}) == 4
    assert {number for k, _, number, _ in second if k < 3} == numbers
    assert all(number % 10 == 0 for _, _, number, _ in second)
    with pytest.raises(GeneratedColumnMismatchError):
        table.alias("t").merge(source, "t.k = s.k").whenMatchedUpdate(set={"y": "1900"}).execute()
    with pytest.raises(AssignmentError, match="identity"):
        table.alias("t").merge(source, "t.k = s.k").whenMatchedUpdate(set={"id": "1"}).execute()
    with pytest.raises(IdentityInsertError):
        table.alias("t").merge(source, "false").whenNotMatchedInsert(values={"k": "k", "id": "1"}).execute()


def test_columns_with_a_default(delta: SparkSession, path: str) -> None:
    table = table_of(
        delta, path, "k INT; n INT; t STRING", "(1, 1, 'x')", **{"feature.allowColumnDefaults": "supported"}
    )
    delta.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN n SET DEFAULT 42")
    source = delta.sql("SELECT * FROM VALUES (1, 'p'), (2, 'q'), (3, 'r') AS v(id, s)")
    merging = table.merge(source, "k = id").whenMatchedUpdate(set={"n": "DEFAULT", "t": "default"})
    merging.whenNotMatchedInsert("id = 2", {"k": "id", "n": "DEFAULT", "t": "s"}).whenNotMatchedInsert(
        values={"k": "id"}
    ).execute()
    assert rows(table) == [(1, 42, None), (2, 42, "q"), (3, 42, None)]


def test_a_column_that_the_table_lacks(delta: SparkSession, path: str) -> None:
    """It is added where the schema may evolve, by a star or by being set; data and schema in one commit."""
    table = table_of(delta, path, "k INT; n INT", "(1, 1)", "(2, 2)")
    source = delta.sql("SELECT * FROM VALUES (1, 'p', true), (3, 'r', false) AS v(k, extra, unused)").alias("s")
    merging = table.alias("t").merge(source, "t.k = s.k")
    with pytest.raises(AnalysisException, match="extra"):
        merging.whenMatchedUpdate(set={"extra": "s.extra"}).execute()
    merging.whenMatchedUpdate(set={"extra": "'set'"}).withSchemaEvolution().execute()
    assert table.toDF().columns == ["k", "n", "extra"]
    assert rows(table) == [(1, 1, "set"), (2, 2, None)]
    merging.whenNotMatchedInsertAll().whenMatchedUpdateAll().withSchemaEvolution().execute()
    assert table.toDF().columns == ["k", "n", "extra", "unused"]
    assert rows(table) == [(1, 1, "p", True), (2, 2, None, None), (3, None, "r", False)]
    assert [row.version for row in table.history().collect()] == [3, 2, 1, 0]
    with pytest.raises(AssignmentError, match="nowhere"):
        merging.whenMatchedUpdate(set={"nowhere": "1"}).withSchemaEvolution().execute()


def test_fields_that_a_struct_lacks(delta: SparkSession, path: str) -> None:
    """New ones are added; those that the source lacks stay with an update, and are NULL in a new row."""
    delta.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        table = table_of(
            delta, path, "k INT; s STRUCT<a: INT, b: INT>", "(1, named_struct('a', 1, 'b', 2))", "(2, NULL)"
        )
        source_rows = "(1, named_struct('a', 10, 'c', 30)), (3, named_struct('a', 7, 'c', 8))"
        source = delta.sql(f"SELECT * FROM VALUES {source_rows} AS v(k, s)").alias("src")
        merging = table.alias("t").merge(source, "t.k = src.k")
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        assert rows(table) == [(1, (10, 2, 30)), (2, None), (3, (7, None, 8))]
        merging.whenMatchedUpdate(set={"s.c": "src.s.c + 1"}).execute()
        assert rows(table) == [(1, (10, 2, 31)), (2, None), (3, (7, None, 9))]
    finally:
        delta.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")


_ONE, _LESS = "named_struct('a', 1, 'b', 2)", "named_struct('b', 7)"


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        (f"{_LESS} AS s, array({_ONE}) AS l, map('k', {_ONE}) AS m", "s.a"),
        (f"{_ONE} AS s, array({_LESS}) AS l, map('k', {_ONE}) AS m", "l.element.a"),
        (f"{_ONE} AS s, array({_ONE}) AS l, map('k', {_LESS}) AS m", "m.value.a"),
    ],
)
def test_a_struct_that_lacks_a_field_is_refused(delta: SparkSession, path: str, value: str, missing: str) -> None:
    """Unless the schema may evolve: then it is NULL in a new row, and `*` leaves it as it is in a row that is there."""
    kind = "STRUCT<a: INT, b: INT>"
    table = table_of(
        delta,
        path,
        f"k INT; s {kind}; l ARRAY<{kind}>; m MAP<STRING, {kind}>",
        f"(1, {_ONE}, array({_ONE}), map('k', {_ONE}))",
    )
    source = delta.sql(f"SELECT k, {value} FROM VALUES (1), (2) AS v(k)").alias("src")
    merging, column = table.alias("t").merge(source, "t.k = src.k"), missing.split(".", maxsplit=1)[0]
    for refused in (
        merging.whenMatchedUpdateAll(),
        merging.whenNotMatchedInsertAll(),
        merging.whenMatchedUpdate(set={column: f"src.{column}"}),
        merging.whenNotMatchedInsert(values={"k": "src.k", column: f"src.{column}"}),
    ):
        with pytest.raises(MissingFieldsError) as caught:
            refused.execute()
        assert caught.value.columns == (missing,)
        assert (caught.value.getCondition(), caught.value.getSqlState()) == (
            "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
            "42846",
        )
    assert table.history().count() == 2
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().withSchemaEvolution().execute()
    of_all = {row.k: (row.s, row.l[0], row.m["k"]) for row in table.toDF().collect()}
    index = "slm".index(column)
    # Only structs keep fields: the values of arrays and maps are the source's.
    assert of_all[1][index] == ((1, 7) if column == "s" else (None, 7))
    assert of_all[2][index] == (None, 7)
    merging.whenMatchedUpdate(set={column: f"src.{column}"}).withSchemaEvolution().execute()
    assert {row.k: (row.s, row.l[0], row.m["k"]) for row in table.toDF().collect()}[1][index] == (None, 7)


def test_a_field_that_is_set_without_a_field_of_its_own(delta: SparkSession, path: str) -> None:
    table = table_of(
        delta, path, "k INT; s STRUCT<p: STRUCT<a: INT, b: INT>, q: INT>", f"(1, named_struct('p', {_ONE}, 'q', 3))"
    )
    merging = table.alias("t").merge(delta.range(2, 3).alias("src"), "t.k = src.id")
    for struct in (_LESS, "CAST(NULL AS STRUCT<a: INT>)"):
        with pytest.raises(MissingFieldsError, match=r"s\.p\."):
            merging.whenNotMatchedBySourceUpdate(set={"s.p": struct}).execute()
    merging.whenNotMatchedBySourceUpdate(set={"s.p": "NULL"}).execute()
    assert rows(table) == [(1, (None, 3))]


def test_a_column_becomes_wider(delta: SparkSession, path: str) -> None:
    table = table_of(delta, path, "k INT; n INT", "(1, 1)", "(2, 2)", enableTypeWidening="true")
    source = delta.sql("SELECT * FROM VALUES (1, 5000000000L), (3, 3L) AS v(k, n)").alias("s")
    merging = table.alias("t").merge(source, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with pytest.raises(CastOverflowError):
        merging.execute()
    merging.withSchemaEvolution().execute()
    assert table.toDF().schema["n"].dataType.simpleString() == "bigint"
    assert rows(table) == [(1, 5000000000), (2, 2), (3, 3)]


def test_the_catalog_learns_of_new_columns(delta: SparkSession, name: str) -> None:
    delta.range(2).write.format("delta").saveAsTable(name)
    source = delta.range(1, 4).selectExpr("id", "id * 10 AS n").alias("s")
    merging = DeltaTable.forName(delta, name).alias("t").merge(source, "t.id = s.id").withSchemaEvolution()
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(map(tuple, delta.table(name).collect()), key=str) == [(0, None), (1, 10), (2, 20), (3, 30)]
