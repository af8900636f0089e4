"""`df.write.format("delta")`: errors, settings, and what `tests/differential/programs` cannot say of modes and schemas."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.alterations import ColumnInUseError
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    LengthLimitError,
    ReplaceWhereMismatchError,
)
from anabranch.errors.schema import SchemaMismatchError
from anabranch.errors.tables import TableAlreadyExistsError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def load(delta: SparkSession, path: str, **options: Any) -> DataFrame:
    return delta.read.format("delta").options(**options).load(path)


def people(delta: SparkSession, *values: tuple[int, str]) -> DataFrame:
    return delta.createDataFrame(list(values), "id long, name string")


def last(delta: SparkSession, path: str) -> Any:
    return DeltaTable.forPath(delta, path).history(1).first()


def test_default_mode_refuses_an_existing_table(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").save(path)
    with pytest.raises(TableAlreadyExistsError, match="mode append"):
        people(delta, (2, "b")).write.format("delta").save(path)
    assert rows(load(delta, path)) == [(1, "a")]


def test_append_and_overwrite(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").mode("append").save(path)
    people(delta, (2, "b")).write.format("delta").mode("append").save(path)
    assert rows(load(delta, path)) == [(1, "a"), (2, "b")]
    people(delta, (3, "c")).write.format("delta").mode("overwrite").save(path)
    assert rows(load(delta, path)) == [(3, "c")]
    assert rows(load(delta, path, versionAsOf=1)) == [(1, "a"), (2, "b")]
    assert last(delta, path).operationParameters["mode"] == "Overwrite"


def test_a_schema_that_lacks_a_column_of_a_constraint(delta: SparkSession, path: str) -> None:
    """Constraints stay when the schema is replaced, and one that reads a column which is gone could never be checked."""
    people(delta, (1, "a")).write.format("delta").save(path)
    delta.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id > 0)")
    overwrite = people(delta, (2, "b")).selectExpr("name").write.format("delta").mode("overwrite")
    with pytest.raises(ColumnInUseError, match=r"id .* cannot be dropped.*positive") as raised:
        overwrite.option("overwriteSchema", "true").save(path)
    assert raised.value.condition == "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    assert (rows(load(delta, path)), last(delta, path).version) == ([(1, "a")], 1)
    wider = people(delta, (3, "c")).selectExpr("1 AS more", "CAST(id AS INT) AS ID")
    wider.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert rows(load(delta, path)) == [(1, 3)]
    with pytest.raises(CheckConstraintViolationError):
        wider.selectExpr("more", "-ID AS ID").write.format("delta").mode("append").save(path)
    delta.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT positive")
    overwrite.option("overwriteSchema", "true").save(path)
    assert rows(load(delta, path)) == [("b",)]


def test_an_error_about_a_schema_names_columns_types_and_options(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").save(path)
    wider = delta.createDataFrame([(2, "b", 0.5)], "id long, name string, score double")
    with pytest.raises(SchemaMismatchError, match=r"score.*double") as refused:
        wider.write.format("delta").mode("append").save(path)
    assert isinstance(refused.value, AnalysisException)
    assert "mergeSchema" in str(refused.value)
    wrong = delta.createDataFrame([("x", "b")], "id string, name string")
    with pytest.raises(SchemaMismatchError) as refused:
        wrong.write.format("delta").mode("append").save(path)
    assert [word for word in ("id", "bigint", "string") if word not in str(refused.value)] == []
    other = delta.createDataFrame([(datetime.date(2024, 1, 1), 2)], "day date, n int")
    with pytest.raises(SchemaMismatchError, match="overwriteSchema"):
        other.write.format("delta").mode("overwrite").save(path)
    assert last(delta, path).version == 0


def test_the_session_knows_the_version_of_its_last_commit(delta: SparkSession, path: str) -> None:
    setting = "spark.databricks.delta.lastCommitVersionInSession"
    for version in range(3):
        delta.range(3).write.format("delta").mode("append").save(path)
        assert delta.conf.get(setting) == str(version)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 77")
    assert delta.conf.get(setting) == "2"
    delta.range(3).write.format("delta").save(f"{path}-2")
    assert delta.conf.get(setting) == "0"


def test_the_history_says_who_it_was(delta: SparkSession, path: str) -> None:
    delta.range(3).write.format("delta").save(path)
    spark_user = last(delta, path).userName
    assert spark_user
    delta.conf.set("spark.anabranch.user", "ana@example.org")
    try:
        delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    finally:
        delta.conf.unset("spark.anabranch.user")
    assert (last(delta, path).userName, last(delta, path).userId) == ("ana@example.org", "ana@example.org")
    delta.range(3).write.format("delta").mode("append").save(path)
    assert last(delta, path).userName == spark_user


def test_what_is_not_supported_is_refused_by_name(delta: SparkSession, path: str, name: str) -> None:
    with pytest.raises((UnsupportedOperationError, AnalysisException), match="bucketBy"):
        people(delta, (1, "a")).write.format("delta").bucketBy(2, "id").save(path)
    with pytest.raises(InvalidOptionError, match="mode"):
        people(delta, (1, "a")).write.format("delta").mode("append").option("replaceWhere", "id = 1").save(path)
    with pytest.raises(UnsupportedOperationError, match="bucket"):
        people(delta, (1, "a")).writeTo(name).using("delta").partitionedBy(F.partitioning.bucket(4, "id")).create()
    assert not delta.catalog.tableExists(name)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(delta: SparkSession, path: str, mode: str) -> None:
    """Any column name goes, data files use others, and both modes read what they wrote."""
    frame = delta.sql("SELECT 1 AS `a b`, named_struct('x,y', 2) AS `s;t`, 'p' AS `part=`")
    writer = frame.write.format("delta").option("delta.columnMapping.mode", mode).partitionBy("`part=`")
    writer.save(path)
    frame.write.format("delta").mode("append").save(path)
    assert load(delta, path).columns == ["a b", "s;t", "part="]
    assert load(delta, path).where("`a b` = 1 AND `s;t`.`x,y` = 2 AND `part=` = 'p'").count() == 2
    wider = frame.selectExpr("*", "5L AS `new {}`")
    wider.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert sorted(str(row[3]) for row in load(delta, path).collect()) == ["5", "None", "None"]


def test_rows_of_a_table_with_char_columns_are_written_back(delta: SparkSession, path: str) -> None:
    """Covers bug B88: where the session keeps CHAR and VARCHAR as types of their own, the writer refused the rows of the very table.
    Elsewhere padded rows satisfy `replaceWhere` as conditions of queries are satisfied."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, c CHAR(4), v VARCHAR(3)) USING delta")
    delta.sql(f"INSERT INTO {table} VALUES (1, 'a', 'b'), (2, 'b', 'c')")
    own = delta.read.format("delta").load(path).where("id = 1")
    own.write.format("delta").mode("overwrite").option("replaceWhere", "c = 'a'").save(path)
    delta.sql(f"INSERT INTO {table} REPLACE WHERE c = 'a' SELECT * FROM {table} WHERE id = 1")
    before = delta.conf.get("spark.sql.preserveCharVarcharTypeInfo")
    delta.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    try:
        own = delta.read.format("delta").load(path)
        own.where("id = 1").write.format("delta").mode("overwrite").option("replaceWhere", "c = 'a   '").save(path)
        own.write.format("delta").mode("append").save(path)
        own.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
        own.write.format("delta").mode("overwrite").save(path)
        own.writeTo(table).overwritePartitions()
        own.write.format("delta").save(f"{path} copy")
        plain = delta.sql("SELECT 1 AS id, 'a' AS c, 'b' AS v")
        for unpadded in (own.where("id = 1"), plain):
            # Queries of the session find no such row, so that the new row would be added beside the old one.
            with pytest.raises(ReplaceWhereMismatchError, match="must contain the blanks"):
                unpadded.write.format("delta").mode("overwrite").option("replaceWhere", "c = 'a'").save(path)
        plain.write.format("delta").mode("overwrite").option("replaceWhere", "c = 'a   '").save(path)
        own.where("id = 1").write.format("delta").mode("append").save(path)
        with pytest.raises(LengthLimitError):
            delta.sql("SELECT 1 AS id, 'too long' AS c, 'b' AS v").write.format("delta").mode("append").save(path)
    finally:
        delta.conf.set("spark.sql.preserveCharVarcharTypeInfo", before)
    assert delta.sql(f"SELECT count(*), count(DISTINCT id) FROM {table}").first() == (6, 2)
    for name in (table, f"delta.`{path} copy`"):
        assert [row.data_type for row in delta.sql(f"DESCRIBE {name}").collect()][:3] == [
            "int",
            "char(4)",
            "varchar(3)",
        ]
