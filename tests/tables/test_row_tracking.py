"""Rows that are written to other files keep the ids and versions of row tracking, on every engine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.optimize.optimize_command import optimize
from anabranch.commands.optimize.purge import purge
from anabranch.commands.table_access import TableRef
from anabranch.errors.commits import ConcurrentDeleteDeleteException, DeltaConcurrentModificationException
from anabranch.errors.maintenance import RowTrackingColumnsError
from anabranch.protocol.actions import AddFile
from anabranch.tables import DeltaTable
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.rows.deletion_vector_actions import removal
from interop.readers import read_by_delta_rs, read_by_duckdb
from tables.tracked_rows import TRACKED, append, delete, last_commit, stored, table_ref, tracked

pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize("mode", ["none", "id"])
def test_rows_keep_their_ids_wherever_they_go(delta: SparkSession, path: str, mode: str) -> None:
    append(delta, path, 0, 10, **TRACKED, **{"delta.columnMapping.mode": mode})
    append(delta, path, 10, 30)
    table = table_ref(delta, path)
    delete(delta, path, 0, 7, 12)
    due = tracked(table)
    assert due[9] == (9, 0)
    assert due[11] == (11, 1)

    assert len(optimize(table).removes) == 2
    assert tracked(table) == due
    actions = last_commit(table)
    assert actions["commitInfo"][0]["tags"]["delta.rowTracking.preserved"] == "true"
    (add,) = actions["add"]
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (30, 3)
    assert len(json.loads(add["stats"])["minValues"]) == 3, "of the columns of the table alone"

    append(delta, path, 30, 35)
    due = tracked(table)
    assert due[30] == (57, 4)
    delete(delta, path, 3, 33)
    del due[3], due[33]
    optimize(table, zorder_by=["name", "id"])
    assert tracked(table) == due
    delete(delta, path, max(due))
    del due[max(due)]
    purge(table)
    assert tracked(table) == due
    alter_cluster_by(table, [("k",), ("name",)])
    assert optimize(table).num_bins == 1
    assert tracked(table) == due

    frame = delta.read.format("delta").load(path)
    assert frame.columns == ["id", "k", "name"]
    assert sorted(row[0] for row in frame.select("id").collect()) == sorted(due)
    if mode == "none":
        for read in (read_by_delta_rs, read_by_duckdb):
            rows = read(path)
            assert (rows.column_names, sorted(rows.column("id").to_pylist())) == (frame.columns, sorted(due))


def test_equal_rows_are_distinguished_by_their_ids(delta: SparkSession, path: str) -> None:
    """A DELETE that was overtaken hides the very rows that it chose, and no equal ones."""
    for _ in range(2):
        delta.range(0, 6, 1, 1).selectExpr("id % 2 AS id", "'v' AS name").write.format("delta").mode("append").options(
            **TRACKED
        ).save(path)
    table = table_ref(delta, path)
    with prepare_delete(table, "id = 1") as ours:
        optimize(table, zorder_by=["id", "name"])
        append_one = delta.range(1, 2, 1, 1).selectExpr("id", "'v' AS name")
        append_one.write.format("delta").mode("append").save(path)
        optimize(table, zorder_by=["name", "id"])
        ours.commit()
    assert sorted(delta.read.format("delta").load(path).select("id").collect()) == [(0,)] * 6 + [(1,)]
    assert tracked(table)[1] == (24, 3)


def test_rows_that_changed_are_not_the_rows_that_were_read(delta: SparkSession, path: str) -> None:
    """Race 83: they are elsewhere, with the same ids; those that were only moved are found by theirs."""
    append(delta, path, 0, 6, **TRACKED)
    table = table_ref(delta, path)
    with prepare_update(table, {"k": "7L"}, "id = 1") as changes, prepare_delete(table, "id = 2") as deletes:
        append(delta, path, 6, 12)
        optimize(table, zorder_by=["name", "id"])
        DeltaTable.forPath(delta, path).update("id = 2", {"name": "'changed'"})
        optimize(table, zorder_by=["id", "name"])
        changes.commit()
        with pytest.raises(DeltaConcurrentModificationException):
            deletes.commit()
    due = tracked(table)
    assert (due[1], due[2][0], len({row_id for row_id, _ in due.values()})) == ((1, table.latest().version), 2, 12)


def compact_by_ids_alone(table: TableRef) -> None:
    """Another engine writes all rows to one file, with their ids and without their versions."""
    snapshot = table.latest()
    files = snapshot.files.to_actions()
    ids = pa.concat_arrays([pa.array(range(add.base_row_id or 0, (add.base_row_id or 0) + 3)) for add in files])
    rows = pa.concat_tables([stored(table, add.path) for add in files])
    name = snapshot.properties.materialized_row_id_column
    assert name is not None
    pq.write_table(rows.append_column(name, ids), Path(table.path) / "theirs.parquet")
    stats = json.dumps({"numRecords": rows.num_rows})
    size = (Path(table.path) / "theirs.parquet").stat().st_size
    theirs = AddFile(
        path="theirs.parquet", partition_values={}, size=size, modification_time=0, data_change=False, stats=stats
    )
    removes = [removal(add, removed_at_ms=table.session.clock.now_ms(), data_change=False) for add in files]
    table.begin_at(Operation(name="OPTIMIZE"), snapshot=snapshot).commit([*removes, theirs])


@pytest.mark.parametrize("kept", ["neither", "ids alone"])
def test_equal_rows_after_a_compaction_that_keeps_too_little(delta: SparkSession, path: str, kept: str) -> None:
    """Where a row might be taken for an equal one, the other's id would be there twice: then it is a conflict."""
    append(delta, path, 0, 3, **TRACKED)
    append(delta, path, 0, 3)
    table = table_ref(delta, path)
    with prepare_update(table, {"k": "7L"}, "id = 1") as ours:
        append(delta, path, 0, 3)
        rows = delta.read.format("delta").load(path).coalesce(1)
        if kept == "neither":
            rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)
            ours.commit()
        else:
            compact_by_ids_alone(table)
            with pytest.raises(ConcurrentDeleteDeleteException):
                ours.commit()
    read = delta.read.format("delta").load(path)
    tracked_rows = read.selectExpr("_metadata.row_id AS row_id", "k", "id").collect()
    assert len({row["row_id"] for row in tracked_rows}) == 9


def test_dropping_a_feature_moves_rows_that_keep_their_ids(delta: SparkSession, path: str) -> None:
    append(delta, path, 0, 10, **TRACKED, **{"delta.columnMapping.mode": "name"})
    append(delta, path, 10, 15)
    table = table_ref(delta, path)
    delete(delta, path, 2, 12)
    due = tracked(table)
    alter_drop_feature(table, "deletionVectors")
    assert tracked(table) == due
    alter_drop_feature(table, "columnMapping")
    assert tracked(table) == due
    columns = {field.name for add in table.latest().files.to_actions() for field in stored(table, add.path).schema}
    assert len(columns) == 5
    assert delta.read.format("delta").load(path).columns == ["id", "k", "name"]
    alter_drop_feature(table, "rowTracking")
    assert sorted(row[0] for row in delta.read.format("delta").load(path).select("id").collect()) == sorted(due)
    append(delta, path, 15, 16)
    optimize(table)
    assert stored(table, table.latest().files.to_actions()[0].path).column_names == ["id", "k", "name"]


def test_a_table_that_does_not_say_where_ids_are_kept(delta: SparkSession, path: str) -> None:
    append(delta, path, 0, 5, **TRACKED)
    append(delta, path, 5, 9)
    table = table_ref(delta, path)
    transaction = table.begin_at(Operation(name="SET TBLPROPERTIES"), snapshot=table.latest())
    assert transaction.metadata is not None
    left = {name: value for name, value in transaction.metadata.configuration.items() if "materialized" not in name}
    transaction.commit([msgspec.structs.replace(transaction.metadata, configuration=left)])
    with pytest.raises(RowTrackingColumnsError, match="materializedRowIdColumnName"):
        optimize(table)
