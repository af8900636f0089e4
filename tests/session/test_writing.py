"""`df.write.format("delta")`: modes, schemas, partitions, idempotence."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from anabranch.errors.alterations import ColumnInUseError
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    LengthLimitError,
    NotNullViolationError,
    ReplaceWhereMismatchError,
)
from anabranch.errors.schema import InvalidPartitioningError, PartitionColumnMismatchError, SchemaMismatchError
from anabranch.errors.tables import TableAlreadyExistsError, TableLocationMismatchError
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


def test_a_table_that_is_replaced_stays_where_it_is(delta: SparkSession, name: str, path: str) -> None:
    """Bug B5: another path was ignored, and the old place overwritten."""
    people(delta, (1, "a")).write.format("delta").saveAsTable(name)
    with pytest.raises(TableLocationMismatchError, match="a table"):
        people(delta, (2, "b")).write.format("delta").mode("overwrite").option("path", path).saveAsTable(name)
    with pytest.raises(TableLocationMismatchError):
        people(delta, (2, "b")).writeTo(name).using("delta").option("path", path).createOrReplace()
    with pytest.raises(TableLocationMismatchError):
        delta.sql(f"CREATE OR REPLACE TABLE {name} USING delta LOCATION '{path}' AS SELECT 2 AS id")
    with pytest.raises(TableLocationMismatchError):
        DeltaTable.createOrReplace(delta).tableName(name).location(path).addColumn("id", "INT").execute()
    DeltaTable.createIfNotExists(delta).tableName(name).location(path).addColumn("id", "INT").execute()
    assert rows(delta.table(name)) == [(1, "a")]
    assert not DeltaTable.isDeltaTable(delta, path)


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


def test_ignore_leaves_an_existing_table(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").mode("ignore").save(path)
    people(delta, (2, "b")).write.format("delta").mode("ignore").save(path)
    assert rows(load(delta, path)) == [(1, "a")]
    assert last(delta, path).version == 0


def test_an_overwrite_that_reads_its_own_table(delta: SparkSession, path: str) -> None:
    """The rows come from the version that was read, and the write is no blind append."""
    delta.range(10).write.format("delta").save(path)
    load(delta, path).where("id >= 5").write.format("delta").mode("overwrite").save(path)
    assert rows(load(delta, path)) == [(n,) for n in range(5, 10)]
    load(delta, path).write.format("delta").mode("append").save(path)
    assert last(delta, path).isBlindAppend is False
    assert load(delta, path).count() == 10


def test_partitions_with_odd_values(delta: SparkSession, path: str) -> None:
    values = ["a b", "x=y", "50%", "ü/ß", "'quoted\"", "{a,b}*?", None, "#?", "a:b\\c", "tab\there"]
    frame = delta.createDataFrame([(i, value) for i, value in enumerate(values)], "id int, part string")
    frame.write.format("delta").partitionBy("part").save(path)
    found = {row.id: row.part for row in load(delta, path).collect()}
    assert found == dict(enumerate(values))
    for i, value in enumerate(values):
        matching = load(delta, path).where(F.col("part").eqNullSafe(F.lit(value)))
        assert [row.id for row in matching.collect()] == [i]


def test_partition_types(delta: SparkSession, path: str) -> None:
    frame = delta.sql(
        """SELECT 1 AS id, CAST(2 AS TINYINT) AS b, 3L AS l, CAST(1.5 AS DECIMAL(10, 2)) AS d, DATE'2024-02-29' AS day,
           TIMESTAMP'2024-02-29 12:34:56.123456' AS ts, TIMESTAMP_NTZ'2024-02-29 12:34:56.5' AS ntz, true AS flag,
           CAST('NaN' AS DOUBLE) AS nan, -0.5F AS f"""
    )
    columns = [name for name in frame.columns if name != "id"]
    frame.write.format("delta").partitionBy(*columns).save(path)
    assert load(delta, path).exceptAll(frame).count() == 0
    assert load(delta, path).where("day = DATE'2024-02-29' AND ts > TIMESTAMP'2024-01-01' AND flag").count() == 1
    assert load(delta, path).where("l > 3").count() == 0


def test_merge_schema_adds_columns(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").save(path)
    wider = delta.createDataFrame([(2, "b", 0.5)], "id long, name string, score double")
    with pytest.raises(SchemaMismatchError, match=r"score.*double") as refused:
        wider.write.format("delta").mode("append").save(path)
    assert isinstance(refused.value, AnalysisException)
    assert "mergeSchema" in str(refused.value)
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(path)
    assert sorted(load(delta, path).collect(), key=lambda row: row.id) == [(1, "a", None), (2, "b", 0.5)]
    people(delta, (3, "c")).write.format("delta").mode("append").save(path)
    assert load(delta, path).where("id = 3").first() == (3, "c", None)


def test_a_wrong_type_names_the_column_and_both_types(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").save(path)
    wrong = delta.createDataFrame([("x", "b")], "id string, name string")
    with pytest.raises(SchemaMismatchError) as refused:
        wrong.write.format("delta").mode("append").save(path)
    message = str(refused.value)
    assert "id" in message
    assert "bigint" in message
    assert "string" in message
    assert last(delta, path).version == 0


def test_overwrite_schema(delta: SparkSession, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").save(path)
    other = delta.createDataFrame([(datetime.date(2024, 1, 1), 2)], "day date, n int")
    with pytest.raises(SchemaMismatchError, match="overwriteSchema"):
        other.write.format("delta").mode("overwrite").save(path)
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("day").save(path)
    assert load(delta, path).columns == ["day", "n"]
    assert rows(load(delta, path)) == [(datetime.date(2024, 1, 1), 2)]
    assert load(delta, path, versionAsOf=0).columns == ["id", "name"]
    assert DeltaTable.forPath(delta, path).detail().first().partitionColumns == ["day"]


def test_strings_that_are_no_text(delta: SparkSession, path: str) -> None:
    """Spark's strings are bytes; the statistics, which are JSON, can only have those that are UTF-8."""
    texts = ["ff41", "42", "c3a4"]
    given = delta.createDataFrame([(text,) for text in texts], "hex string").selectExpr(
        "CAST(unhex(hex) AS STRING) AS s"
    )
    given.coalesce(1).write.format("delta").save(path)
    assert rows(load(delta, path).selectExpr("lower(hex(s))")) == sorted((text,) for text in texts)
    assert load(delta, path).where("s >= 'z'").count() == 2


def test_replace_where_on_a_partition(delta: SparkSession, path: str) -> None:
    frame = delta.range(30).selectExpr("id", "id % 3 AS part")
    frame.write.format("delta").partitionBy("part").save(path)
    new = delta.createDataFrame([(100, 1)], "id long, part long")
    new.write.format("delta").mode("overwrite").option("replaceWhere", "part = 1").save(path)
    expected = [(n, n % 3) for n in range(30) if n % 3 != 1] + [(100, 1)]
    assert rows(load(delta, path)) == sorted(expected)
    assert last(delta, path).operationMetrics["numDeletedRows"] == "10"


def test_replace_where_on_any_column_keeps_other_rows(delta: SparkSession, path: str) -> None:
    delta.range(0, 100, 1, 4).selectExpr("id", "id * 2 AS double").write.format("delta").save(path)
    delta.createDataFrame([(None, 7)], "id long, double long").write.format("delta").mode("append").save(path)
    new = delta.createDataFrame([(15, 0)], "id long, double long")
    new.write.format("delta").mode("overwrite").option("replaceWhere", "id >= 10 AND id < 30").save(path)
    found = load(delta, path)
    assert found.where("id >= 10 AND id < 30").collect() == [(15, 0)]
    assert found.count() == 100 - 20 + 1 + 1
    assert found.where("id IS NULL").count() == 1
    metrics = last(delta, path).operationMetrics
    assert metrics["numDeletedRows"] == "20"


def test_replace_where_refuses_rows_outside(delta: SparkSession, path: str) -> None:
    delta.range(10).write.format("delta").save(path)
    outside = delta.range(50, 51)
    with pytest.raises(ReplaceWhereMismatchError, match="50"):
        outside.write.format("delta").mode("overwrite").option("replaceWhere", "id < 5").save(path)
    assert load(delta, path).count() == 10


def test_dynamic_partition_overwrite(delta: SparkSession, path: str) -> None:
    frame = delta.createDataFrame([(1, "a"), (2, "b"), (3, None)], "id long, part string")
    frame.write.format("delta").partitionBy("part").save(path)
    new = delta.createDataFrame([(20, "b"), (30, None), (40, "d")], "id long, part string")
    new.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)
    assert {(row.id, row.part) for row in load(delta, path).collect()} == {(1, "a"), (20, "b"), (30, None), (40, "d")}


def test_the_same_application_version_is_written_once(delta: SparkSession, path: str) -> None:
    for _ in range(2):
        people(delta, (1, "a")).write.format("delta").mode("append").options(txnAppId="app", txnVersion=7).save(path)
    assert load(delta, path).count() == 1
    people(delta, (2, "b")).write.format("delta").mode("append").options(txnAppId="app", txnVersion=8).save(path)
    assert load(delta, path).count() == 2
    with pytest.raises(InvalidOptionError, match="txnVersion"):
        people(delta, (2, "b")).write.format("delta").mode("append").option("txnAppId", "app").save(path)


def test_user_metadata_and_max_records_per_file(delta: SparkSession, path: str) -> None:
    frame = delta.range(0, 100, 1, 1)
    frame.write.format("delta").options(userMetadata="nightly", maxRecordsPerFile=10).save(path)
    assert last(delta, path).userMetadata == "nightly"
    assert DeltaTable.forPath(delta, path).detail().first().numFiles == 10


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


def test_not_null_columns_refuse_null(delta: SparkSession, path: str) -> None:
    schema = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
    DeltaTable.create(delta).location(path).addColumns(schema).execute()
    with pytest.raises(NotNullViolationError, match="id"):
        delta.createDataFrame([(None, "x")], "id long, name string").write.format("delta").mode("append").save(path)
    people(delta, (1, "a")).write.format("delta").mode("append").save(path)
    assert rows(load(delta, path)) == [(1, "a")]


def test_bad_partitionings_are_refused(delta: SparkSession, path: str) -> None:
    with pytest.raises(InvalidPartitioningError, match="nope"):
        people(delta, (1, "a")).write.format("delta").partitionBy("nope").save(path)
    people(delta, (1, "a")).write.format("delta").partitionBy("name").save(path)
    with pytest.raises(PartitionColumnMismatchError):
        people(delta, (1, "a")).write.format("delta").mode("append").partitionBy("id").save(path)


def test_what_is_not_supported_is_refused_by_name(delta: SparkSession, path: str) -> None:
    with pytest.raises((UnsupportedOperationError, AnalysisException), match="bucketBy"):
        people(delta, (1, "a")).write.format("delta").bucketBy(2, "id").save(path)
    with pytest.raises(InvalidOptionError, match="mode"):
        people(delta, (1, "a")).write.format("delta").mode("append").option("replaceWhere", "id = 1").save(path)


def test_nested_columns_fit_by_name(delta: SparkSession, path: str) -> None:
    delta.sql("SELECT named_struct('a', 1, 'b', 'x') AS s, array(named_struct('c', 1L)) AS xs").write.format(
        "delta"
    ).save(path)
    swapped = delta.sql("SELECT array(named_struct('c', 2L)) AS xs, named_struct('b', 'y', 'a', 2) AS s")
    swapped.write.format("delta").mode("append").save(path)
    assert sorted(row.s.a for row in load(delta, path).collect()) == [1, 2]
    assert sorted(row.s.b for row in load(delta, path).collect()) == ["x", "y"]


def test_save_as_table_insert_into_and_sql(delta: SparkSession, name: str) -> None:
    people(delta, (1, "a")).write.format("delta").saveAsTable(name)
    assert rows(delta.table(name)) == [(1, "a")]
    delta.createDataFrame([("b", 2)], "name string, id int").write.format("delta").mode("append").saveAsTable(name)
    # insertInto goes by position, not by the columns' names.
    delta.createDataFrame([(3, "c")], "x int, y string").write.insertInto(name)
    assert rows(delta.sql(f"SELECT * FROM {name} WHERE id > 1")) == [(2, "b"), (3, "c")]
    people(delta, (9, "z")).write.insertInto(name, overwrite=True)
    assert rows(delta.read.table(name)) == [(9, "z")]
    assert rows(delta.sql(f"SELECT t.id, {name}.name FROM {name} VERSION AS OF 0 t JOIN {name} ON true")) == [(1, "z")]
    assert DeltaTable.forName(delta, name).detail().first().name == f"spark_catalog.default.{name}"
    with pytest.raises(AnalysisException):
        people(delta, (1, "a")).write.format("delta").saveAsTable(name)


def test_saving_as_an_external_table(delta: SparkSession, name: str, path: str) -> None:
    people(delta, (1, "a")).write.format("delta").option("path", path).saveAsTable(name)
    assert rows(load(delta, path)) == [(1, "a")]
    delta.sql(f"DROP TABLE {name}")
    assert rows(load(delta, path)) == [(1, "a")]


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


def test_char_and_varchar(delta: SparkSession, path: str) -> None:
    DeltaTable.create(delta).location(path).addColumn("c", "CHAR(3)").addColumn("v", "VARCHAR(2)").execute()
    good = delta.createDataFrame([("a", "bc")], "c string, v string")
    good.write.format("delta").mode("append").save(path)
    assert load(delta, path).first() == ("a  ", "bc")
    with pytest.raises(Exception, match=r"varchar\(2\)"):
        delta.createDataFrame([("a", "toolong")], "c string, v string").write.format("delta").mode("append").save(path)


def test_integers_that_fit_widen_on_read_only_where_allowed(delta: SparkSession, path: str) -> None:
    delta.createDataFrame([(1,)], StructType([StructField("n", IntegerType())])).write.format("delta").options(
        **{"delta.enableTypeWidening": "true"}
    ).save(path)
    big = delta.createDataFrame([(2**40,)], StructType([StructField("n", LongType())]))
    with pytest.raises(SchemaMismatchError):
        big.write.format("delta").mode("append").save(path)
    big.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert rows(load(delta, path)) == [(1,), (2**40,)]
    assert load(delta, path).schema["n"].dataType == LongType()


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
