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
from anabranch.errors.schema import IdentityInsertError, MissingFieldsError
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


def test_a_star_names_the_column_that_the_source_lacks(delta: SparkSession, path: str) -> None:
    table = table_of(delta, path, "Id INT; Name STRING; n BIGINT")
    source = delta.sql("SELECT 'x' AS NAME, 5 AS N, 1 AS id, true AS extra").alias("s")
    with pytest.raises(MergeColumnNotFoundError, match="no n "):
        table.alias("t").merge(source.drop("n"), "t.id = s.id").whenMatchedUpdateAll().execute()
    with pytest.raises(MergeColumnNotFoundError) as caught:
        table.alias("t").merge(source.drop("name"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert (caught.value.column, caught.value.clause) == ("Name", "INSERT")
    assert caught.value.available == ("N", "id", "extra")


def test_what_cannot_be_set_is_named(delta: SparkSession, path: str) -> None:
    """A field twice, a field of a new row, a column that the table lacks."""
    table = table_of(delta, path, "k INT; s STRUCT<a: INT, b: STRUCT<c: INT>>")
    merging = table.alias("t").merge(delta.sql("SELECT 1 AS k, 'p' AS extra").alias("src"), "t.k = src.k")
    with pytest.raises(ConflictingAssignmentsError, match="set as well"):
        merging.whenMatchedUpdate(set={"s.b.c": "1", "s.b": "NULL"}).execute()
    with pytest.raises(AssignmentError, match="whole columns"):
        merging.whenNotMatchedInsert(values={"k": "src.k", "s.a": "1"}).execute()
    with pytest.raises(AnalysisException, match="extra"):
        merging.whenMatchedUpdate(set={"extra": "src.extra"}).execute()
    with pytest.raises(AssignmentError, match="nowhere"):
        merging.whenMatchedUpdate(set={"nowhere": "1"}).withSchemaEvolution().execute()


def test_a_value_that_does_not_fit_is_named_with_its_column(delta: SparkSession, path: str) -> None:
    table = table_of(delta, path, "k INT; n SMALLINT", "(1, 1)")
    merging = table.merge(delta.sql("SELECT 1 AS id, 70000L AS big"), "k = id")
    with pytest.raises(CastOverflowError) as caught:
        merging.whenMatchedUpdate(set={"n": "big"}).execute()
    assert (caught.value.column, caught.value.value) == ("n", "70000")
    with pytest.raises(CastOverflowError):
        table.merge(delta.sql("SELECT 2 AS id, 70000L AS big"), "k = id").whenNotMatchedInsert(
            values={"k": "id", "n": "big"}
        ).execute()


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


_ONE, _LESS = "named_struct('a', 1, 'b', 2)", "named_struct('b', 7)"


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
