"""SQL statements that this version does not run on Delta tables are refused by name, and change nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.sql import SqlSyntaxError

pytestmark = pytest.mark.spark

REFUSED = [
    ("VACUUM {t}", "VACUUM"),
    ("VACUUM {t} LITE RETAIN 24 HOURS DRY RUN", "VACUUM"),
    ("RESTORE TABLE {t} TO VERSION AS OF 0", "RESTORE"),
    ("CONVERT TO DELTA parquet.`/nowhere`", "CONVERT TO DELTA"),
    ("GENERATE symlink_format_manifest FOR TABLE {t}", "GENERATE"),
    ("CREATE TABLE other SHALLOW CLONE {t}", "SHALLOW CLONE"),
    ("REORG TABLE {t} APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))", "UPGRADE UNIFORM"),
    ("OPTIMIZE {t} FULL", "FULL"),
    ("CREATE TEMP VIEW v AS SELECT * FROM {t}", "CREATE VIEW"),
]
"""Statements, and by what name they are refused. docs/reference/sql.md lists them."""


@pytest.mark.parametrize(("statement", "name"), REFUSED)
def test_statements_on_a_delta_table(delta: SparkSession, path: str, statement: str, name: str) -> None:
    delta.range(3).write.format("delta").save(path)
    with pytest.raises(UnsupportedOperationError, match=name):
        delta.sql(statement.replace("{t}", f"delta.`{path}`"))
    assert delta.read.format("delta").load(path).count() == 3


def test_a_mistake_is_told_before_that_it_is_not_supported(delta: SparkSession, path: str) -> None:
    with pytest.raises(SqlSyntaxError, match="HOURS"):
        delta.sql(f"VACUUM delta.`{path}` RETAIN 5")


def test_statements_on_other_tables_run(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE plain_parquet (id INT) USING parquet LOCATION '{path}'")
    try:
        delta.sql("INSERT INTO plain_parquet VALUES (1)")
        delta.sql("WITH q AS (SELECT 2 AS id) INSERT INTO plain_parquet SELECT * FROM q")
        delta.sql("ALTER TABLE plain_parquet SET TBLPROPERTIES ('a' = 'b')")
        delta.sql("COMMENT ON TABLE plain_parquet IS 'mine'")
        assert sorted(delta.sql("SELECT * FROM plain_parquet").collect()) == [(1,), (2,)]
        assert delta.sql("SHOW TBLPROPERTIES plain_parquet ('a')").first().value == "b"
        assert delta.sql("DESCRIBE plain_parquet").first().col_name == "id"
    finally:
        delta.sql("DROP TABLE plain_parquet")
