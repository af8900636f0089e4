"""Where a transaction ends: a block that ends it itself, other sessions in the block, and frames that are older than it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from anabranch import transact, transaction
from anabranch.errors.commits import TransactionStateError
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = [pytest.mark.spark, classic]


@pytest.fixture
def table(delta: SparkSession, path: str) -> Iterator[str]:
    """Ten ids; a test that fails leaves no transaction open."""
    delta.range(0, 10, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    yield f"delta.`{path}`"
    with contextlib.suppress(TransactionStateError):
        delta.sql("ROLLBACK")


def ids(spark: SparkSession, table: str) -> set[int]:
    return {row.id for row in spark.table(table).collect()}


def operations(spark: SparkSession, table: str) -> list[str]:
    history = spark.sql(f"DESCRIBE HISTORY {table}").orderBy("version").collect()
    return [row.operation for row in history[1:]]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "commit", "rollback"])
def test_a_block_may_end_its_transaction_itself(delta: SparkSession, path: str, table: str, end: str) -> None:
    """The end of the block raises nothing: a program that sees an error repeats what is committed."""
    with transaction(delta, path) as tx:
        delta.sql(f"DELETE FROM {table} WHERE id < 2")
        if end.isupper():
            delta.sql(end)
        else:
            getattr(tx, end)()
        assert len(ids(delta, table)) == (8 if end.lower() == "commit" else 10)
        delta.sql(f"DELETE FROM {table} WHERE id = 9")
    assert tx.version == (1 if end == "commit" else None)
    assert operations(delta, table) == (["TRANSACTION", "DELETE"] if end.lower() == "commit" else ["DELETE"])
    assert 9 not in ids(delta, table)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_after_the_end_the_exception_of_the_block_is_raised(
    delta: SparkSession, path: str, table: str, end: str
) -> None:
    def work() -> None:
        with transaction(delta, path):
            delta.sql(f"DELETE FROM {table} WHERE id < 2")
            delta.sql(end)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert len(ids(delta, table)) == (8 if end == "COMMIT" else 10)


def test_another_session_is_another_transaction(delta: SparkSession, path: str, table: str) -> None:
    """What a block does by another session is committed at once, and is not in the block's version."""
    other = delta.newSession()
    with contextlib.suppress(ZeroDivisionError), transaction(delta, path):
        delta.sql(f"DELETE FROM {table} WHERE id = 0")
        other.sql(f"INSERT INTO {table} VALUES (100)")
        DeltaTable.forPath(other, path).delete("id = 1")
        other.range(101, 102).write.format("delta").mode("append").save(path)
        assert ids(other, table) == {*range(10), 100, 101} - {1}
        assert ids(delta, table) == {*range(1, 10)}
        raise ZeroDivisionError
    assert ids(delta, table) == {*range(10), 100, 101} - {1}
    assert operations(delta, table) == ["WRITE", "DELETE", "WRITE"]


def test_another_sessions_change_of_the_same_row_is_a_conflict(delta: SparkSession, path: str, table: str) -> None:
    other, calls = delta.newSession(), 0

    def work(_: object) -> None:
        nonlocal calls
        calls += 1
        delta.sql(f"DELETE FROM {table} WHERE id = 2 OR id = {calls}")
        # In the same thread, and again with each execution.
        other.sql(f"DELETE FROM {table} WHERE id = {calls}")

    with pytest.raises(DeltaConcurrentModificationException, match=r"anabranch\.transact\("):
        transact(delta, path, work, conflict_retries=2)
    assert calls == 3
    assert ids(delta, table) == {0, *range(4, 10)}


def test_a_frame_that_has_run_keeps_its_rows_in_collect(delta: SparkSession, path: str, table: str) -> None:
    """Spark plans a frame once for `collect`, so the same is true outside. A frame of the block has the block's rows."""
    run, not_run = delta.table(table), delta.table(table)
    assert len(run.collect()) == 10
    delta.sql(f"DELETE FROM {table} WHERE id = 9")
    assert len(run.collect()) == 10
    with transaction(delta, path):
        delta.sql(f"DELETE FROM {table} WHERE id = 0")
        assert len(run.collect()) == 10
        assert (run.count(), len(not_run.collect()), len(delta.table(table).collect())) == (8, 8, 8)
