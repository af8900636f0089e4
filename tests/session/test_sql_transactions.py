"""Several statements as one commit."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.errors.commits import TransactionStateError
from session.documented import statement

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(delta: SparkSession, name: str) -> str:
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT id FROM range(10)")
    return name


def count(delta: SparkSession, table: str) -> int:
    return delta.table(table).count()


@statement("BEGIN TRANSACTION [ON t]")
@statement("COMMIT, ROLLBACK [TRANSACTION | WORK]")
def test_transactions(delta: SparkSession, numbers: str) -> None:
    """The statements of a session on one table between them are [one commit](../howto/transactions.md), whose version
    COMMIT returns, or none after ROLLBACK."""
    for sql in ("COMMIT", "ROLLBACK", "SAVEPOINT a"):
        with pytest.raises(TransactionStateError, match="no transaction"):
            delta.sql(sql)
    delta.sql(f"BEGIN TRANSACTION ON {numbers}")
    with pytest.raises(TransactionStateError, match="has a transaction"):
        delta.sql("START TRANSACTION")
    delta.sql(f"DELETE FROM {numbers} WHERE id = 1")
    delta.sql(f"INSERT INTO {numbers} VALUES (100), (101)")
    assert count(delta, numbers) == 11
    assert delta.sql("COMMIT TRANSACTION").collect() == [(1,)]
    delta.sql("BEGIN TRANSACTION")
    delta.sql(f"DELETE FROM {numbers}")
    delta.sql("ROLLBACK WORK")
    assert count(delta, numbers) == 11
    delta.sql("/* reads only */ BEGIN TRANSACTION;")
    assert delta.sql("COMMIT").collect() == [(None,)]
    for mistake in ("BEGIN TRANSACTION t", "COMMIT now", "ROLLBACK TO", "SAVEPOINT"):
        with pytest.raises(SqlSyntaxError):
            delta.sql(mistake)


@statement("SAVEPOINT s")
@statement("ROLLBACK TO [SAVEPOINT] s")
@statement("RELEASE [SAVEPOINT] s")
def test_savepoints(delta: SparkSession, numbers: str) -> None:
    """Undoes the statements of a transaction since the savepoint, and the savepoints since."""
    delta.sql("BEGIN TRANSACTION")
    delta.sql(f"DELETE FROM {numbers} WHERE id = 1")
    delta.sql("SAVEPOINT First")
    delta.sql(f"DELETE FROM {numbers} WHERE id = 2")
    delta.sql("SAVEPOINT second")
    delta.sql(f"DELETE FROM {numbers}")
    delta.sql("ROLLBACK TO SAVEPOINT second")
    assert count(delta, numbers) == 8
    delta.sql("ROLLBACK TO first")
    assert count(delta, numbers) == 9
    with pytest.raises(TransactionStateError, match="no savepoint second"):
        delta.sql("ROLLBACK TO second")
    delta.sql("RELEASE SAVEPOINT first")
    with pytest.raises(TransactionStateError, match="no savepoint first"):
        delta.sql("ROLLBACK TO first")
    delta.sql("COMMIT")
    assert count(delta, numbers) == 9


@statement("BEGIN ATOMIC statements END")
def test_a_script_is_atomic(delta: SparkSession, numbers: str) -> None:
    """Runs one of Spark's SQL scripts as a transaction, and returns the version. An error that the script does not
    handle rolls all of it back. `spark.anabranch.conflictRetries` runs it again after a conflict."""
    delta.sql("SET spark.sql.scripting.enabled = true")
    script = f"BEGIN ATOMIC DELETE FROM {numbers} WHERE id = 1; INSERT INTO {numbers} VALUES (100), (101); END"
    assert delta.sql(script).collect() == [(1,)]
    failing = f"BEGIN ATOMIC DELETE FROM {numbers}; SELECT raise_error('half way'); END"
    with pytest.raises(PySparkException, match="half way"):
        delta.sql(failing).collect()
    assert count(delta, numbers) == 11
    assert delta.sql(f"DESCRIBE HISTORY {numbers}").count() == 2
