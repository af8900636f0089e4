"""DROP FEATURE and column mapping turned off: what goes, what stays, and who may come in between."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from anabranch.clock import SystemClock
from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_columns import alter_change_columns, alter_drop_columns
from anabranch.commands.alter.alter_properties import alter_set_properties, alter_unset_properties
from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.definition.table_definition import current_properties
from anabranch.commands.drop_feature.drop_feature import ROUNDS_MAX, alter_add_feature, alter_drop_feature, prepare_drop
from anabranch.commands.drop_feature.feature_rewrite import FilesOfOldTypes
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import ColumnNamesNeedMappingError, FeatureDropError, FeatureInHistoryError
from anabranch.errors.commits import ConflictReason, DeltaConcurrentModificationException
from anabranch.errors.log import VersionNotFoundError
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import decode_path
from anabranch.protocol.features import supported_features
from anabranch.schema.column_changes import ColumnChange
from anabranch.tables import DeltaTable
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import delta_session, table_ref
from tables.made_tables import numbered_table

pytestmark = pytest.mark.spark

HOUR_MS = 60 * 60 * 1000
NO_VECTORS = {"enableDeletionVectors": "false"}


@dataclasses.dataclass
class OtherClock:
    """A clock ahead of the machine's; another writer acts when it is read right behind certain operations."""

    ahead_ms: int = 0
    acts: Callable[[], object] | None = None
    table: TableRef | None = None
    behind: tuple[str, ...] = ()

    def now_ms(self) -> int:
        if self.acts and self.table and tuple(operations(self.table)[-len(self.behind) :]) == self.behind:
            acts, self.acts = self.acts, None
            acts()
        return SystemClock().now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        return SystemClock().elapsed_ms()

    def sleep_ms(self, duration_ms: float) -> None:
        """No time to lose."""


@pytest.fixture
def clock(delta: SparkSession, monkeypatch: pytest.MonkeyPatch) -> OtherClock:
    made = OtherClock()
    monkeypatch.setattr(delta_session(delta), "clock", made)
    return made


def commits(table: TableRef) -> list[dict[str, list[dict[str, Any]]]]:
    commits: list[dict[str, list[dict[str, Any]]]] = []
    for file in sorted((Path(table.path) / "_delta_log").glob("*.json")):
        commits.append({})
        for line in file.read_text().splitlines():
            for kind, fields in json.loads(line).items():
                commits[-1].setdefault(kind, []).append(fields)
    return commits


def operations(table: TableRef) -> list[str]:
    return [commit["commitInfo"][0]["operation"] for commit in commits(table)]


def rows(table: TableRef, version: int | None = None) -> list[tuple[Any, ...]]:
    reader = table.session.spark.read.format("delta")
    frame = (reader if version is None else reader.option("versionAsOf", version)).load(table.path)
    return sorted(map(tuple, frame.collect()), key=str)


def rows_of_all(table: TableRef) -> list[tuple[Any, ...]]:
    """The rows of the newest version. Delta-rs and DuckDB read as many."""
    remaining = rows(table)
    assert read_by_delta_rs(table.path).num_rows == read_by_duckdb(table.path).num_rows == len(remaining)
    return remaining


def delete(table: TableRef, condition: str) -> None:
    DeltaTable.forPath(table.session.spark, table.path).delete(condition)


def has(table: TableRef) -> set[str]:
    return set(supported_features(table.latest().protocol))


def hide_a_row(table: TableRef) -> AddFile:
    """A program that decides by the protocol, and not by the property, whether it may use vectors."""
    snapshot = table.latest()
    transaction = table.begin_at(Operation(name="DELETE"), snapshot=snapshot)
    [file] = snapshot.files.to_actions()[:1]
    chosen = RowsOfFile(file=file, positions=BitMap64([0]))
    transaction.commit(
        hide_rows([chosen], transaction.vectors, removed_at_ms=0), deleted_rows={file.key: BitMap64([0])}
    )
    return file


def test_vectors_are_purged_and_history_is_hidden(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path, rows=600, enableDeletionVectors="true")
    delete(table, "id % 3 = 0")
    delete(table, "id = 1")
    left = rows(table)
    landed = alter_drop_feature(table, "deletionvectors")
    assert operations(table)[3:] == [
        "UNSET TBLPROPERTIES",
        "REORG",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        "DROP FEATURE",
    ]
    assert landed.snapshot.metadata.configuration == {
        "delta.requireCheckpointProtectionBeforeVersion": str(landed.version)
    }
    assert (landed.snapshot.protocol.min_reader_version, landed.snapshot.protocol.min_writer_version) == (1, 7)
    assert has(table) == {"appendOnly", "invariants", "checkpointProtection"}
    named = {remove["path"] for remove in commits(table)[5]["remove"]}
    assert named == {file.name for file in Path(path).glob("*.bin")} != set()
    checkpoints = {int(file.name[:20]) for file in (Path(path) / "_delta_log").glob("*.checkpoint.parquet")}
    assert checkpoints >= set(range(landed.version - 3, landed.version + 1))
    assert rows_of_all(table) == rows(table, version=2) == left
    delete(table, "id = 2")
    assert len(rows(table)) == len(left) - 1
    assert not any("deletionVector" in add for add in commits(table)[-1]["add"])
    with pytest.raises(FeatureDropError, match="TRUNCATE HISTORY"):
        alter_drop_feature(table, "checkpointProtection")


def test_columns_lose_their_mapping(delta: SparkSession, path: str) -> None:
    """Files, partition values and statistics go by logical names; what else is said of columns stays."""
    delta.sql(
        f"""CREATE TABLE delta.`{path}` (k INT NOT NULL COMMENT 'key', s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>>,
            p STRING, gone INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"""
    )
    table = table_ref(delta, path)
    query = "id, named_struct('x', id, 'y', array(named_struct('z', id))), concat('p ', id % 2), 1"
    delta.sql(f"INSERT INTO delta.`{path}` SELECT {query} FROM range(0, 6, 1, 1)")
    alter_change_columns(table, [ColumnChange(path=("p",), new_name="the part")])
    alter_change_columns(table, [ColumnChange(path=("s", "x"), new_name="X")])
    alter_drop_columns(table, [("gone",)])
    delete(table, "k = 4")
    before = rows(table)
    with pytest.raises(ColumnNamesNeedMappingError, match="`the part`"):
        alter_set_properties(table, {"delta.columnMapping.mode": "none"})
    alter_change_columns(table, [ColumnChange(path=("the part",), new_name="part")])
    alter_set_properties(table, {"delta.columnMapping.mode": "none", "k": "v"})
    snapshot = table.latest()
    assert operations(table)[-2:] == ["REMOVE COLUMN MAPPING", "SET TBLPROPERTIES"]
    configuration = current_properties(snapshot.metadata)
    assert configuration.items() >= {"delta.columnMapping.mode": "none", "k": "v"}.items()
    assert "delta.columnMapping.maxColumnId" not in configuration
    assert "columnMapping" in has(table)
    assert (snapshot.schema["k"].nullable, snapshot.schema["k"].metadata) == (False, {"comment": "key"})
    changed = commits(table)[-2]
    metrics = changed["commitInfo"][0]["operationMetrics"]
    assert (metrics["numCopiedRows"], metrics["numDeletionVectorsRemoved"]) == ("5", "1")
    assert not any(file["dataChange"] for file in (*changed["add"], *changed["remove"]))
    for add in changed["add"]:
        assert set(add["partitionValues"]) == {"part"}
        assert set(json.loads(add["stats"])["minValues"]) == {"k", "s"}
        stored = pq.read_schema(Path(path) / decode_path(add["path"], table_root=path))
        assert stored.names == ["k", "s"]
        assert str(stored.field("s").type.field("y").type).count("z: int32") == 1
    assert rows(table) == before
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (9, NULL, 'p 9')")
    alter_drop_feature(table, "columnMapping")
    assert (table.latest().protocol.min_reader_version, "columnMapping" in has(table)) == (3, False)
    assert len(rows_of_all(table)) == 6
    with pytest.raises(VersionNotFoundError):
        rows(table, version=100)
    assert len(rows(table, version=5)) == 5


def test_an_append_while_mapping_is_turned_off(delta: SparkSession, path: str, clock: OtherClock) -> None:
    """Its rows are written again too; clustering columns get their logical names."""
    table = numbered_table(delta, path, **{"columnMapping.mode": "id"})
    alter_cluster_by(table, [("n",)])
    frame = delta.sql("SELECT 100L AS id, 100L AS n, 0L AS part")
    clock.table, clock.behind = table, ("CLUSTER BY",)
    clock.acts = lambda: frame.write.format("delta").mode("append").save(path)
    alter_unset_properties(table, ["delta.columnMapping.mode"])
    assert operations(table)[-2:] == ["WRITE", "REMOVE COLUMN MAPPING"]
    assert not any("columnMapping" in name for name in table.latest().metadata.configuration)
    assert clustering_columns(table.latest()) == (("n",),)
    assert len(rows(table)) == 21
    assert {add["path"] for add in commits(table)[-1]["add"]} == {add.path for add in table.latest().files.to_actions()}


def test_type_changes_are_forgotten(delta: SparkSession, path: str) -> None:
    delta.sql(
        f"""CREATE TABLE delta.`{path}` (a SMALLINT, d DECIMAL(4, 1), l ARRAY<INT>) USING delta
            TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'false')"""
    )
    table = table_ref(delta, path)
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1.5, array(1))")
    for column, kind in {"a": "INT", "d": "DECIMAL(10, 2)", "l.element": "BIGINT"}.items():
        delta.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {column} TYPE {kind}")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (70000, 12345.25, array(6000000000))")
    before, old = rows(table), FilesOfOldTypes(table)
    assert old(table.latest()).sum() == 1
    landed = alter_drop_feature(table, "typeWidening")
    assert operations(table)[6:9] == ["UNSET TBLPROPERTIES", "REORG", "DROP FEATURE"]
    assert landed.snapshot.files.count == 2
    assert not old(landed.snapshot).any()
    assert "typeChanges" not in landed.snapshot.metadata.schema_string
    assert rows_of_all(table) == before
    assert len(rows(table, version=5)) == 2


def test_row_ids_go(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path, enableRowTracking="true", enableDeletionVectors="true")
    hide_a_row(table)
    with pytest.raises(FeatureDropError, match="rowTracking needs it"):
        alter_drop_feature(table, "domainMetadata")
    landed = alter_drop_feature(table, "rowTracking")
    assert operations(table)[-3:] == ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]
    assert [add.base_row_id for add in landed.snapshot.files.to_actions()] == [None]
    assert not landed.snapshot.domain_metadata
    assert not any("rowTracking" in name.lower() for name in landed.snapshot.metadata.configuration)
    alter_drop_feature(table, "domainMetadata")
    assert len(rows_of_all(table)) == 19


def test_features_that_leave_no_data_file_behind(delta: SparkSession, path: str) -> None:
    """One after the other, down to what the oldest readers and writers know."""
    table = numbered_table(
        delta, path, **NO_VECTORS, enableInCommitTimestamps="true", checkpointPolicy="v2", checkpointInterval="2"
    )
    alter_cluster_by(table, [("n",)])
    alter_add_feature(table, "vacuumProtocolCheck")
    assert list((Path(path) / "_delta_log").glob("*2.checkpoint.*-*.parquet"))
    with pytest.raises(FeatureDropError, match="clustering needs it"):
        alter_drop_feature(table, "domainMetadata")
    for feature in ("clustering", "domainMetadata", "inCommitTimestamp"):
        with pytest.raises(FeatureDropError, match="leave TRUNCATE HISTORY out"):
            alter_drop_feature(table, feature, truncate_history=True)
        alter_drop_feature(table, feature)
    alter_drop_feature(table, "vacuumProtocolCheck", truncate_history=True)
    assert has(table) == {"appendOnly", "invariants", "v2Checkpoint"}
    assert not clustering_columns(table.latest())
    landed = alter_drop_feature(table, "v2Checkpoint")
    assert has(table) == {"appendOnly", "invariants", "checkpointProtection"}
    assert landed.snapshot.properties.checkpoint_policy == "classic"
    assert "ommitTimestamp" not in str(landed.snapshot.metadata.configuration)
    log = Path(path) / "_delta_log"
    assert list((log / "_sidecars").iterdir())
    assert not list(log.glob(f"*{landed.version}.checkpoint.*-*.parquet"))
    assert len(rows(table)) == 20


def test_history_is_truncated(delta: SparkSession, path: str, clock: OtherClock) -> None:
    """Refused until it is a day old, with the time from which it works; then nothing is left that a reader must know."""
    table = numbered_table(delta, path, enableDeletionVectors="true")
    delete(table, "id < 5")
    with pytest.raises(FeatureInHistoryError, match="TRUNCATE HISTORY") as refused:
        alter_drop_feature(table, "deletionVectors", truncate_history=True)
    assert (refused.value.last_version, refused.value.retention, refused.value.droppable_now) == (3, "24 hours", True)
    assert operations(table)[2:] == ["UNSET TBLPROPERTIES", "REORG", "Empty Commit"]
    clock.ahead_ms = 23 * HOUR_MS
    with pytest.raises(FeatureInHistoryError) as again:
        alter_drop_feature(table, "deletionVectors", truncate_history=True)
    assert again.value.possible_from == refused.value.possible_from
    assert len(operations(table)) == 5, "nothing is done twice"
    clock.ahead_ms = 24 * HOUR_MS + 60_000
    landed = alter_drop_feature(table, "deletionVectors", truncate_history=True)
    assert operations(table) == ["Empty Commit", "DROP FEATURE"]
    assert (landed.snapshot.protocol.min_reader_version, landed.snapshot.protocol.min_writer_version) == (1, 2)
    assert len(rows_of_all(table)) == 15
    with pytest.raises(VersionNotFoundError):
        rows(table, version=1)


def test_protection_goes_with_the_history_that_it_hides(delta: SparkSession, path: str, clock: OtherClock) -> None:
    table = numbered_table(delta, path, **NO_VECTORS, checkpointPolicy="v2")
    dropped = alter_drop_feature(table, "v2Checkpoint")
    with pytest.raises(FeatureInHistoryError) as refused:
        alter_drop_feature(table, "checkpointProtection", truncate_history=True)
    assert (refused.value.last_version, refused.value.droppable_now) == (dropped.version - 1, False)
    clock.ahead_ms = 24 * HOUR_MS + 60_000
    landed = alter_drop_feature(table, "checkpointProtection", truncate_history=True)
    assert min(int(file.name[:20]) for file in (Path(path) / "_delta_log").glob("0*")) == dropped.version
    assert (landed.snapshot.protocol.min_reader_version, landed.snapshot.protocol.min_writer_version) == (1, 2)
    assert "delta.requireCheckpointProtectionBeforeVersion" not in landed.snapshot.metadata.configuration
    assert len(rows(table)) == 20


def test_a_vector_that_comes_in_between(delta: SparkSession, path: str) -> None:
    """Race 75, fault F58: behind it the feature is not dropped; it is purged when the drop is begun again."""
    table = numbered_table(delta, path, enableDeletionVectors="true")
    prepared = prepare_drop(table, "deletionVectors", truncates_history=False)
    assert prepared.in_use is None
    file = hide_a_row(table)
    with pytest.raises(DeltaConcurrentModificationException, match=file.path) as lost:
        prepared.commit()
    assert lost.value.reason is ConflictReason.RULED_OUT
    late = table.begin_at(Operation(name="WRITE"), snapshot=table.latest())
    alter_drop_feature(table, "deletionVectors")
    assert "deletionVectors" not in has(table)
    with pytest.raises(DeltaConcurrentModificationException):
        late.commit(table.latest().files.to_actions(np.array([True])))
    assert len(rows(table)) == 19


def test_a_writer_who_turns_vectors_on_again(delta: SparkSession, path: str, clock: OtherClock) -> None:
    """The drop begins again behind him, and purges what he left."""

    def turns_on() -> None:
        alter_set_properties(table, {"delta.enableDeletionVectors": "true"})
        delete(table, "id = 5")

    table = numbered_table(delta, path, enableDeletionVectors="true")
    clock.table, clock.behind, clock.acts = table, ("UNSET TBLPROPERTIES", "Empty Commit"), turns_on
    landed = alter_drop_feature(table, "deletionVectors")
    assert operations(table).count("UNSET TBLPROPERTIES") == 2
    assert operations(table).count("REORG") == 1
    assert landed.snapshot.files.columns("deletion_vector")["deletion_vector"].null_count == landed.snapshot.files.count
    assert len(rows(table)) == 19


def test_a_writer_who_never_gives_up(delta: SparkSession, path: str, clock: OtherClock) -> None:
    """The feature stays. It is never dropped from a table that uses it."""
    table = numbered_table(delta, path, **NO_VECTORS, checkpointPolicy="v2")

    def turns_on() -> None:
        alter_set_properties(table, {"delta.checkpointPolicy": "v2"})
        clock.acts = turns_on

    clock.table, clock.behind, clock.acts = table, ("SET TBLPROPERTIES", "Empty Commit"), turns_on
    with pytest.raises(DeltaConcurrentModificationException):
        alter_drop_feature(table, "v2Checkpoint")
    assert operations(table).count("SET TBLPROPERTIES") >= 2 * ROUNDS_MAX
    assert "v2Checkpoint" in has(table)


def test_a_drop_that_was_stopped_goes_on(delta: SparkSession, path: str, clock: OtherClock) -> None:
    """Every step leaves a valid table."""

    def stops() -> None:
        raise KeyboardInterrupt

    table = numbered_table(delta, path, enableDeletionVectors="true")
    delete(table, "id = 3")
    for operation in ("UNSET TBLPROPERTIES", "REORG", "Empty Commit"):
        clock.table, clock.behind, clock.acts = table, (operation,), stops
        with pytest.raises(KeyboardInterrupt):
            alter_drop_feature(table, "deletionVectors")
        assert operations(table)[-1] == operation
        assert len(rows(table)) == 19
    alter_drop_feature(table, "deletionVectors")
    assert operations(table).count("REORG") == 1
    assert "deletionVectors" not in has(table)
    assert len(rows(table)) == 19
