"""Every statement that Spark's grammar has, on a Delta table: it works, or it is refused by name; nothing goes around the log."""

from __future__ import annotations

import itertools
import os
import uuid
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError

pytestmark = pytest.mark.spark

WORKS = "works"
REFUSED = "refused by us"
BY_SPARK = "refused by Spark, in words that fit"

SAMPLES: dict[str, list[tuple[str, str]]] = {
    "AddTableColumns": [("ALTER TABLE {t} ADD COLUMNS (more INT)", WORKS)],
    "AddTableConstraint": [("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id >= 0)", WORKS)],
    "AddTablePartition": [("ALTER TABLE {t} ADD PARTITION (p = 9)", REFUSED)],
    "AlterClusterBy": [("ALTER TABLE {t} CLUSTER BY NONE", WORKS)],
    "AlterTableAlterColumn": [("ALTER TABLE {t} ALTER COLUMN word COMMENT 'x'", WORKS)],
    "AlterTableCollation": [("ALTER TABLE {t} DEFAULT COLLATION UTF8_LCASE", REFUSED)],
    "AlterViewQuery": [("ALTER VIEW {t} AS SELECT * FROM {t}", BY_SPARK)],
    "AlterViewSchemaBinding": [("ALTER VIEW {t} WITH SCHEMA EVOLUTION", BY_SPARK)],
    "Analyze": [("ANALYZE TABLE {t} COMPUTE STATISTICS", REFUSED),
                ("ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS id", REFUSED)],
    "AnalyzeTables": [],
    "CacheTable": [("CACHE LAZY TABLE {t}", WORKS)],
    "Call": [],
    "ClearCache": [("CLEAR CACHE", WORKS)],
    "CloseCursorStatement": [],
    "CommentColumn": [("COMMENT ON COLUMN {t}.id IS 'the key'", WORKS)],
    "CommentNamespace": [],
    "CommentTable": [("COMMENT ON TABLE {t} IS 'x'", WORKS)],
    "CreateFlowAutoCdc": [],
    "CreateFunction": [],
    "CreateIndex": [("CREATE INDEX i ON {t} (id)", REFUSED)],
    "CreateMetricView": [],
    "CreateNamespace": [],
    "CreatePipelineDataset": [("CREATE MATERIALIZED VIEW m AS SELECT * FROM {t}", BY_SPARK)],
    "CreatePipelineInsertIntoFlow": [("CREATE FLOW f AS INSERT INTO {t} BY NAME SELECT * FROM {t}", BY_SPARK)],
    "CreateTable": [("CREATE TABLE IF NOT EXISTS {t} (id INT) USING delta", WORKS)],
    "CreateTableLike": [("CREATE TABLE {o} LIKE {t}", WORKS)],
    "CreateTempViewUsing": [("CREATE OR REPLACE TEMP VIEW {v} USING delta OPTIONS (path '{p}')", WORKS)],
    "CreateUserDefinedFunction": [
        ("CREATE TEMPORARY FUNCTION f() RETURNS BIGINT RETURN (SELECT count(*) FROM {t})", WORKS)],
    "CreateVariable": [("DECLARE OR REPLACE VARIABLE n BIGINT DEFAULT (SELECT count(*) FROM {t})", BY_SPARK)],
    "CreateView": [("CREATE OR REPLACE TEMP VIEW {v} AS SELECT * FROM {t}", WORKS)],
    "DeclareCursorStatement": [],
    "DescribeFunction": [],
    "DescribeNamespace": [],
    "DescribeProcedure": [],
    "DescribeQuery": [("DESCRIBE QUERY SELECT * FROM {t}", WORKS)],
    "DescribeRelation": [("DESCRIBE {t}", WORKS), ("DESCRIBE EXTENDED {t} AS JSON", WORKS),
                         ("DESCRIBE {t} PARTITION (p = 1)", REFUSED)],
    "DmlStatement": [
        ("DELETE FROM {t} WHERE id = 0", WORKS), ("UPDATE {t} SET word = 'x'", WORKS),
        ("MERGE INTO {t} USING (SELECT 1L AS k) s ON id = k WHEN MATCHED THEN DELETE", WORKS),
        ("INSERT INTO {t} SELECT 7L, 'x', 1, 2", WORKS), ("INSERT OVERWRITE {t} SELECT 7L, 'x', 1, 2", WORKS),
        ("INSERT OVERWRITE {t} PARTITION (p = 1) IF NOT EXISTS SELECT 1L, 'a'", REFUSED),
        ("INSERT OVERWRITE DIRECTORY '{p} 3' USING delta SELECT * FROM {t}", REFUSED),
        ("FROM {t} INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *", WORKS),
    ],
    "DropFunction": [],
    "DropIndex": [("DROP INDEX i ON {t}", REFUSED)],
    "DropNamespace": [],
    "DropTable": [("DROP TABLE IF EXISTS {o}", WORKS)],
    "DropTableColumns": [("ALTER TABLE {t} DROP COLUMN more", REFUSED)],
    "DropTableConstraint": [("ALTER TABLE {t} DROP CONSTRAINT c", WORKS)],
    "DropTablePartitions": [("ALTER TABLE {t} DROP PARTITION (p = 1)", REFUSED)],
    "DropVariable": [],
    "DropView": [("DROP VIEW {t}", BY_SPARK), ("DROP VIEW IF EXISTS {v}", WORKS)],
    "Explain": [("EXPLAIN SELECT * FROM {t}", WORKS), ("EXPLAIN FORMATTED DELETE FROM {t}", WORKS)],
    "FailNativeCommand": [("ALTER TABLE {t} TOUCH", REFUSED)],
    "FetchCursorStatement": [],
    "HiveChangeColumn": [("ALTER TABLE {t} CHANGE COLUMN id id BIGINT COMMENT 'x'", WORKS)],
    "HiveReplaceColumns": [("ALTER TABLE {t} REPLACE COLUMNS (id BIGINT, word STRING, p INT)", REFUSED)],
    "LoadData": [("LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE {t}", REFUSED)],
    "ManageResource": [],
    "OpenCursorStatement": [],
    "RecoverPartitions": [("ALTER TABLE {t} RECOVER PARTITIONS", REFUSED)],
    "RefreshFunction": [],
    "RefreshResource": [],
    "RefreshTable": [("REFRESH TABLE {t}", WORKS)],
    "RenameTable": [("ALTER TABLE {t} RENAME TO {t}", BY_SPARK)],
    "RenameTableColumn": [("ALTER TABLE {t} RENAME COLUMN word TO w", REFUSED)],
    "RenameTablePartition": [("ALTER TABLE {t} PARTITION (p = 1) RENAME TO PARTITION (p = 2)", REFUSED)],
    "RepairTable": [("MSCK REPAIR TABLE {t}", REFUSED), ("REPAIR TABLE {t} SYNC PARTITIONS", REFUSED)],
    "ReplaceTable": [("CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (p) AS SELECT * FROM {t}", WORKS)],
    "SetCatalog": [],
    "SetNamespaceCollation": [],
    "SetNamespaceLocation": [],
    "SetNamespaceProperties": [],
    "SetTableLocation": [("ALTER TABLE {t} PARTITION (p = 1) SET LOCATION '/x'", REFUSED)],
    "SetTableProperties": [("ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')", WORKS)],
    "SetTableSerDe": [("ALTER TABLE {t} SET SERDEPROPERTIES ('k' = 'v')", REFUSED)],
    "ShowCatalogs": [],
    "ShowCollations": [],
    "ShowColumns": [("SHOW COLUMNS IN {t}", WORKS)],
    "ShowCreateTable": [("SHOW CREATE TABLE {t}", WORKS)],
    "ShowCurrentNamespace": [],
    "ShowFunctions": [],
    "ShowNamespaces": [],
    "ShowPartitions": [("SHOW PARTITIONS {t}", WORKS)],
    "ShowProcedures": [],
    "ShowTableExtended": [("SHOW TABLE EXTENDED LIKE '{n}'", WORKS),
                          ("SHOW TABLE EXTENDED LIKE '{n}' PARTITION (p = 1)", BY_SPARK)],
    "ShowTables": [("SHOW TABLES LIKE '{n}'", WORKS)],
    "ShowTblProperties": [("SHOW TBLPROPERTIES {t}", WORKS)],
    "ShowViews": [("SHOW VIEWS", WORKS)],
    "StatementDefault": [("SELECT * FROM {t}", WORKS), ("TABLE {t}", WORKS), ("FROM {t} |> WHERE id = 1", WORKS),
                         ("SELECT * FROM STREAM {t}", BY_SPARK if pyspark.__version__.startswith("4.0") else WORKS), ("SELECT * FROM {t} CHANGES FROM VERSION 0", REFUSED)],
    "TruncateTable": [("TRUNCATE TABLE {t}", WORKS), ("TRUNCATE TABLE {t} PARTITION (p = 1)", REFUSED)],
    "UncacheTable": [("UNCACHE TABLE IF EXISTS {t}", WORKS)],
    "UnsetNamespaceProperties": [],
    "UnsetTableProperties": [("ALTER TABLE {t} UNSET TBLPROPERTIES ('k')", WORKS)],
    "Use": [],
    "UseNamespace": [],
    "VisitExecuteImmediate": [("EXECUTE IMMEDIATE 'DELETE FROM {t} WHERE id = 1'", WORKS)],
}  # fmt: skip
"""By alternative of the rule `statement`; empty for those that name no table."""


def test_every_statement(native: SparkSession, path: str) -> None:
    """One after the other, on one table; what is refused changes nothing."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    rows = "SELECT id, CAST(id AS STRING) AS word, CAST(id % 2 AS INT) AS p FROM range(0, 4, 1, 1)"
    native.sql(f"CREATE TABLE {name} USING delta PARTITIONED BY (p) LOCATION '{path}' AS {rows}")
    wrong = []
    for written, expected in itertools.chain.from_iterable(SAMPLES.values()):
        text = written.replace("{t}", name).replace("{n}", name).replace("{p}", path)
        text = text.replace("{v}", f"{name}_v").replace("{o}", f"{name}_o")
        before = sorted(os.listdir(f"{path}/_delta_log"))
        actual, message = outcome(native, text)
        changed = sorted(os.listdir(f"{path}/_delta_log")) != before
        refused = expected == REFUSED and actual == BY_SPARK  # Its analyzer comes first.
        if not (actual == expected or refused) or (changed and expected != WORKS):
            wrong.append((text, expected, actual, message, changed))
    native.sql(f"DROP TABLE {name}")
    assert not wrong, "\n".join(map(str, wrong))


def outcome(spark: SparkSession, text: str) -> tuple[str, str]:
    try:
        spark.sql(text)
    except DeltaError as error:
        return REFUSED, str(error)
    except PySparkException as error:
        return BY_SPARK, str(error)[:300]
    return WORKS, ""


def test_no_statement_of_the_grammar_is_forgotten(native: SparkSession) -> None:
    jvm: Any = native.sparkContext._jvm
    parser = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.parser.SqlBaseParser")
    statements = {
        context.getSimpleName().removesuffix("Context")
        for context in parser.getDeclaredClasses()
        if context.getSuperclass() is not None and context.getSuperclass().getSimpleName() == "StatementContext"
    }
    assert statements - SAMPLES.keys() == set()
