"""SQL statements that this version does not run on Delta tables are refused by name, and change nothing."""

from __future__ import annotations

import os

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import SqlSyntaxError

pytestmark = pytest.mark.spark

REFUSED = [
    ("INSERT OVERWRITE {t} PARTITION (p = 1) IF NOT EXISTS SELECT 1", "IF NOT EXISTS"),
    ("INSERT OVERWRITE DIRECTORY '/nowhere' USING delta SELECT * FROM {t}", "DIRECTORY"),
    ("TRUNCATE TABLE {t} PARTITION (p = 1)", "PARTITION"),
    ("ANALYZE TABLE {t} COMPUTE STATISTICS", "ANALYZE TABLE"),
    ("MSCK REPAIR TABLE {t}", "MSCK REPAIR TABLE"),
    ("LOAD DATA INPATH '/x' INTO TABLE {t}", "LOAD DATA"),
    ("CREATE INDEX i ON {t} (id)", "CREATE INDEX"),
    ("DESCRIBE TABLE {t} PARTITION (p = 1)", "PARTITION"),
]
"""Statements, and by what name they are refused. docs/reference/sql.md lists them."""


def test_statements_on_a_delta_table(delta: SparkSession, path: str) -> None:
    delta.range(3).write.format("delta").save(path)
    for statement, _ in REFUSED:
        # Where Spark's own analyzer refuses it first, Spark says why.
        with pytest.raises(PySparkException):
            delta.sql(statement.replace("{t}", f"delta.`{path}`"))
    assert not os.path.exists(f"{path}/_delta_log/{1:020}.json")


def test_a_mistake_is_reported_before_that_it_is_not_supported(delta: SparkSession, path: str) -> None:
    with pytest.raises(SqlSyntaxError, match="HOURS"):
        delta.sql(f"VACUUM delta.`{path}` RETAIN 5")
