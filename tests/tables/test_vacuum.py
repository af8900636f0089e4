"""VACUUM on tables that Spark has written, and `DeltaTable.vacuum`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.commits import ConcurrentDeleteReadException
from anabranch.errors.maintenance import RetentionTooShortError
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.transaction import Transaction
from session_kinds import in_this_process

from .made_tables import make_table

pytestmark = pytest.mark.spark

ODD_VALUES = ["plain", "a b", "a/b", "100%", "é", ".."]
"""Each makes a folder whose name the log spells otherwise."""


def make_old(path: str) -> None:
    """Sets the times of everything but the log to ten years ago."""
    for directory, _, files in os.walk(path):
        if "_delta_log" not in directory:
            for name in files:
                os.utime(os.path.join(directory, name), (1.4e9, 1.4e9))


def data_files(path: str) -> set[str]:
    names = (file.relative_to(path) for file in Path(path).rglob("*") if file.is_file())
    return {str(name) for name in names if not str(name).startswith("_delta_log/") and not name.name.endswith(".crc")}


@pytest.mark.parametrize("layout", ["partitions", "prefixes"])
def test_all_rows_are_there_afterwards(delta: SparkSession, path: str, layout: str) -> None:
    """Folders of odd names, of a partition column that begins with `_`, of random prefixes; vectors, and their files."""
    rows = delta.createDataFrame([(n, ODD_VALUES[n % 6]) for n in range(600)], "id BIGINT, _c STRING").coalesce(1)
    properties = {"randomizeFilePrefixes": str(layout == "prefixes").lower(), "enableDeletionVectors": "true"}
    table = make_table(delta, path, rows, by=("_c",), **properties)
    # Scattered rows make a vector too large for the log.
    table.delete("hash(id) % 3 = 0")
    table.delete("_c = 'a/b' OR id = 7")
    before = sorted(tuple(row) for row in table.toDF().collect())
    live = set(data_files(path))
    Path(path, "_c=plain").mkdir(exist_ok=True)
    Path(path, "_c=plain", "orphan").write_text("x")
    Path(path, "_mine").write_text("x")
    make_old(path)

    table.vacuum()
    assert data_files(path) == live | {"_mine"}, "tombstones keep their files and vectors"
    assert table.vacuum(1000).columns == []
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        assert table.vacuum(0).collect() == []
    finally:
        delta.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert sorted(tuple(row) for row in table.toDF().collect()) == before
    left = data_files(path)
    assert "_mine" in left
    assert left < live | {"_mine"}
    snapshot = delta.read.format("delta").load(path)
    assert len([name for name in left if name.endswith(".parquet")]) == len(snapshot.inputFiles())
    with pytest.raises(Exception, match=r"(?i)not.*exist|no such file|missing|is not there|cannot be read"):
        delta.read.format("delta").option("versionAsOf", 0).load(path).collect()


def test_a_reader_whose_files_others_remove(delta: SparkSession, path: str) -> None:
    """Covers fault F47: who has begun to read a version sees all of it, as does who reads it within the retention."""
    table = make_table(delta, path, delta.range(0, 60, 1, 6).toDF("id"), enableDeletionVectors="false")
    reading = delta.read.format("delta").option("versionAsOf", 0).load(path).toLocalIterator()
    seen = [next(reading).id]
    files = data_files(path)
    table.delete("id % 10 != 5")
    table.optimize().executeCompaction()
    table.vacuum()
    assert files < data_files(path)
    seen += [row.id for row in reading]
    assert sorted(seen) == list(range(60))
    assert delta.read.format("delta").option("versionAsOf", 0).load(path).count() == 60
    assert table.toDF().count() == 6


def test_retention_hours_of_the_python_method(delta: SparkSession, path: str) -> None:
    table = make_table(delta, path, delta.range(3))
    with pytest.raises(RetentionTooShortError, match=r"24 hours.*168 hours"):
        table.vacuum(24)
    with pytest.raises(InvalidArgumentError, match="number of hours"):
        table.vacuum("24")  # type: ignore[arg-type]


@in_this_process
def test_statements_whose_files_are_taken_change_nothing(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers bug B69: VACUUM RETAIN 0 HOURS between what INSERT, UPDATE and RESTORE write, or look at, and their commit.

    A session that executes statements again after a conflict writes the files again.
    """
    make_table(delta, path, delta.range(1000), enableDeletionVectors="true").delete("id % 2 = 1")
    commit, left = Transaction.commit, [0]

    def late(transaction: Transaction, *arguments: object, **options: object) -> CommittedVersion:
        if left[0]:
            left[0] -= 1
            delta.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
        return commit(transaction, *arguments, **options)  # type: ignore[arg-type]

    def execute(statement: str) -> None:
        left[0] = 1
        delta.sql(statement.replace("<t>", f"delta.`{path}`"))

    monkeypatch.setattr(Transaction, "commit", late)
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.anabranch.conflictRetries": "0",
    }
    for name, value in settings.items():
        delta.conf.set(name, value)
    try:
        insert = "INSERT INTO <t> VALUES (2000)"
        overwrite = "INSERT OVERWRITE <t> VALUES (1)"
        for statement in (
            insert,
            "UPDATE <t> SET id = id + 3000 WHERE hash(id) % 3 = 0",
            "RESTORE <t> TO VERSION AS OF 1",
        ):
            if statement.startswith("RESTORE"):
                delta.sql(overwrite.replace("<t>", f"delta.`{path}`"))
            before = delta.read.format("delta").load(path).count()
            with pytest.raises(ConcurrentDeleteReadException, match="VACUUM"):
                execute(statement)
            assert delta.read.format("delta").load(path).count() == before
        delta.conf.set("spark.anabranch.conflictRetries", "1")
        execute(insert)
    finally:
        for name in settings:
            delta.conf.unset(name)
    assert delta.read.format("delta").load(path).count() == 2
