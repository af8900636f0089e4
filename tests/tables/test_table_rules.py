"""Rules of columns and rows, on every write: constraints, invariants, generated, default and identity columns."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.create.create_table import CreationMode, create_table
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import MetadataChangedException
from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    ConstraintExistsError,
    ExpressionTypeError,
    IdentityOverflowError,
    UntrustedExpressionError,
)
from anabranch.errors.schema import IdentityInsertError, IncompatibleTypesError, InvalidPartitioningError
from anabranch.errors.tables import DefaultsNotEnabledError
from anabranch.schema.computed_columns import default_column
from anabranch.schema.enforcement import plan_write
from anabranch.schema.write_rules import WriteApi, rules_for
from anabranch.spark.write.conform import conform
from anabranch.tables import DeltaTable, IdentityGenerator
from anabranch.transactions.proposed_commit import Operation
from session_kinds import table_ref

pytestmark = pytest.mark.spark

DEFAULTS = {"delta.feature.allowColumnDefaults": "supported"}


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def load(delta: SparkSession, path: str) -> DataFrame:
    return delta.read.format("delta").load(path)


def append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def create(delta: SparkSession, path: str, ddl: str, **definition: Any) -> TableRef:
    """A table of these columns, which may not be made through the public builder."""
    schema = delta.createDataFrame([], ddl).schema
    table = table_ref(delta, path)
    return create_table(table, TableDefinition(schema=schema, **definition), CreationMode.CREATE)


def hostile(path: str, **properties: str) -> None:
    """Write properties into the log of a table as another engine could."""
    commit = Path(path) / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    metadata["configuration"] |= properties
    following = commit.with_name("00000000000000000001.json")
    following.write_text(json.dumps({"metaData": metadata}) + "\n")


def last(delta: SparkSession, path: str) -> Any:
    return DeltaTable.forPath(delta, path).history(1).first()


def test_check_constraints(delta: SparkSession, path: str) -> None:
    """False and NULL violate; the message has the constraint, its columns and the row; nothing is written."""
    columns = "id long, `a b` string, s struct<x: int>"
    mapped = {"delta.columnMapping.mode": "name"}
    create(delta, path, columns, constraints={"Positive": "id > 0 AND s.x < 10"}, properties=mapped)
    good = delta.sql("SELECT 1L AS id, 'x' AS `a b`, named_struct('x', 5) AS s")
    append(good, path)
    for id_, x in [("-1L", "5"), ("NULL", "5"), ("1L", "11")]:
        bad = delta.sql(f"SELECT {id_} AS id, 'x' AS `a b`, named_struct('x', {x}) AS s").union(good)
        with pytest.raises(CheckConstraintViolationError) as refused:
            append(bad, path)
        error = refused.value
        assert (error.constraint, error.expression) == ("CHECK constraint positive", "id > 0 AND s.x < 10")
        assert error.columns == ("id", "s.x")
        assert f'"x":{x}' in error.row
        assert error.row in str(error)
    with pytest.raises(CheckConstraintViolationError):
        bad.write.format("delta").mode("overwrite").save(path)
    assert load(delta, path).count() == 1
    assert last(delta, path).version == 1


def test_odd_text_in_constraints_and_rows(delta: SparkSession, path: str) -> None:
    """Nothing in an expression or a value is taken for the end of the message that carries it."""
    odd = "a <> '{\"}: :anabranch-end' AND a <> 'it\\'s ü\n'"
    create(delta, path, "a string", constraints={"c": odd})
    for value in ['{"}: :anabranch-end', "it's ü\n"]:
        with pytest.raises(CheckConstraintViolationError) as refused:
            append(delta.createDataFrame([(value,)], "a string"), path)
        assert refused.value.expression == odd
    append(delta.createDataFrame([("fine",)], "a string"), path)


def test_constraints_come_with_a_new_table(delta: SparkSession, path: str) -> None:
    """They come as properties, and hold for its very first rows; two of one name are refused."""
    with pytest.raises(CheckConstraintViolationError, match="id"):
        delta.range(3).write.format("delta").option("delta.constraints.c", "id > 0").save(path)
    delta.range(1, 3).write.format("delta").option("delta.constraints.c", "id > 0").save(path)
    assert "checkConstraints" in DeltaTable.forPath(delta, path).detail().first().tableFeatures
    with pytest.raises(CheckConstraintViolationError):
        append(delta.range(1), path)
    with pytest.raises(ConstraintExistsError):
        create(delta, path + "2", "id long", constraints={"C": "id > 0"}, properties={"delta.constraints.c": "id < 0"})


def test_hostile_expressions_never_reach_spark(delta: SparkSession, path: str) -> None:
    """Covers attack "SQL in metadata": a table whose log has code is readable, and refuses writes by name."""
    marker = path + " was here"
    attack = f"reflect('java.nio.file.Files', 'createDirectory', '{marker}') IS NULL"
    with pytest.raises(UntrustedExpressionError, match="reflect"):
        create(delta, path, "id long", constraints={"c": attack})
    with pytest.raises(UntrustedExpressionError, match="select"):
        create(delta, path, "id long", constraints={"c": "id IN (select 1)"})
    delta.range(1).write.format("delta").save(path)
    hostile(path, **{"delta.constraints.c": attack})
    assert load(delta, path).count() == 1
    with pytest.raises(UntrustedExpressionError) as refused:
        append(delta.range(1), path)
    assert refused.value.expression == attack
    assert load(delta, path).count() == 1


def test_constraints_must_be_conditions(delta: SparkSession, path: str) -> None:
    with pytest.raises(ExpressionTypeError, match="bigint"):
        create(delta, path, "id long", constraints={"c": "id + 1"})
    with pytest.raises(ExpressionTypeError):
        create(delta, path, "id array<int>", constraints={"c": "id > current_date()"})


def test_invariants_of_columns(delta: SparkSession, path: str) -> None:
    """The older form of constraints, in the metadata of a column."""
    note = {"delta.invariants": '{"expression": {"expression": "s.x > 3"}}'}
    inner = StructType([StructField("x", LongType(), metadata=note)])
    schema = StructType([StructField("id", LongType()), StructField("s", inner)])
    DeltaTable.create(delta).location(path).addColumns(schema).execute()
    append(delta.sql("SELECT 1L AS id, named_struct('x', 4L) AS s"), path)
    with pytest.raises(CheckConstraintViolationError, match=r"invariant of column s\.x"):
        append(delta.sql("SELECT 1L AS id, named_struct('x', 3L) AS s"), path)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("a + 0.5", ExpressionTypeError),
        ("g + 1", UntrustedExpressionError),
        ("h + 1", UntrustedExpressionError),
        ("nope", UntrustedExpressionError),
    ],
)
def test_what_a_generated_column_cannot_be(
    delta: SparkSession, path: str, expression: str, error: type[Exception]
) -> None:
    builder = DeltaTable.create(delta).location(path).addColumn("a", "INT")
    builder.addColumn("h", "INT", generatedAlwaysAs="a").addColumn("g", "INT", generatedAlwaysAs=expression)
    with pytest.raises(error):
        builder.execute()


def test_default_columns(delta: SparkSession, path: str) -> None:
    """Filled in where a column is left out; a NULL that is given stays one."""
    fields = [*delta.createDataFrame([], "id long, n decimal(10, 2), t timestamp, v string").schema.fields]
    fields[1] = default_column(fields[1], "40 + 2")
    fields[2] = default_column(fields[2], "current_timestamp()")
    fields[3] = default_column(fields[3], "upper('x')")
    definition = TableDefinition(schema=StructType(fields))
    table = table_ref(delta, path)
    with pytest.raises(DefaultsNotEnabledError, match="allowColumnDefaults"):
        create_table(table, definition, CreationMode.CREATE)
    create_table(table, dataclasses.replace(definition, properties=DEFAULTS), CreationMode.CREATE)
    append(delta.range(1), path)
    append(delta.sql("SELECT 1L AS id, CAST(NULL AS STRING) AS v"), path)
    rows = load(delta, path).orderBy("id").collect()
    assert [(row.id, row.n, row.v) for row in rows] == [(0, 42, "X"), (1, 42, None)]
    assert all(row.t is not None for row in rows)
    bad = StructType([fields[0], default_column(fields[1], "id + 1")])
    with pytest.raises(UntrustedExpressionError, match="id"):
        create_table(
            table_ref(delta, path + "2"),
            TableDefinition(schema=bad, properties=DEFAULTS),
            CreationMode.CREATE,
        )


def identity_table(delta: SparkSession, path: str, **how: Any) -> DeltaTable:
    return DeltaTable.create(delta).location(path).addColumn("id", "BIGINT", **how).addColumn("v", "BIGINT").execute()


def ids(delta: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in load(delta, path).collect())


def test_identity_columns_number_rows(delta: SparkSession, path: str) -> None:
    """Unique, in steps, behind all before them, close to each other; the mark moves in the same commit."""
    identity_table(delta, path, generatedAlwaysAs=IdentityGenerator(start=7, step=-3))
    append(delta.range(0, 6, 1, 3).withColumnRenamed("id", "v"), path)
    first = ids(delta, path)
    assert first == [7 - 3 * n for n in reversed(range(6))]
    append(delta.range(0, 5, 1, 1).withColumnRenamed("id", "v"), path)
    second = ids(delta, path)
    assert second == [7 - 3 * n for n in reversed(range(11))]
    # A shuffle at the end of the frame does not change what it counts by.
    append(delta.range(0, 100, 1, 4).selectExpr("id % 10 AS v").groupBy("v").count().select("v"), path)
    third = ids(delta, path)
    assert len(set(third)) == 21
    assert {(7 - value) % 3 for value in third} == {0}
    assert max(value for value in third if value not in second) < min(second)
    assert last(delta, path).operationMetrics["numOutputRows"] == "10"
    with pytest.raises(IdentityInsertError, match="leave it out"):
        append(delta.createDataFrame([(1, 1)], "id long, v long"), path)
    append(delta.createDataFrame([], "v long"), path)
    append(delta.range(1).withColumnRenamed("id", "v"), path)
    assert len(set(ids(delta, path))) == 22


def test_identity_columns_take_nulls_unless_they_are_declared_not_to(delta: SparkSession, path: str) -> None:
    """As with Delta: a value written by default into such a column stays, also when another user rewrites the row."""
    made = identity_table(delta, path, generatedByDefaultAs=IdentityGenerator(start=1, step=1))
    assert made.toDF().schema["id"].nullable
    append(delta.createDataFrame([(None, 10), (None, 11)], "id long, v long").coalesce(1), path)
    append(delta.createDataFrame([(20,)], "v long").coalesce(1), path)
    alter_set_properties(table_ref(delta, path), {"delta.enableDeletionVectors": "false"})
    source = delta.createDataFrame([(10, 100), (30, 300)], "k long, w long").alias("s")
    merging = made.alias("t").merge(source, "t.v = s.k").whenMatchedUpdate(set={"v": "s.w"})
    merging.whenNotMatchedInsert(values={"v": "s.w"}).execute()
    numbers = {row.v: row.id for row in load(delta, path).collect()}
    assert {v: numbers[v] for v in (11, 20, 100)} == {11: None, 20: 1, 100: None}
    assert numbers[300] is not None, "a new row gets its number"

    builder = DeltaTable.create(delta).location(path + " required").addColumn("v", "BIGINT")
    builder.addColumn("id", "BIGINT", nullable=False, generatedByDefaultAs=IdentityGenerator()).execute()
    with pytest.raises(DeltaError, match=r"(?i)null"):
        append(delta.createDataFrame([(None, 1)], "id long, v long"), path + " required")


def test_identity_columns_without_statistics(delta: SparkSession, path: str) -> None:
    """The mark moves also where the table keeps statistics of no column."""
    builder = DeltaTable.create(delta).location(path).addColumn("v", "BIGINT")
    builder.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator())
    builder.property("delta.dataSkippingNumIndexedCols", "0").property("delta.columnMapping.mode", "name").execute()
    for _ in range(2):
        append(delta.range(0, 2, 1, 1).withColumnRenamed("id", "v"), path)
    assert ids(delta, path) == [1, 2, 3, 4]


def test_identity_columns_end_at_the_largest_number(delta: SparkSession, path: str) -> None:
    identity_table(delta, path, generatedAlwaysAs=IdentityGenerator(start=2**63 - 2, step=1))
    append(delta.range(0, 2, 1, 1).withColumnRenamed("id", "v"), path)
    assert ids(delta, path) == [2**63 - 2, 2**63 - 1]
    with pytest.raises(IdentityOverflowError, match="id"):
        append(delta.range(0, 1, 1, 1).withColumnRenamed("id", "v"), path)


def test_writers_of_an_identity_column_take_turns(delta: SparkSession, path: str) -> None:
    """Covers race 79."""
    identity_table(delta, path, generatedAlwaysAs=IdentityGenerator())
    table = table_ref(delta, path)
    old = table.latest()
    append(delta.range(1).withColumnRenamed("id", "v"), path)
    late = table.delta_log.begin_at(Operation(name="WRITE"), snapshot=old)
    with pytest.raises(MetadataChangedException):
        late.commit([old.metadata, *table.latest().files.to_actions(np.array([True]))])


def test_new_rows_among_rows_of_the_table(delta: SparkSession, path: str) -> None:
    """MERGE writes such rows: those that have a number keep it, new ones get theirs; generated columns follow."""
    builder = DeltaTable.create(delta).location(path).addColumn("v", "BIGINT")
    builder.addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(start=10, step=1))
    builder.addColumn("double", "BIGINT", generatedAlwaysAs="v * 2").execute()
    append(delta.range(2).withColumnRenamed("id", "v").coalesce(1), path)
    snapshot = table_ref(delta, path).latest()
    rules = rules_for(WriteApi.MERGED_ROWS, overwriting=False, merge_schema=False, overwrite_schema=False)
    data = load(delta, path).select("id", (F.col("v") + 5).alias("v"), F.lit("kept").alias("_note"))
    mixed = data.unionByName(delta.sql("SELECT CAST(NULL AS BIGINT) AS id, 9L AS v, 'new' AS _note")).coalesce(1)
    schema = StructType([field for field in mixed.schema if field.name != "_note"])
    plan = plan_write(schema, snapshot.schema, rules, table="t", constraints={})
    assert plan.generates_identity == {"id"}
    conformed = conform(mixed, plan, table="t", keep=("_note",))
    values = sorted(tuple(row) for row in conformed.collect())
    # The third row of its partition: numbers are made by place, so there may be gaps.
    assert values == [(5, 10, 10, "kept"), (6, 11, 12, "kept"), (9, 14, 18, "new")]


def test_variants_are_shredded_where_the_table_says_so(delta: SparkSession, path: str) -> None:
    """See "Variant Shredding". Statistics of the columns behind them are found in such files, too."""
    row = """parse_json(concat('{"a": ', id, ', "b": "x"}'))"""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (v VARIANT, id BIGINT, s STRUCT<w: VARIANT, n: BIGINT>) USING delta "
        "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')"
    )
    delta.sql(
        f"INSERT INTO delta.`{path}` SELECT {row}, id, named_struct('w', parse_json('[1]'), 'n', id + 1) FROM range(9)"
    )
    fields = _last_adds(path)[0]
    assert max(json.loads(add["stats"])["maxValues"]["s"]["n"] for add in _last_adds(path)) == 9
    parts = {field.name for field in pq.read_schema(f"{path}/{unquote(fields['path'])}").field("v").type}
    assert parts == {"metadata", "value", *(["typed_value"] if pyspark.__version__ >= "4.1" else [])}
    delta.sql(f"UPDATE delta.`{path}` SET v = parse_json('7') WHERE variant_get(v, '$.a', 'int') = 2")
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableVariantShredding' = 'false')")
    delta.sql(f"OPTIMIZE delta.`{path}`")
    rows = delta.sql(f"SELECT id, to_json(v), to_json(s.w) FROM delta.`{path}`").collect()
    assert sorted(map(tuple, rows)) == [(i, "7" if i == 2 else f'{{"a":{i},"b":"x"}}', "[1]") for i in range(9)]
    (file,) = _last_adds(path)
    assert "typed_value" not in str(pq.read_schema(f"{path}/{unquote(file['path'])}"))


def test_how_files_are_written_by_properties(delta: SparkSession, path: str) -> None:
    """The pages of Parquet's second version; partition columns in the files, too, without statistics of their own."""
    for number, (version, holds) in enumerate((("1.0.0", "false"), ("2.12.0", "true"))):
        root = f"{path}/{number}"
        properties = f"'delta.parquet.format.version' = '{version}', 'delta.writePartitionColumnsToParquet' = '{holds}'"
        columns = "(n BIGINT, p STRING) USING delta PARTITIONED BY (p)"
        delta.sql(f"CREATE TABLE delta.`{root}` {columns} TBLPROPERTIES ({properties})")
        delta.sql(f"INSERT INTO delta.`{root}` SELECT id % 3, if(id < 9, 'a', '') FROM range(0, 10, 1, 1)")
        delta.sql(f"UPDATE delta.`{root}` SET n = 7 WHERE n = 1 AND p = 'a'")
        delta.sql(f"OPTIMIZE delta.`{root}`")
        adds = _last_adds(root)
        assert {name for add in adds for name in json.loads(add["stats"])["nullCount"]} == {"n"}
        footer = pq.ParquetFile(f"{root}/{unquote(adds[0]['path'])}").metadata
        assert [footer.schema.column(i).name for i in range(footer.num_columns)] == ["n", *(["p"] if number else [])]
        assert ("PLAIN_DICTIONARY" in footer.row_group(0).column(0).encodings) is (number == 0)
        rows = delta.sql(f"SELECT n, p, count(*) FROM delta.`{root}` GROUP BY ALL").collect()
        assert sorted(map(tuple, rows), key=str) == [(0, "a", 3), (0, None, 1), (2, "a", 3), (7, "a", 3)]


def test_vectors_of_ml(delta: SparkSession, path: str) -> None:
    """As Spark stores them, a struct in the files. They are written, changed, compacted and fed to estimators."""
    rows = [(i, Vectors.dense([i, 1.0]) if i % 2 else Vectors.sparse(2, {1: 1.0}), f"s{i}") for i in range(4)]
    frame = delta.createDataFrame(rows, ["id", "v", "s"])
    frame.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    assert max(json.loads(add["stats"])["maxValues"]["s"] for add in _last_adds(path)) == "s3"
    table = DeltaTable.forPath(delta, path)
    table.update("id = 1", {"s": "'x'"})
    moved = frame.select((F.col("id") + 2).alias("id"), "v", "s")
    merge = table.alias("t").merge(moved.alias("n"), "t.id = n.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.optimize().executeCompaction()
    stored = {row.id: (row.v, row.s) for row in table.toDF().collect()}
    assert stored == {0: rows[0][1:], 1: (rows[1][1], "x"), **{i + 2: rows[i][1:] for i in range(4)}}
    assert VectorAssembler(inputCols=["v", "id"], outputCol="all").transform(table.toDF()).count() == 6
    changes = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    assert changes.where("_change_type = 'update_postimage'").count() == 3
    for wrong in (F.lit("z"), F.lit(1)):
        with pytest.raises(IncompatibleTypesError, match="v is vector in the table"):
            frame.withColumn("v", wrong).write.format("delta").mode("append").save(path)
    with pytest.raises(InvalidPartitioningError, match="v is of type vector"):
        frame.write.format("delta").partitionBy("v").save(f"{path}/other")


def _last_adds(path: str) -> list[Any]:
    lines = max(Path(path, "_delta_log").glob("*.json")).read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]
