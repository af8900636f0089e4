"""The catalog of Hive in the place of Spark's built-in one, which is chosen once for a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from start import FOLDER, started

import anabranch
from anabranch.tables import DeltaTable

spark = anabranch.enable(
    started(
        **{
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={FOLDER}/metastore;create=true",
        }
    )
)
assert spark.conf.get("spark.sql.catalogImplementation") == "hive"


def rows(query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def described(table: str, about: str) -> str:
    """What DESCRIBE EXTENDED says of it."""
    row = spark.sql(f"DESCRIBE EXTENDED {table}").where(f"col_name = '{about}'").first()
    return "" if row is None else str(row.data_type)


def entry(table: str) -> Any:
    """The properties in Hive's own metastore, read without our catalogs."""
    session: Any = spark._jsparkSession
    return session.sharedState().externalCatalog().getTable("default", table)


def tables_are_made() -> None:
    columns = "id BIGINT COMMENT 'the key', s STRUCT<x: INT, Y: STRING>, Part DATE"
    spark.sql(f"CREATE TABLE made ({columns}) USING delta PARTITIONED BY (Part) COMMENT 'c' TBLPROPERTIES ('k' = 'v')")
    spark.sql("INSERT INTO made VALUES (1, named_struct('x', 2, 'Y', 'z'), DATE'2024-01-31')")
    assert rows("SELECT id, s.Y, Part FROM made WHERE Part > '2024-01-01'")[0][:2] == (1, "z")
    assert spark.table("made").columns == ["id", "s", "Part"]
    assert (described("made", "Provider"), described("made", "Type"), described("made", "Comment")) == (
        "delta",
        "MANAGED",
        "c",
    )
    assert entry("made").provider().get() == "delta"
    spark.sql("CREATE TABLE chosen USING delta AS SELECT id, 'a' AS v FROM range(3)")
    spark.range(5).write.format("delta").saveAsTable("saved")
    spark.range(2).write.format("delta").mode("append").saveAsTable("saved")
    spark.range(4).write.format("delta").mode("overwrite").saveAsTable("saved")
    spark.sql(f"CREATE TABLE outside USING delta LOCATION '{FOLDER}/outside' AS SELECT 1 AS a")
    assert (described("outside", "Type"), rows("SELECT * FROM outside")) == ("EXTERNAL", [(1,)])
    assert rows("SELECT (SELECT count(*) FROM chosen), (SELECT count(*) FROM saved)") == [(3, 4)]
    spark.sql("CREATE OR REPLACE TABLE chosen USING delta AS SELECT 7 AS other")
    assert rows("SELECT other FROM chosen") == [(7,)]
    spark.createDataFrame([(1, "x")], "k INT, w STRING").writeTo("written").using("delta").create()
    assert spark.table("written").columns == ["k", "w"]


def tables_are_changed_and_described() -> None:
    assert {row[1] for row in rows("SHOW TABLES")} == {"made", "chosen", "saved", "outside", "written"}
    assert {table.name for table in spark.catalog.listTables()} == {"made", "chosen", "saved", "outside", "written"}
    spark.sql("ALTER TABLE written ADD COLUMNS (n BIGINT COMMENT 'new')")
    spark.sql("ALTER TABLE written SET TBLPROPERTIES ('mine' = '1', 'delta.columnMapping.mode' = 'name')")
    spark.sql("ALTER TABLE written RENAME COLUMN w TO Words")
    spark.sql("COMMENT ON TABLE written IS 'what it is'")
    spark.sql("INSERT INTO written BY NAME SELECT 2 AS n, 'y' AS words, 2 AS k")
    assert sorted(rows("SELECT k, Words, n FROM written"))[1] == (2, "y", 2)
    columns = [row[:2] for row in rows("DESCRIBE written")]
    assert columns == [("k", "int"), ("Words", "string"), ("n", "bigint")]
    assert ("mine", "1") in rows("SHOW TBLPROPERTIES written")
    assert spark.catalog.getTable("written").description == "what it is"
    assert rows("SHOW COLUMNS IN written") == [("k",), ("Words",), ("n",)]
    assert "Words" in rows("SHOW CREATE TABLE written")[0][0]
    assert rows("SHOW PARTITIONS made")[0][0] is not None
    spark.sql("ALTER TABLE written RENAME TO renamed")
    assert rows("DESCRIBE HISTORY renamed")[0][0] == DeltaTable.forName(spark, "renamed").history(1).first()[0]
    spark.sql(f"CREATE TABLE delta.`{FOLDER}/elsewhere` SHALLOW CLONE renamed")
    spark.sql(f"DELETE FROM delta.`{FOLDER}/elsewhere` WHERE k = 1")
    spark.sql(f"ALTER TABLE renamed SET LOCATION '{FOLDER}/elsewhere'")
    assert rows("SELECT k FROM renamed") == [(2,)]
    assert described("renamed", "Location").endswith("/elsewhere")


def rows_are_changed() -> None:
    assert rows("UPDATE saved SET id = id + 10 WHERE id > 1") == [(2,)]
    assert rows("DELETE FROM saved WHERE id = 0") == [(1,)]
    merge = "MERGE INTO saved t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN DELETE"
    assert rows(merge)[0][0] == 1
    assert sorted(rows("SELECT * FROM saved")) == [(12,), (13,)]
    assert rows("SELECT count(*) FROM saved VERSION AS OF 2") == [(4,)]
    spark.sql("OPTIMIZE saved")
    spark.sql("TRUNCATE TABLE saved")
    assert rows("SELECT * FROM saved") == []


def views_follow() -> None:
    spark.sql("CREATE VIEW seen AS SELECT other, count(*) AS n FROM chosen GROUP BY other")
    spark.sql("INSERT INTO chosen VALUES (7), (8)")
    assert sorted(rows("SELECT * FROM seen")) == [(7, 2), (8, 1)]
    assert "seen" in {row[1] for row in rows("SHOW VIEWS")}
    spark.sql("DROP VIEW seen")


def other_formats_are_sparks() -> None:
    spark.sql("CREATE TABLE plain (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO plain VALUES (1, 1), (2, 2)")
    spark.sql("CREATE TABLE hives (id BIGINT) STORED AS PARQUET")
    spark.sql("INSERT INTO hives SELECT id FROM plain")
    spark.sql("INSERT INTO chosen SELECT id FROM hives")
    assert rows("SELECT count(*) FROM plain JOIN hives USING (id) JOIN chosen ON other = id") == [(2,)]
    spark.sql("ALTER TABLE plain ADD PARTITION (p = 3)")
    assert rows("SHOW PARTITIONS plain") == [("p=1",), ("p=2",), ("p=3",)]
    spark.sql("CONVERT TO DELTA plain")
    assert rows("DELETE FROM plain WHERE p = 1") == [(1,)]
    assert (described("plain", "Provider"), rows("SELECT * FROM plain")) == ("delta", [(2, 2)])
    spark.sql("CREATE TABLE copied LIKE hives USING delta")
    spark.sql("INSERT INTO copied SELECT * FROM hives")
    assert sorted(rows("SELECT * FROM copied")) == [(1,), (2,)]


def databases() -> None:
    spark.sql("CREATE DATABASE other")
    spark.sql("CREATE TABLE other.t (a INT) USING delta")
    spark.sql("INSERT INTO other.t VALUES (1)")
    assert rows("SELECT other.t.a FROM other.t") == [(1,)]
    assert spark.newSession().table("spark_catalog.other.t").count() == 1
    spark.sql("DROP DATABASE other CASCADE")
    assert not Path(FOLDER, "warehouse", "other.db", "t").exists()


def tables_are_dropped() -> None:
    for table in ("made", "chosen", "saved", "outside", "renamed", "plain", "hives", "copied"):
        spark.sql(f"DROP TABLE {table}")
        assert not spark.catalog.tableExists(table)
        try:
            spark.table(table)
        except AnalysisException as error:
            assert error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND", error
        else:
            raise AssertionError(table)
    assert rows("SHOW TABLES") == []
    assert not Path(FOLDER, "warehouse", "saved").exists()
    assert Path(FOLDER, "outside", "_delta_log").exists()


tables_are_made()
tables_are_changed_and_described()
rows_are_changed()
views_follow()
other_formats_are_sparks()
databases()
tables_are_dropped()
spark.stop()
print("done")
