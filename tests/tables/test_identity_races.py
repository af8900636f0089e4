"""Writers of generated values beside each other: the one that loses reserves numbers, and is executed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.commits import ConcurrentDeleteDeleteException, ConflictReason, MetadataChangedException
from anabranch.storage.local.local_store import LocalStore
from anabranch.tables import DeltaTable
from anabranch.transactions.transaction import Transaction
from session_kinds import table_ref
from tables.races import beaten_to_the_commit
from transactions.log_linter import lint

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def numbered(spark: SparkSession, path: str, how: str = "ALWAYS AS IDENTITY") -> str:
    """The name of a new table with three rows."""
    name = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT GENERATED {how}, v BIGINT) USING delta")
    spark.sql(insert(name, 1, 2, 3))
    return name


def insert(name: str, *values: int) -> str:
    """An INSERT of rows in one partition, so that their numbers have no gaps."""
    return f"INSERT INTO {name} (v) SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(f'({v})' for v in values)}"


def ids(spark: SparkSession, name: str) -> dict[int, list[int]]:
    """The ids of the rows, by `v`."""
    ids_by_value: dict[int, list[int]] = {}
    for row in spark.table(name).collect():
        ids_by_value.setdefault(row.v, []).append(row.id)
    return ids_by_value


def operations(spark: SparkSession, path: str) -> list[str]:
    """The operations of the commits, oldest first."""
    return [row.operation for row in reversed(DeltaTable.forPath(spark, path).history().collect())]


def mark(spark: SparkSession, path: str) -> int:
    value: int = table_ref(spark, path).latest().schema["id"].metadata["delta.identity.highWaterMark"]
    return value


def check(spark: SparkSession, path: str, *, step: int = 1) -> list[int]:
    """The ids, all different and none beyond the mark, at every version."""
    versions = len(operations(spark, path))
    for version in range(versions):
        snapshot = table_ref(spark, path).delta_log.snapshots.at_version(version)
        reached = snapshot.schema["id"].metadata.get("delta.identity.highWaterMark")
        rows = spark.read.option("versionAsOf", version).format("delta").load(path).collect()
        numbers = [row.id for row in rows if row.id is not None]
        assert len(set(numbers)) == len(numbers), f"version {version} has an id twice"
        assert all((reached - number) * step >= 0 for number in numbers), f"version {version} has ids beyond its mark"
    assert lint(LocalStore(path)) == []
    return sorted(numbers)


def test_an_append_that_loses_its_numbers(delta: SparkSession, path: str) -> None:
    """Covers race 79. It lands inside its own range, also if others generate more before its second commit."""
    name = numbered(delta, path)
    append = lambda: delta.sql(insert(name, 10, 11))  # noqa: E731
    beaten_to_the_commit(delta, append, insert(name, 20))
    assert operations(delta, path)[2:] == ["WRITE", "RESERVE IDENTITY", "WRITE", "WRITE"]
    assert sorted(number for v in (10, 11) for number in ids(delta, name)[v]) == [5, 6]
    assert ids(delta, name)[20] == [4, 7]
    assert check(delta, path) == [1, 2, 3, 4, 5, 6, 7]
    assert mark(delta, path) == 7
    last = DeltaTable.forPath(delta, path).history(1).collect()[0]
    assert last.operationMetrics["numReExecutions"] == "1"
    delta.sql(insert(name, 30))
    assert ids(delta, name)[30] == [8]


def test_numbers_that_fall(delta: SparkSession, path: str) -> None:
    name = numbered(delta, path, "BY DEFAULT AS IDENTITY (START WITH -7 INCREMENT BY -5)")
    append = lambda: delta.sql(insert(name, 10, 11))  # noqa: E731
    beaten_to_the_commit(delta, append, insert(name, 20))
    assert check(delta, path, step=-5) == [-37, -32, -27, -22, -17, -12, -7]
    assert sorted(number for v in (10, 11) for number in ids(delta, name)[v]) == [-32, -27]


def test_a_merge_that_loses_its_numbers(delta: SparkSession, path: str) -> None:
    """The rows that it changes keep their ids."""
    name = numbered(delta, path)
    source = "(SELECT * FROM VALUES (2, 200), (9, 900) AS v(k, w)) s"
    merging = f"MERGE INTO {name} t USING {source} ON t.v = s.k WHEN MATCHED THEN UPDATE SET v = s.w"
    merging += " WHEN NOT MATCHED THEN INSERT (v) VALUES (s.w)"
    beaten_to_the_commit(delta, lambda: delta.sql(merging), insert(name, 20))
    rows = ids(delta, name)
    assert operations(delta, path)[2:] == ["WRITE", "RESERVE IDENTITY", "WRITE", "MERGE"]
    assert rows[200] == [2]
    assert min(rows[900]) > max(rows[20][:1])
    check(delta, path)


def test_another_conflict_comes_first(delta: SparkSession, path: str) -> None:
    """A statement whose rows are gone is not executed again, and reserves nothing, as users have not allowed it."""
    name = numbered(delta, path)
    delta.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    merging = (
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (2), (9) AS v(k)) s ON t.v = s.k WHEN MATCHED THEN DELETE"
    )
    merging += " WHEN NOT MATCHED THEN INSERT (v) VALUES (s.k)"
    winner = (
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (2), (8) AS v(k)) s ON t.v = s.k WHEN MATCHED THEN DELETE"
    )
    winner += " WHEN NOT MATCHED THEN INSERT (v) VALUES (s.k)"
    with pytest.raises(ConcurrentDeleteDeleteException):
        beaten_to_the_commit(delta, lambda: delta.sql(merging), winner)
    assert "RESERVE IDENTITY" not in operations(delta, path)


def test_more_rows_than_numbers_were_reserved(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """The source has grown between the executions: as many numbers are reserved as it needs by then."""
    name, source = numbered(delta, path), f"delta.`{tmp_path / 'source'}`"
    delta.range(2).write.format("delta").save(str(tmp_path / "source"))
    right: Callable[..., object] = Transaction.commit
    executions = []

    def late(transaction: Transaction, *arguments: object, **keywords: object) -> object:
        with mock.patch.object(Transaction, "commit", right):
            executions.append(transaction.read_version)
            if len(executions) < 3:
                delta.sql(f"INSERT INTO {source} SELECT id + 10 FROM range(3)")
                delta.sql(insert(name, 50))
        return right(transaction, *arguments, **keywords)

    with mock.patch.object(Transaction, "commit", late):
        delta.sql(f"INSERT INTO {name} (v) SELECT id + 100 FROM {source}")
    assert operations(delta, path).count("RESERVE IDENTITY") == 2
    assert sum(len(numbers) for v, numbers in ids(delta, name).items() if v >= 100) == len(executions) * 3 - 1
    check(delta, path)


def test_synchronised_meanwhile(delta: SparkSession, path: str) -> None:
    name = numbered(delta, path, "BY DEFAULT AS IDENTITY")
    delta.sql(f"INSERT INTO {name} VALUES (100, 7)")
    append = lambda: delta.sql(insert(name, 10, 11))  # noqa: E731
    beaten_to_the_commit(delta, append, f"ALTER TABLE {name} ALTER COLUMN id SYNC IDENTITY")
    assert sorted(number for v in (10, 11) for number in ids(delta, name)[v]) == [101, 102]
    assert mark(delta, path) == 102


def test_restored_meanwhile(delta: SparkSession, path: str) -> None:
    """RESTORE keeps the mark, so reserved numbers stay reserved."""
    name = numbered(delta, path)
    delta.sql(insert(name, 4))
    right: Callable[..., object] = Transaction.commit
    winners = iter([insert(name, 20), f"RESTORE TABLE {name} TO VERSION AS OF 1"])

    def late(transaction: Transaction, *arguments: object, **keywords: object) -> object:
        with mock.patch.object(Transaction, "commit", right):
            delta.sql(next(winners))
        return right(transaction, *arguments, **keywords)

    with mock.patch.object(Transaction, "commit", late):
        delta.sql(insert(name, 10))
    assert ids(delta, name) == {1: [1], 2: [2], 3: [3], 10: [6]}
    assert mark(delta, path) == 6


@pytest.mark.parametrize(
    "statement",
    ["UPDATE {t} SET v = v + 1 WHERE v = 2", "DELETE FROM {t} WHERE v = 2", "OPTIMIZE {t}"],
    ids=["UPDATE", "DELETE", "OPTIMIZE"],
)
def test_reservations_beside_other_statements(delta: SparkSession, path: str, statement: str) -> None:
    """A statement that was begun before a reservation is committed after it."""
    name = numbered(delta, path)
    delta.sql(insert(name, 4))
    right: Callable[..., object] = Transaction._committed

    def late(transaction: Transaction, *arguments: object) -> object:
        with mock.patch.object(Transaction, "_committed", right):
            append = lambda: delta.sql(insert(name, 10))  # noqa: E731
            beaten_to_the_commit(delta, append, insert(name, 20))
        return right(transaction, *arguments)

    with mock.patch.object(Transaction, "_committed", late):
        delta.sql(statement.format(t=name))
    assert operations(delta, path)[-1] == statement.split(maxsplit=1)[0]
    assert "RESERVE IDENTITY" in operations(delta, path)
    check(delta, path)


def test_an_insert_of_own_rows(delta: SparkSession, path: str) -> None:
    """It reads the version with its reservation; what was committed meanwhile is not among its rows."""
    name = numbered(delta, path)
    append = lambda: delta.sql(f"INSERT INTO {name} (v) SELECT v + 100 FROM {name} WHERE v = 2")  # noqa: E731
    beaten_to_the_commit(delta, append, insert(name, 20))
    assert len(ids(delta, name)[102]) == 1
    check(delta, path)


def test_a_frame_that_has_read_an_older_version(delta: SparkSession, path: str) -> None:
    """The transaction begins before its reservation, which is among the commits that landed first."""
    name = numbered(delta, path)
    frame = delta.read.format("delta").option("versionAsOf", 1).load(path).where("v = 2").select("v")
    append = lambda: frame.write.format("delta").mode("append").save(path)  # noqa: E731
    beaten_to_the_commit(delta, append, insert(name, 20))
    assert len(ids(delta, name)[2]) == 2
    check(delta, path)


def test_a_batch_of_a_stream(delta: SparkSession, path: str, tmp_path: Path) -> None:
    name = numbered(delta, path)
    delta.range(100, 102).withColumnRenamed("id", "v").write.format("delta").save(str(tmp_path / "source"))

    def stream() -> None:
        source = delta.readStream.format("delta").load(str(tmp_path / "source"))
        writer = source.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(path).awaitTermination()

    beaten_to_the_commit(delta, stream, insert(name, 20))
    assert {v for v in ids(delta, name) if v >= 100} == {100, 101}
    check(delta, path)


def test_a_transaction_is_not_executed_again(delta: SparkSession, path: str) -> None:
    """Its statements are the program's; it reserves nothing."""
    name = numbered(delta, path)
    delta.sql("BEGIN TRANSACTION")
    delta.sql(insert(name, 10))
    with pytest.raises(MetadataChangedException) as raised:
        beaten_to_the_commit(delta, lambda: delta.sql("COMMIT"), insert(name, 20))
    assert raised.value.reason is ConflictReason.IDENTITY_COLUMNS
    assert "RESERVE IDENTITY" not in operations(delta, path)


def test_numbers_that_end(delta: SparkSession, path: str) -> None:
    """Where no BIGINT is left to reserve, the conflict is raised."""
    name = numbered(delta, path, f"ALWAYS AS IDENTITY (START WITH {2**63 - 4})")
    append = lambda: delta.sql(insert(name, 10))  # noqa: E731
    with pytest.raises(MetadataChangedException):
        beaten_to_the_commit(delta, append, insert(name, 20))
