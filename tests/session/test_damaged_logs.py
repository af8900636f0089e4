"""What a log says wrongly: one typed error for readers and writers, and the table stays as it is. Covers attacks A1 and A10."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import DataFileMissingError
from anabranch.errors.log import (
    CorruptCommitError,
    DeletionVectorCardinalityError,
    DeletionVectorDescriptorError,
    DeletionVectorRowIndexError,
    DeletionVectorSizeError,
)
from anabranch.errors.protocol import InvalidPropertyError, PartitionValueError, UnsafePathError
from anabranch.errors.schema import MalformedSchemaError
from session_kinds import CONNECT

pytestmark = pytest.mark.spark

READ = "SELECT sum(id), max(word) FROM {t}"
CHANGE = "UPDATE {t} SET word = 'new' WHERE id = 7"
VECTOR = "deletionVector"


@pytest.fixture
def table(delta: SparkSession, path: str) -> Path:
    """Rows 0 to 9 in two partitions, of which some are hidden."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id LONG, word STRING, part INT) USING delta PARTITIONED BY (part)")
    rows = "SELECT /*+ COALESCE(1) */ id, 'old', CAST(id % 2 AS INT) FROM range(10)"
    delta.sql(f"INSERT INTO delta.`{path}` {rows}")
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id < 2")
    return Path(path)


def damaged(table: Path, version: int, kind: str, facts: Mapping[str, Any]) -> Path:
    """A copy, which was not read before, with these facts of that commit's actions in the place of its own."""
    table = shutil.copytree(table, table.with_name("a damaged table"))
    log = table / "_delta_log"
    for file in log.iterdir():
        if file.suffix != ".json":
            file.unlink() if file.is_file() else None
    commit = log / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        for name, value in facts.items() if kind in action else ():
            current = action[kind].get(name)
            action[kind][name] = {**current, **value} if isinstance(current, dict) and value else value
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return table


def files(table: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(table.rglob("*.*")) if file.is_file()}


@pytest.mark.parametrize(
    ("version", "kind", "facts", "error"),
    [
        (0, "metaData", {"partitionColumns": ["nothere"]}, MalformedSchemaError),
        (0, "metaData", {"schemaString": "{"}, MalformedSchemaError),
        (2, "add", {"partitionValues": {"part": "many"}}, PartitionValueError),
        (1, "add", {"path": "../outside.parquet"}, UnsafePathError),
        (2, "add", {VECTOR: {"storageType": "z"}}, DeletionVectorDescriptorError),
        (2, "add", {VECTOR: {"sizeInBytes": 2**31 - 1}}, DeletionVectorSizeError),
        (2, "add", {"stats": '{"numRecords": 0}'}, DeletionVectorRowIndexError),
        (2, "add", {VECTOR: {"cardinality": 10**12}}, DeletionVectorCardinalityError),
        (2, "add", {VECTOR: {"pathOrInlineDv": "../../outside.bin", "storageType": "p"}}, UnsafePathError),
        (2, "add", {VECTOR: {"offset": 10**12}}, CorruptCommitError),
    ],
    ids=str,
)
def test_what_a_log_says_wrongly_is_one_error(
    delta: SparkSession, table: Path, version: int, kind: str, facts: Mapping[str, Any], error: type[DeltaError]
) -> None:
    table = damaged(table, version, kind, facts)
    before = files(table)
    for statement in (READ, CHANGE):
        with pytest.raises(error) as raised:
            delta.sql(statement.format(t=f"delta.`{table}`")).collect()
        assert str(table) in str(raised.value)
        assert "\tat " not in str(raised.value)
    assert files(table) == before


def test_a_data_file_that_is_gone_is_one_error(delta: SparkSession, table: Path) -> None:
    """The error is raised when its rows are read, and names the column."""
    names = {file.name for file in table.rglob("*.parquet")}
    for file in table.rglob("*.parquet"):
        file.unlink()
    if CONNECT == "serve":
        # A query of a client runs in Spark alone.
        with pytest.raises(PySparkException, match="FILE_NOT_EXIST") as missing:
            delta.sql(READ.format(t=f"delta.`{table}`")).collect()
        assert any(name in str(missing.value) for name in names)
    for statement in (CHANGE,) if CONNECT == "serve" else (READ, CHANGE):
        with pytest.raises(DataFileMissingError) as raised:
            delta.sql(statement.format(t=f"delta.`{table}`")).collect()
        assert Path(raised.value.file).name in names
        assert str(table) in raised.value.table
        assert "\tat " not in str(raised.value)


def test_an_error_of_a_partition_value_names_its_column(delta: SparkSession, table: Path) -> None:
    table = damaged(table, 2, "add", {"partitionValues": {"part": "many"}})
    with pytest.raises(PartitionValueError) as raised:
        delta.read.format("delta").load(str(table)).collect()
    assert (raised.value.value, raised.value.column, raised.value.data_type) == ("many", "part", "int")


def test_an_unknown_isolation_level_refuses_writes(delta: SparkSession, table: Path) -> None:
    table = damaged(table, 0, "metaData", {"configuration": {"delta.isolationLevel": "SnapshotIsolation"}})
    before = files(table)
    with pytest.raises(InvalidPropertyError, match="SnapshotIsolation"):
        delta.sql(f"INSERT INTO delta.`{table}` VALUES (10, 'new', 0)")
    assert files(table) == before
    delta.sql(f"ALTER TABLE delta.`{table}` UNSET TBLPROPERTIES ('delta.isolationLevel')")
    delta.sql(f"INSERT INTO delta.`{table}` VALUES (10, 'new', 0)")


@pytest.mark.skipif(CONNECT == "serve", reason="the log is the server's")
def test_upkeep_that_cannot_be_done_fails_no_commit(
    delta: SparkSession, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = damaged(table, 0, "metaData", {"configuration": {"delta.checkpointInterval": "often"}})
    delta.sql(f"INSERT INTO delta.`{table}` VALUES (10, 'new', 0)")
    assert delta.read.format("delta").load(str(table)).count() == 9
    warnings = [record for record in caplog.records if "delta.checkpointInterval" in record.getMessage()]
    assert warnings
    assert not any(record.exc_info for record in warnings)
