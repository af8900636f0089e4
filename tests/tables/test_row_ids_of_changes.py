"""Statements that change rows of a table with row tracking: who keeps its id, who gets one, and which version a row has."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from pyspark.sql import SparkSession
from readers import read_by_delta_rs, read_by_duckdb

from anabranch.commands.table_access import TableRef
from anabranch.tables import DeltaTable
from tables.tracked_rows import Ids, append, handle, last_commit, tracked

pytestmark = [pytest.mark.spark]


def made(delta: SparkSession, path: str, vectors: str, *, mapping: str = "none") -> TableRef:
    """Rows 0 to 9 in one file, 10 to 19 in another, each with a version of its own."""
    properties = {"enableRowTracking": "true", "enableDeletionVectors": vectors, "enableChangeDataFeed": "true"}
    told = {f"delta.{name}": value for name, value in properties.items()}
    append(delta, path, 0, 10, **told, **{"delta.columnMapping.mode": mapping})
    append(delta, path, 10, 20)
    return handle(delta, path)


def check(table: TableRef, before: Ids, *, changed: Collection[int] = (), gone: Collection[int] = ()) -> Ids:
    """Every row that was there has its id; those changed have the version of the last commit, the others theirs."""
    now, version = tracked(table), table.latest().version
    known = {key: row_id for key, (row_id, _) in before.items()}
    due = {key: (row_id, version if key in changed else before[key][1]) for key, row_id in known.items()}
    assert {key: ids for key, ids in now.items() if key in known} == {k: v for k, v in due.items() if k not in gone}
    came = {key: ids for key, ids in now.items() if key not in known}
    assert all(row_id > max(known.values()) and at == version for row_id, at in came.values())
    assert len({row_id for row_id, _ in now.values()}) == len(now)
    assert last_commit(table)["commitInfo"][0]["tags"]["delta.rowTracking.preserved"] == "true"
    return now


def test_rows_that_change_keep_their_ids(delta: SparkSession, path: str, vectors: str) -> None:
    mapping = "none" if vectors == "true" else "id"
    table = made(delta, path, vectors, mapping=mapping)
    rows = DeltaTable.forPath(delta, path)
    ids = tracked(table)
    assert (ids[9], ids[10]) == ((9, 0), (10, 1))

    rows.update("id IN (3, 12)", {"name": "'changed'"})
    ids = check(table, ids, changed={3, 12})
    rows.delete("id IN (4, 3)")
    ids = check(table, ids, gone={3, 4})
    rows.update("id IN (12, 13)", {"name": "'again'"})
    ids = check(table, ids, changed={12, 13})

    source = delta.range(11, 25).selectExpr("id", "'merged' AS name")
    merging = rows.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenMatchedUpdate("s.id < 14", {"name": "s.name"}).whenMatchedDelete("s.id = 19")
    merging = merging.whenNotMatchedInsert(values={"id": "s.id", "k": "0L", "name": "s.name"})
    merging.whenNotMatchedBySourceUpdate("t.id = 0", {"name": "'left'"}).execute()
    gone = {19}
    ids = {key: value for key, value in ids.items() if key not in {3, 4}}
    ids = check(table, ids, changed={0, 11, 12, 13}, gone=gone)
    assert set(range(20, 25)) < set(ids)

    source = delta.range(30, 33).selectExpr("id", "0L AS k", "'new' AS name")
    rows.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    ids = check(table, ids)
    rows.update(set={"name": "'all'"})
    ids = check(table, ids, changed=set(ids))
    table_rows = {row["id"]: row["name"] for row in rows.toDF().collect()}
    assert table_rows == dict.fromkeys(ids, "all")
    assert rows.toDF().columns == ["id", "k", "name"]
    if mapping == "none":
        for read in (read_by_delta_rs, read_by_duckdb):
            found = read(path)
            assert (found.column_names, sorted(found.column("id").to_pylist())) == (["id", "k", "name"], sorted(ids))
    feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    assert feed.columns == ["id", "k", "name", "_change_type", "_commit_version", "_commit_timestamp"]
    first = feed.where("_commit_version = 2").select("id", "name", "_change_type").collect()
    assert sorted(map(tuple, first)) == [
        (3, "changed", "update_postimage"),
        (3, "n0", "update_preimage"),
        (12, "changed", "update_postimage"),
        (12, "n0", "update_preimage"),
    ]
