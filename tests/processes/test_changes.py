"""Some processes, each with a Spark session of its own, change the rows of one table."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.storage.local.local_store import LocalStore
from anabranch.tables import DeltaTable
from processes.changing import WRITERS, Changers, make, seen_by_all
from session_kinds import table_ref
from transactions.log_linter import lint

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def changers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changers]:
    started = Changers(tmp_path_factory.mktemp("changers"))
    yield started
    started.stop()


def sums(native: SparkSession, path: str) -> set[tuple[int, int]]:
    """The number of rows and their sum, at every version there is."""
    last = DeltaTable.forPath(native, path).history(1).collect()[0].version
    versions = [native.read.format("delta").option("versionAsOf", version).load(path) for version in range(last + 1)]
    totals = [version.agg(F.count("*"), F.sum("n")) for version in versions]
    return {(row[0], row[1]) for row in functools.reduce(DataFrame.unionAll, totals).collect()}


def test_writers_of_different_rows_beside_a_loop_of_compactions(
    native: SparkSession, changers: Changers, tmp_path: Path
) -> None:
    """Covers races 61, 89 and 90: no abort, no row lost, the sum the same at every version."""
    path = str(tmp_path / "t")
    table = make(native, path, WRITERS * 100, 1000)
    changers.begin("shift_own_rows", path, count=4)
    rounds = 0
    while rounds < 3 or table.history(1).collect()[0].version < WRITERS * 4:
        table.optimize().executeCompaction()
        rounds += 1
        if rounds > 200:
            break
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    assert sum(answer["successes"] for answer in answers) == WRITERS * 4
    assert sums(native, path) == {(WRITERS * 100, WRITERS * 100 * 1000)}
    operations = [row.operation for row in table.history().collect()]
    assert operations.count("UPDATE") == WRITERS * 4
    assert operations.count("OPTIMIZE") >= 1
    assert set(seen_by_all(path)) == set(range(WRITERS * 100))
    assert lint(LocalStore(path)) == []


def test_transfers_between_accounts(native: SparkSession, changers: Changers, tmp_path: Path) -> None:
    """The sum of all accounts stays the same, no matter which writer wins."""
    path = str(tmp_path / "t")
    table = make(native, path, 10, 500)
    changers.begin("transfer", path, count=3)
    answers = changers.end()
    successes = sum(answer["successes"] for answer in answers)
    assert successes + sum(len(answer["conflicts"]) for answer in answers) == WRITERS * 3
    assert successes >= 3
    assert sums(native, path) == {(10, 5000)}
    assert table.history(1).collect()[0].version == successes
    assert sum(seen_by_all(path).values()) == 5000


def test_counters_with_execution_again(native: SparkSession, changers: Changers, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(native, path, 3, 0)
    changers.begin("count_up", path, count=2, retries=50)
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    assert sum(seen_by_all(path).values()) == WRITERS * 2
    assert lint(LocalStore(path)) == []


def test_upserts_of_the_same_keys(native: SparkSession, changers: Changers, tmp_path: Path) -> None:
    """No key is there twice, and what was acknowledged was added once."""
    path = str(tmp_path / "t")
    make(native, path, 0, 0)
    changers.begin("upsert", path, count=2, retries=50)
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    assert sum(seen_by_all(path).values()) == WRITERS * 2 * 3
    assert lint(LocalStore(path)) == []


@pytest.mark.parametrize("step", [1, -3])
def test_writers_of_generated_values(native: SparkSession, changers: Changers, tmp_path: Path, step: int) -> None:
    """Covers race 79: no statement is refused, ids are unique and ascend in the steps of the column for each writer, and
    those of each version are not beyond its mark."""
    path = str(tmp_path / "t")
    identity = f"GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY {step})"
    native.sql(f"CREATE TABLE delta.`{path}` (id BIGINT {identity}, n BIGINT) USING delta")
    changers.begin("number_rows", path, count=4)
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    rows = seen_by_all(path)
    assert sorted(rows.values()) == sorted(
        writer * 1000 + number * 10 + row for writer in range(WRITERS) for number in range(4) for row in range(3)
    )
    for writer in range(WRITERS):
        batches = [[id_ for id_, n in rows.items() if n // 10 == writer * 100 + number] for number in range(4)]
        for before, after in itertools.pairwise(batches):
            assert max(id_ * step for id_ in before) < min(id_ * step for id_ in after)
    operations = [row.operation for row in DeltaTable.forPath(native, path).history().collect()]
    assert operations.count("WRITE") + operations.count("MERGE") == WRITERS * 4
    assert "RESERVE IDENTITY" in operations
    log = table_ref(native, path).delta_log
    for version, values in enumerate(values_at_versions(native, path)):
        mark = log.snapshots.at_version(version).schema["id"].metadata.get("delta.identity.highWaterMark")
        assert all((mark - id_) * step >= 0 for id_ in values)
    assert lint(LocalStore(path)) == []


ROUNDS = int(os.environ.get("ANABRANCH_TRANSACTION_ROUNDS", "2"))
"""Transactions of each process."""


def values_at_versions(native: SparkSession, path: str) -> list[dict[int, list[int]]]:
    """`n` by id, at every version there is."""
    last = DeltaTable.forPath(native, path).history(1).collect()[0].version
    frames = [
        native.read.format("delta").option("versionAsOf", version).load(path).withColumn("version", F.lit(version))
        for version in range(last + 1)
    ]
    values: list[dict[int, list[int]]] = [{} for _ in frames]
    for row in functools.reduce(DataFrame.unionAll, frames).collect():
        values[row.version].setdefault(row.id, []).append(row.n)
    return values


def test_transfers_by_transactions(native: SparkSession, changers: Changers, tmp_path: Path) -> None:
    """Amounts are read by queries and written by two statements: half of a transfer is in no version."""
    path = str(tmp_path / "t")
    make(native, path, 10, 500)
    changers.begin("transfer_by_queries", path, count=ROUNDS, retries=50)
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    assert sums(native, path) == {(10, 5000)}
    operations = [row.operation for row in DeltaTable.forPath(native, path).history().collect()]
    assert operations == [*["TRANSACTION"] * WRITERS * ROUNDS, "WRITE"]
    assert sum(seen_by_all(path).values()) == 5000
    assert lint(LocalStore(path)) == []


def test_write_skew_of_withdrawals(native: SparkSession, changers: Changers, tmp_path: Path) -> None:
    """Of two withdrawals from different accounts of a pair, which both have read, only one may count on the other's."""
    path = str(tmp_path / "t")
    make(native, path, 6, 30)
    native.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    changers.begin("withdraw", path, count=ROUNDS, retries=50)
    assert [answer["conflicts"] for answer in changers.end()] == [[]] * WRITERS
    for version in values_at_versions(native, path):
        assert [sum(version[pair] + version[pair + 1]) >= 0 for pair in (0, 2, 4)] == [True] * 3


def test_versions_of_a_dimension_beside_writers_of_other_keys(
    native: SparkSession, changers: Changers, tmp_path: Path
) -> None:
    """SCD type 2: each version of the table has one open version of each key, and no transaction is refused."""
    path = str(tmp_path / "t")
    table = make(native, path, WRITERS * 100, 1)
    changers.begin("close_and_open", path, count=ROUNDS)
    for _ in range(3):
        table.optimize().executeCompaction()
    answers = changers.end()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    for version in values_at_versions(native, path):
        assert all(sum(n > 0 for n in values) == 1 for values in version.values())
        assert all(sorted(map(abs, values)) == list(range(1, len(values) + 1)) for values in version.values())
    assert lint(LocalStore(path)) == []
