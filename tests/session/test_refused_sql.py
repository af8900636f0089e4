"""SQL statements that would go past a Delta table's log are refused by name, and change nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnsupportedOperationError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("INSERT INTO {t} VALUES (1)", "INSERT"),
        ("INSERT OVERWRITE TABLE {t} SELECT 1", "INSERT"),
        ("-- a comment\n /* and one */ DELETE FROM {t} WHERE id = 1", "DELETE"),
        ("UPDATE {t} SET id = 2", "UPDATE"),
        ("MERGE INTO {t} USING (SELECT 1 AS id) s ON false WHEN NOT MATCHED THEN INSERT *", "MERGE"),
        ("TRUNCATE TABLE {t}", "TRUNCATE TABLE"),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')", "ALTER TABLE"),
        ("CREATE TABLE other (id INT) USING delta", "CREATE TABLE"),
        ("CREATE OR REPLACE TABLE {t} AS SELECT 1 AS id", "CREATE TABLE"),
        ("CREATE TEMP VIEW v AS SELECT * FROM {t}", "CREATE VIEW"),
        ("OPTIMIZE {t}", "OPTIMIZE"),
        ("VACUUM {t}", "VACUUM"),
        ("DESCRIBE HISTORY {t}", "DESCRIBE HISTORY"),
        ("RESTORE TABLE {t} TO VERSION AS OF 0", "RESTORE"),
    ],
)
def test_statements_on_a_delta_table(delta: SparkSession, path: str, statement: str, name: str) -> None:
    delta.range(3).write.format("delta").save(path)
    with pytest.raises(UnsupportedOperationError, match=name):
        delta.sql(statement.replace("{t}", f"delta.`{path}`"))
    assert delta.read.format("delta").load(path).count() == 3


def test_statements_on_other_tables_run(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE plain_parquet (id INT) USING parquet LOCATION '{path}'")
    try:
        delta.sql("INSERT INTO plain_parquet VALUES (1)")
        delta.sql("ALTER TABLE plain_parquet SET TBLPROPERTIES ('a' = 'b')")
        assert delta.sql("SELECT * FROM plain_parquet").collect() == [(1,)]
    finally:
        delta.sql("DROP TABLE plain_parquet")
