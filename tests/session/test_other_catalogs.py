"""Catalogs under other names than `spark_catalog`: of folders, and a second name for the session's tables."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import ProtocolChangedException
from anabranch.errors.tables import InvalidIdentifierError, SchemaMissingError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def lake(native: SparkSession, warehouse: Path) -> SparkSession:
    """A session made and enabled before its catalog was set, with a table of two versions and one in the root."""
    spark = native.newSession()
    spark.conf.set("spark.sql.catalog.lake", "delta.DeltaCatalog")
    spark.conf.set("spark.sql.catalog.lake.warehouse", str(warehouse))
    spark.sql("CREATE SCHEMA lake.s")
    spark.sql("CREATE TABLE lake.s.t (id BIGINT, v STRING) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO lake.s.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TABLE lake.r USING delta AS SELECT 7 AS n")
    return spark


def rows(spark: SparkSession, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(text).collect())


def test_schemas_and_tables_are_folders(lake: SparkSession, warehouse: Path) -> None:
    assert (warehouse / "s" / "t" / "_delta_log").is_dir()
    assert (warehouse / "r" / "_delta_log").is_dir()
    (warehouse / "found").mkdir()
    lake.range(3).write.format("delta").save(str(warehouse / "found" / "elsewhere"))
    try:
        assert rows(lake, "SHOW SCHEMAS IN lake") == [("found",), ("s",)]
        assert rows(lake, "SHOW TABLES IN lake.found") == [("found", "elsewhere", False)]
        assert ("", "r", False) in rows(lake, "SHOW TABLES IN lake")
        assert lake.table("lake.found.elsewhere").count() == 3
    finally:
        lake.sql("DROP SCHEMA lake.found CASCADE")
    assert not (warehouse / "found").exists()


def test_rows_are_read_and_written_by_name(lake: SparkSession) -> None:
    lake.sql("CREATE TABLE lake.s.w (id BIGINT, v STRING)")
    lake.sql("INSERT INTO lake.s.w BY NAME SELECT 'x' AS v, 1L AS id")
    lake.sql("INSERT INTO lake.s.w SELECT * FROM lake.s.t")
    lake.sql("UPDATE lake.s.w SET v = 'u' WHERE id = 2")
    lake.sql("DELETE FROM lake.s.w WHERE v = 'x'")
    merged = (
        "MERGE INTO lake.s.w AS t USING (SELECT 3L AS id, 'm' AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(lake, merged) == [(1, 0, 0, 1)]
    assert rows(lake, "SELECT * FROM lake.s.w WHERE lake.s.w.id > 0") == [(1, "a"), (2, "u"), (3, "m")]
    lake.sql("INSERT INTO lake.s.w REPLACE WHERE id > 2 SELECT 9L, 'r'")
    lake.sql("INSERT OVERWRITE lake.s.w SELECT 4L, 'o'")
    assert rows(lake, "SELECT * FROM lake.s.w") == [(4, "o")]
    lake.sql("TRUNCATE TABLE lake.s.w")
    lake.sql("DROP TABLE lake.s.w")
    assert not lake.catalog.tableExists("lake.s.w")


def test_older_versions_and_changes(lake: SparkSession) -> None:
    assert rows(lake, "SELECT * FROM lake.s.t VERSION AS OF 0") == []
    assert rows(lake, "SELECT * FROM lake.s.t@v1") == [(1, "a"), (2, "b")]
    assert rows(lake, "SELECT id, _change_type FROM table_changes('lake.s.t', 1, 1)") == [(1, "insert"), (2, "insert")]
    lake.sql("RESTORE TABLE lake.s.t TO VERSION AS OF 1")


def test_tables_are_replaced_and_written_by_frames(lake: SparkSession) -> None:
    frame = lake.range(3)
    frame.writeTo("lake.s.f").create()
    frame.writeTo("lake.s.f").append()
    frame.write.format("delta").mode("append").saveAsTable("lake.s.f")
    frame.write.insertInto("lake.s.f")
    assert lake.table("lake.s.f").count() == 12
    frame.write.format("delta").mode("overwrite").saveAsTable("lake.s.f")
    frame.writeTo("lake.s.f").overwritePartitions()
    lake.sql("CREATE OR REPLACE TABLE lake.s.f AS SELECT 1 AS a, 2 AS b")
    assert rows(lake, "SELECT * FROM lake.s.f") == [(1, 2)]
    with pytest.raises(AnalysisException) as caught:
        lake.sql("CREATE TABLE lake.s.f AS SELECT 1 AS a")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    lake.sql("CREATE TABLE IF NOT EXISTS lake.s.f (z INT)")
    lake.sql("CREATE TABLE lake.s.cloned SHALLOW CLONE lake.s.f")
    assert rows(lake, "SELECT * FROM lake.s.cloned") == [(1, 2)]
    lake.sql("DROP TABLE lake.s.cloned")
    lake.sql("DROP TABLE lake.s.f")


def test_statements_that_describe(lake: SparkSession, warehouse: Path) -> None:
    detail = lake.sql("DESCRIBE DETAIL lake.s.t").first()
    assert detail is not None
    assert (detail.name, detail.location) == ("lake.s.t", f"file:{warehouse}/s/t")
    assert [row.operation for row in lake.sql("DESCRIBE HISTORY lake.s.t").tail(2)] == ["WRITE", "CREATE TABLE"]
    assert rows(lake, "SHOW COLUMNS IN lake.s.t") == [("id",), ("v",)]
    assert ("delta.enableChangeDataFeed", "true") in rows(lake, "SHOW TBLPROPERTIES lake.s.t")
    described = {row[0]: row[1] for row in lake.sql("DESCRIBE EXTENDED lake.s.t").collect()}
    assert (described["Type"], described["Location"]) == ("MANAGED", f"{warehouse}/s/t")
    statement = lake.sql("SHOW CREATE TABLE lake.s.t").first()
    assert statement is not None
    assert statement[0].startswith("CREATE TABLE `lake`.`s`.`t` (")
    assert "LOCATION" not in statement[0]
    assert '"catalog_name": "lake"' in str(lake.sql("DESCRIBE TABLE EXTENDED lake.s.t AS JSON").collect())
    assert rows(lake, "DESCRIBE SCHEMA lake.s")[0] == ("Catalog Name", "lake")


def test_definitions_change(lake: SparkSession) -> None:
    lake.sql("CREATE TABLE lake.s.d (a INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for change in (
        "ADD COLUMNS (b INT)",
        "RENAME COLUMN b TO c",
        "ALTER COLUMN a COMMENT 'hm'",
        "ADD CONSTRAINT positive CHECK (a > 0)",
        "SET TBLPROPERTIES ('k' = 'v')",
        "CLUSTER BY (a)",
    ):
        lake.sql(f"ALTER TABLE lake.s.d {change}")
    lake.sql("COMMENT ON TABLE lake.s.d IS 'about'")
    lake.sql("INSERT INTO lake.s.d VALUES (1, 2)")
    assert lake.table("lake.s.d").columns == ["a", "c"]
    for statement in ("OPTIMIZE lake.s.d", "VACUUM lake.s.d DRY RUN", "REORG TABLE lake.s.d APPLY (PURGE)"):
        lake.sql(statement)
    lake.sql("DROP TABLE lake.s.d")


def test_bare_names_in_the_current_schema(lake: SparkSession, path: str) -> None:
    lake.range(2).write.format("delta").save(path)
    lake.sql("USE lake.s")
    try:
        assert lake.table("t").count() == DeltaTable.forName(lake, "t").toDF().count() == 2
        assert [table.name for table in lake.catalog.listTables()] == ["t"]
        lake.sql("CREATE TABLE bare (a INT)")
        lake.sql("INSERT INTO bare VALUES (1)")
        assert lake.sql("OPTIMIZE bare").count() == lake.sql("DESCRIBE DETAIL s.bare").count() == 1
        lake.sql(f"INSERT INTO delta.`{path}` VALUES (9)")
        assert lake.table(f"delta.`{path}`").count() == 3
        lake.sql("DROP TABLE bare")
        lake.catalog.setCurrentCatalog("spark_catalog")
        lake.catalog.setCurrentCatalog("lake")
        assert lake.table("r").collect() == [(7,)]
        assert [schema.name for schema in lake.catalog.listDatabases()] == ["s"]
    finally:
        lake.sql("USE spark_catalog.default")


def test_delta_table(lake: SparkSession) -> None:
    made = DeltaTable.createIfNotExists(lake).tableName("lake.s.made").addColumn("a", "INT").execute()
    lake.sql("INSERT INTO lake.s.made VALUES (1), (2)")
    made.delete("a = 1")
    assert DeltaTable.forName(lake, "lake.s.made").toDF().collect() == [(2,)]
    assert DeltaTable.forName(lake, "lake.r").toDF().collect() == [(7,)]
    lake.sql("DROP TABLE lake.s.made")
    with pytest.raises(SchemaMissingError, match="CREATE SCHEMA"):
        DeltaTable.create(lake).tableName("lake.nope.t").addColumn("a", "INT").execute()


def test_views_streams_and_cached_rows(lake: SparkSession, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE lake.s.n (id BIGINT)")
    lake.sql("CREATE VIEW over_lake AS SELECT count(*) AS n FROM lake.s.n")
    lake.sql("CACHE TABLE lake.s.n")
    try:
        lake.sql("INSERT INTO lake.s.n VALUES (1), (2)")
        assert (lake.table("over_lake").collect(), lake.table("lake.s.n").count()) == ([(2,)], 2)
        for number, (source, sink) in enumerate([("lake.s.n", "lake.streamed"), ("lake.streamed", "lake.s.streamed")]):
            writer = lake.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path / str(number)))
            writer.format("delta").trigger(availableNow=True).toTable(sink).awaitTermination()
            assert lake.table(sink).count() == 2
    finally:
        lake.sql("UNCACHE TABLE IF EXISTS lake.s.n")
        lake.sql("DROP VIEW over_lake")
        for name in ("lake.s.n", "lake.streamed", "lake.s.streamed"):
            lake.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize("part", ["..", "a/b", "a\\\\b", ".hidden", "_delta_log"])
def test_names_that_are_no_folders_of_the_catalog(lake: SparkSession, warehouse: Path, part: str) -> None:
    before = sorted(warehouse.parent.rglob("*"))
    for statement in (
        f"CREATE TABLE lake.s.`{part}` (a INT)",
        f"CREATE TABLE lake.`{part}`.t (a INT)",
        f"CREATE TABLE lake.`{part}` AS SELECT 1 AS a",
        f"SELECT * FROM lake.`{part}`.t",
        f"DROP TABLE lake.s.`{part}`",
        f"CREATE SCHEMA lake.`{part}`",
    ):
        with pytest.raises(InvalidIdentifierError):
            lake.sql(statement)
    with pytest.raises(InvalidIdentifierError):
        DeltaTable.forName(lake, f"lake.s.`{part}`")
    assert sorted(warehouse.parent.rglob("*")) == before


def test_what_a_folder_cannot_be(lake: SparkSession) -> None:
    for statement, message in {
        "ALTER TABLE lake.s.t RENAME TO lake.s.other": "RENAME TO of lake.s.t",
        "ALTER TABLE lake.s.t SET LOCATION '/elsewhere'": "SET LOCATION of lake.s.t",
        "CREATE TABLE lake.s.x (a INT) LOCATION '/elsewhere'": "lake.s.x at another location than",
        "CREATE TABLE lake.s.x (a INT) USING parquet": "lake.s.x USING parquet",
        "CREATE OR REPLACE TABLE lake.s.t USING parquet AS SELECT 1 AS a": "lake.s.t USING parquet",
        "CREATE TABLE lake.s (a INT)": "lake.s, a schema",
        "CREATE SCHEMA lake.r": "lake.r, a Delta table",
        "CREATE SCHEMA lake.y COMMENT 'x'": "with a comment",
        "ALTER SCHEMA lake.s SET PROPERTIES (a = 'b')": "ALTER SCHEMA lake.s",
        "DROP SCHEMA lake.s": "SCHEMA_NOT_EMPTY",
        "CREATE TABLE lake.nope.x (a INT)": "SCHEMA_NOT_FOUND",
        "CREATE TABLE lake.r.x AS SELECT 1 AS a": "SCHEMA_NOT_FOUND",
        "SHOW TABLES IN lake.nope": "SCHEMA_NOT_FOUND",
        "CREATE TABLE lake.a.b.c (a INT)": "4 parts",
        "SELECT * FROM lake.s.nope": "TABLE_OR_VIEW_NOT_FOUND",
        "CREATE VIEW lake.s.v AS SELECT 1": "does not support views",
    }.items():
        with pytest.raises((DeltaError, AnalysisException), match=message):
            lake.sql(statement)
    assert lake.table("lake.s.t").count() == 2
    with pytest.raises(UnsupportedOperationError, match="elsewhere"):
        lake.range(1).write.format("delta").option("path", "/elsewhere").saveAsTable("lake.s.x")


def test_of_many_that_make_a_table_one_wins(lake: SparkSession) -> None:
    barrier = threading.Barrier(3)
    sessions = [lake.newSession() for _ in range(3)]

    def made(session: SparkSession) -> str:
        session.conf.set("spark.sql.catalog.lake", "delta.DeltaCatalog")
        session.conf.set("spark.sql.catalog.lake.warehouse", lake.conf.get("spark.sql.catalog.lake.warehouse"))
        barrier.wait()
        try:
            session.sql("CREATE TABLE lake.s.raced (a INT)")
        except ProtocolChangedException:
            return "lost"
        except AnalysisException as error:
            assert error.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
            return "lost"
        return "made"

    with ThreadPoolExecutor(max_workers=3) as pool:
        outcomes = sorted(pool.map(made, sessions))
    assert outcomes == ["lost"] * 2 + ["made"]
    lake.sql("DROP TABLE lake.s.raced")


def test_a_schema_of_the_session_called_as_the_catalog(lake: SparkSession, warehouse: Path) -> None:
    lake.sql("CREATE SCHEMA spark_catalog.lake")
    try:
        lake.sql("CREATE TABLE spark_catalog.lake.r USING delta AS SELECT 1 AS a")
        lake.sql("ALTER TABLE spark_catalog.lake.r ADD COLUMN b INT")
        lake.range(2).write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable("lake.r2")
        assert lake.table("spark_catalog.lake.r").columns == ["a", "b"]
        assert lake.table("lake.r").columns == ["n"]
        assert (warehouse / "r2").is_dir()
        lake.sql("DROP TABLE lake.r2")
        lake.sql("DROP TABLE spark_catalog.lake.r")
        assert rows(lake, "SHOW TABLES IN spark_catalog.lake") == []
    finally:
        lake.sql("DROP SCHEMA spark_catalog.lake CASCADE")


def test_without_a_folder_it_is_a_second_name(lake: SparkSession) -> None:
    lake.conf.set("spark.sql.catalog.second", "delta.DeltaCatalog")
    lake.sql("CREATE TABLE second.default.twice (a INT) USING delta")
    try:
        assert lake.table("spark_catalog.default.twice").collect() == []
        assert DeltaTable.forName(lake, "second.default.twice").toDF().collect() == []
    finally:
        lake.sql("DROP TABLE second.default.twice")
