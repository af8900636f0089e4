"""Rows that are written to other files keep the ids and versions by which row tracking tells them, on every engine."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyspark.sql import SparkSession
from readers import read_by_delta_rs, read_by_duckdb

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.optimize.optimize_command import optimize
from anabranch.commands.optimize.purge import purge
from anabranch.errors.maintenance import RowTrackingColumnsError
from anabranch.transaction.proposed_commit import Operation
from tables.tracked_rows import TRACKED, append, delete, handle, last_commit, stored, tracked

pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize("mode", ["none", "id"])
def test_rows_keep_their_ids_wherever_they_go(delta: SparkSession, path: str, mode: str) -> None:
    append(delta, path, 0, 10, **TRACKED, **{"delta.columnMapping.mode": mode})
    append(delta, path, 10, 30)
    table = handle(delta, path)
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


def test_equal_rows_are_told_apart_by_their_ids(delta: SparkSession, path: str) -> None:
    """A DELETE that was overtaken hides the very rows that it chose, and no equal ones."""
    for _ in range(2):
        delta.range(0, 6, 1, 1).selectExpr("id % 2 AS id", "'v' AS name").write.format("delta").mode("append").options(
            **TRACKED
        ).save(path)
    table = handle(delta, path)
    with prepare_delete(table, "id = 1") as ours:
        optimize(table, zorder_by=["id", "name"])
        append_one = delta.range(1, 2, 1, 1).selectExpr("id", "'v' AS name")
        append_one.write.format("delta").mode("append").save(path)
        optimize(table, zorder_by=["name", "id"])
        ours.commit()
    assert sorted(delta.read.format("delta").load(path).select("id").collect()) == [(0,)] * 6 + [(1,)]
    assert tracked(table)[1] == (24, 3)


def test_dropping_a_feature_moves_rows_that_keep_their_ids(delta: SparkSession, path: str) -> None:
    append(delta, path, 0, 10, **TRACKED, **{"delta.columnMapping.mode": "name"})
    append(delta, path, 10, 15)
    table = handle(delta, path)
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
    table = handle(delta, path)
    transaction = table.begin_at(Operation(name="SET TBLPROPERTIES"), snapshot=table.latest())
    assert transaction.metadata is not None
    left = {name: value for name, value in transaction.metadata.configuration.items() if "materialized" not in name}
    transaction.commit([msgspec.structs.replace(transaction.metadata, configuration=left)])
    with pytest.raises(RowTrackingColumnsError, match="materializedRowIdColumnName"):
        optimize(table)
