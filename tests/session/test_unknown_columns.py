"""What a statement says of a column that its table has not: the columns that it has, and none of ours."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

STATEMENTS = [
    "UPDATE {t} SET nope = 1",
    "UPDATE {t} SET amount = nope",
    "UPDATE {t} SET amount = 1 WHERE nope = 1",
    "DELETE FROM {t} WHERE nope = 1",
    "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.nope = s.k WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET amount = s.nope",
    "SELECT nope FROM {t}",
]


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """A table with a hidden row, so that scans have columns of their own."""
    delta.range(5).selectExpr("id", "id AS amount").coalesce(1).write.format("delta").save(path)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 4")
    return path


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_names_no_column_of_ours(delta: SparkSession, table: str, statement: str) -> None:
    with pytest.raises(AnalysisException, match="nope") as raised:
        delta.sql(statement.format(t=f"delta.`{table}`")).collect()
    # Behind it Spark shows a plan, or what its server did.
    assert "__anabranch" not in str(raised.value).partition("SQLSTATE")[0]


def test_delta_table_names_no_column_of_ours(delta: SparkSession, table: str) -> None:
    made = DeltaTable.forPath(delta, table)
    source = delta.range(1).toDF("k").alias("s")
    for call in (
        lambda: made.delete("nope = 1"),
        lambda: made.update("nope = 1", {"amount": "1"}),
        lambda: made.alias("t").merge(source, "t.nope = s.k").whenMatchedDelete().execute(),
    ):
        with pytest.raises(AnalysisException, match="nope") as raised:
            call()
        assert "__anabranch" not in str(raised.value).partition("SQLSTATE")[0]
