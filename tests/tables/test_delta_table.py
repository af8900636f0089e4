"""`DeltaTable` and its builder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.protocol import UnknownPropertyError
from anabranch.errors.tables import (
    CreateTableMismatchError,
    EmptyTableSchemaError,
    LocationNotEmptyError,
    NotADeltaTableError,
    ReadWithoutColumnsError,
    TableAlreadyExistsError,
)
from anabranch.tables import DeltaTable, IdentityGenerator
from session_kinds import classic

pytestmark = pytest.mark.spark


def test_create_by_path(delta: SparkSession, path: str) -> None:
    table = (
        DeltaTable.create(delta)
        .location(path)
        .addColumn("id", "BIGINT", nullable=False, comment="the key")
        .addColumn("day", "DATE")
        .addColumns(StructType([StructField("n", IntegerType())]))
        .partitionedBy("day")
        .comment("about days")
        .property("delta.checkpointInterval", "5")
        .property("owner", "us")
        .execute()
    )
    detail = table.detail().first()
    assert detail.partitionColumns == ["day"]
    assert detail.description == "about days"
    assert detail.properties == {
        "delta.checkpointInterval": "5",
        "owner": "us",
        "delta.enableDeletionVectors": "true",
    }
    assert (detail.minReaderVersion, detail.minWriterVersion) == (3, 7)
    assert "deletionVectors" in detail.tableFeatures
    assert detail.numFiles == 0
    assert table.toDF().schema["id"].metadata == {"comment": "the key"}
    assert table.history().first().operation == "CREATE TABLE"
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(delta).location(path).addColumn("id", "INT").execute()


def test_create_by_name(delta: SparkSession, name: str) -> None:
    DeltaTable.create(delta).tableName(name).addColumn("id", "INT").execute()
    assert delta.table(name).columns == ["id"]
    assert delta.catalog.tableExists(name)
    with pytest.raises(TableAlreadyExistsError):
        DeltaTable.create(delta).tableName(name).addColumn("id", "INT").execute()
    again = DeltaTable.createIfNotExists(delta).tableName(name).addColumn("other", "INT").execute()
    assert again.toDF().columns == ["id"]


def test_replace_keeps_the_history(delta: SparkSession, name: str) -> None:
    with pytest.raises(NotADeltaTableError, match="the table to replace cannot be found"):
        DeltaTable.replace(delta).tableName(name).addColumn("id", "INT").execute()
    DeltaTable.createOrReplace(delta).tableName(name).addColumn("id", "INT").execute()
    delta.createDataFrame([(1,)], "id int").write.insertInto(name)
    table = DeltaTable.createOrReplace(delta).tableName(name).addColumn("word", "STRING").execute()
    assert table.toDF().columns == ["word"]
    assert table.toDF().count() == 0
    operations = [row.operation for row in table.history().collect()]
    assert operations == ["CREATE OR REPLACE TABLE", "WRITE", "CREATE OR REPLACE TABLE"]
    assert delta.sql(f"SELECT * FROM {name} VERSION AS OF 1").collect() == [(1,)]


def test_a_name_for_an_existing_table(delta: SparkSession, name: str, path: str) -> None:
    delta.range(3).write.format("delta").save(path)
    with pytest.raises(CreateTableMismatchError, match="schema"):
        DeltaTable.create(delta).tableName(name).location(path).addColumn("other", "INT").execute()
    DeltaTable.create(delta).tableName(name).location(path).execute()
    assert delta.table(name).count() == 3


def test_a_folder_with_strangers(delta: SparkSession, name: str, path: str) -> None:
    delta.range(3).write.parquet(path)
    with pytest.raises(LocationNotEmptyError, match="not empty"):
        DeltaTable.create(delta).tableName(name).location(path).addColumn("id", "INT").execute()


def test_a_table_without_columns(delta: SparkSession, path: str) -> None:
    """It can be made, and read once it has columns."""
    DeltaTable.create(delta).location(path).execute()
    with pytest.raises(ReadWithoutColumnsError):
        delta.read.format("delta").load(path).collect()
    with pytest.raises(EmptyTableSchemaError):
        delta.range(1).select().write.format("delta").save(f"{path} 2")
    delta.range(2).write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert delta.read.format("delta").load(path).count() == 2


def test_bad_definitions(delta: SparkSession, path: str) -> None:
    with pytest.raises(UnknownPropertyError, match="checkpointIntervall"):
        DeltaTable.create(delta).location(path).addColumn("a", "INT").property(
            "delta.checkpointIntervall", "3"
        ).execute()
    with pytest.raises(InvalidArgumentError, match="name or a location"):
        DeltaTable.create(delta).addColumn("a", "INT").execute()
    with pytest.raises(TypeError, match="Column name must be str"):
        DeltaTable.create(delta).addColumn(3, "INT")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="non-zero"):
        DeltaTable.create(delta).addColumn("a", "BIGINT", generatedAlwaysAs=IdentityGenerator(1, 0))
    assert not DeltaTable.isDeltaTable(delta, path)


def test_alias(delta: SparkSession, path: str) -> None:
    delta.range(3).write.format("delta").save(path)
    assert DeltaTable.forPath(delta, path).alias("t").toDF().where("t.id = 1").collect() == [(1,)]


def test_history_limit(delta: SparkSession, path: str) -> None:
    for _ in range(3):
        delta.range(1).write.format("delta").mode("append").save(path)
    table = DeltaTable.forPath(delta, path)
    assert [row.version for row in table.history().collect()] == [2, 1, 0]
    assert [row.version for row in table.history(2).collect()] == [2, 1]
    with pytest.raises(InvalidArgumentError):
        table.history(0)


def test_clustered_tables_say_so(delta: SparkSession, path: str) -> None:
    table = DeltaTable.create(delta).location(path).addColumn("a", "INT").addColumn("b", "INT").clusterBy("b").execute()
    assert table.detail().first().clusteringColumns == ["b"]
    delta.createDataFrame([(1, 2)], "a int, b int").write.format("delta").mode("append").save(path)
    assert table.toDF().collect() == [(1, 2)]


def test_zeros_of_both_signs_are_one(delta: SparkSession, path: str) -> None:
    """Spark's own Parquet reader takes a row group whose dictionary has -0.0 for one without 0.0."""
    frame = delta.range(0, 100, 1, 1).selectExpr("id", "CASE WHEN id % 2 = 0 THEN -0.0D ELSE 5D END AS x")
    frame.write.format("delta").save(path)
    assert DeltaTable.forPath(delta, path).toDF().where("x = 0.0").count() == 50


def test_columns_of_a_frame(delta: SparkSession, path: str) -> None:
    delta.range(3).selectExpr("id", "id * 10 AS n").write.format("delta").save(path)
    table = DeltaTable.forPath(delta, path)
    frame = table.toDF()
    source = delta.range(1).toDF("k")
    statements: list[Callable[[], object]] = [
        lambda: table.delete(frame["id"] == 0),
        lambda: table.update(None, {"n": frame["n"] + 1}),
        lambda: table.merge(source, frame["id"] == F.col("k") + 1).whenMatchedDelete().execute(),
    ]
    for statement in statements:
        statement()
    table.delete(F.col("id") < 2)
    with pytest.raises(AnalysisException, match="nothing"):
        table.delete("nothing = 1")
    assert [row.id for row in table.toDF().collect()] == [2]


@classic  # a client shows the columns alone
def test_a_notebook_shows_version_and_columns(delta: SparkSession, path: str) -> None:
    table = (
        DeltaTable.create(delta)
        .location(path)
        .addColumn("id", "BIGINT", nullable=False, comment="<b>key</b>")
        .addColumn("p", "STRING")
        .partitionedBy("p")
        .execute()
    )
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a')")
    assert repr(table) == f"DeltaTable(delta.`{path}`)"
    cells = [cell.text or "" for cell in ElementTree.fromstring(f"<div>{table._repr_html_()}</div>").iter()]
    facts = dict(zip(cells, cells[1:], strict=False))
    assert (facts["Version"], facts["Files"], facts["Partitioned by"]) == ("1", "1", "p")
    assert cells[-8:] == ["", "id", "bigint", "NOT NULL, <b>key</b>", "", "p", "string", ""]


def test_a_notebook_shows_why_a_table_is_gone(delta: SparkSession, path: str) -> None:
    table = DeltaTable.create(delta).location(path).addColumn("id", "INT").execute()
    shutil.rmtree(path)
    assert "is not a Delta table" in table._repr_html_()


def test_a_notebook_shows_results_as_tables(delta: SparkSession, path: str) -> None:
    """IPython takes the method of an object, if it has one; Spark's own returns nothing unless it is set to."""
    delta.createDataFrame([(1, "<b>")], "id int, v string").write.format("delta").save(path)
    table = DeltaTable.forPath(delta, path)
    for _ in range(21):
        table.update("id = 1", {"v": "'<i>'"})
    merge = table.alias("t").merge(delta.range(1).alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    for result, cell in (
        (table.history(), "UPDATE"),
        (table.detail(), "delta"),
        (merge, "num_affected_rows"),
        (table.optimize().executeCompaction(), "numFilesAdded"),
        (table.restoreToVersion(0), "num_restored_files"),
    ):
        shown = result._repr_html_()
        assert cell in "".join(ElementTree.fromstring(f"<div>{shown}</div>").itertext())
        assert ("The first 20 rows." in shown) == (cell == "UPDATE")
        assert repr(result).startswith("DataFrame[")
    assert repr(table) == f"DeltaTable(delta.`{path}`)"


def test_builders_say_that_they_have_not_run(delta: SparkSession, path: str) -> None:
    table = DeltaTable.create(delta).location(path).addColumn("id", "INT").execute()
    merge = table.merge(delta.range(1), "true").whenMatchedDelete()
    assert repr(merge) == f"DeltaMergeBuilder(MERGE INTO delta.`{path}`, 1 clauses; run by execute())"
    optimize = table.optimize().where("p = 1")
    assert repr(optimize).startswith(f"DeltaOptimizeBuilder(OPTIMIZE delta.`{path}` WHERE p = 1; run by ")
    builder = DeltaTable.create(delta).tableName("t").addColumn("id", "INT")
    assert repr(builder) == "DeltaTableBuilder(CREATE t, 1 columns; run by execute())"
