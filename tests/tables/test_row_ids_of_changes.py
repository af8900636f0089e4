"""Statements that change rows of a table with row tracking: who keeps its id, who gets one, and which version a row has."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef
from anabranch.tables import DeltaTable, IdentityGenerator
from interop.readers import read_by_delta_rs, read_by_duckdb
from tables.tracked_rows import Ids, append, last_commit, table_ref, tracked

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.parametrize("vectors", ["true", "false"]),
]


def made(delta: SparkSession, path: str, vectors: str, *, mapping: str = "none") -> TableRef:
    """Rows 0 to 9 in one file, 10 to 19 in another, each with a version of its own."""
    properties = {"enableRowTracking": "true", "enableDeletionVectors": vectors, "enableChangeDataFeed": "true"}
    table_properties = {f"delta.{name}": value for name, value in properties.items()}
    append(delta, path, 0, 10, **table_properties, **{"delta.columnMapping.mode": mapping})
    append(delta, path, 10, 20)
    return table_ref(delta, path)


def check(table: TableRef, before: Ids, *, changed: Collection[int] = (), gone: Collection[int] = ()) -> Ids:
    """Every row that was there has its id; those changed have the version of the last commit, the others theirs."""
    now, version = tracked(table), table.latest().version
    row_ids = {key: row_id for key, (row_id, _) in before.items()}
    due = {key: (row_id, version if key in changed else before[key][1]) for key, row_id in row_ids.items()}
    assert {key: ids for key, ids in now.items() if key in row_ids} == {k: v for k, v in due.items() if k not in gone}
    came = {key: ids for key, ids in now.items() if key not in row_ids}
    assert all(row_id > max(row_ids.values()) and at == version for row_id, at in came.values())
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
            rows = read(path)
            assert (rows.column_names, sorted(rows.column("id").to_pylist())) == (["id", "k", "name"], sorted(ids))
    feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    assert feed.columns == ["id", "k", "name", "_change_type", "_commit_version", "_commit_timestamp"]
    first = feed.where("_commit_version = 2").select("id", "name", "_change_type").collect()
    assert sorted(map(tuple, first)) == [
        (3, "changed", "update_postimage"),
        (3, "n0", "update_preimage"),
        (12, "changed", "update_postimage"),
        (12, "n0", "update_preimage"),
    ]


def test_rows_that_come_back_have_their_ids(delta: SparkSession, path: str, vectors: str) -> None:
    table = made(delta, path, vectors)
    rows = DeltaTable.forPath(delta, path)
    rows.update("id IN (3, 12)", {"name": "'changed'"})
    due, version = tracked(table), table.latest().version
    rows.delete("id IN (3, 4, 12)")
    rows.update("id = 5", {"name": "'other'"})
    append(delta, path, 20, 25)
    rows.restoreToVersion(version)
    assert tracked(table) == due
    append(delta, path, 25, 30)
    row_ids = {row_id for row_id, _ in due.values()}
    assert all(row_id > max(row_ids) + 5 for key, (row_id, _) in tracked(table).items() if key >= 25)

    alter_drop_feature(table, "rowTracking")
    rows.delete("id < 8")
    rows.restoreToVersion(version)
    assert not table.latest().properties.row_tracking_enabled
    assert sorted(row["id"] for row in rows.toDF().collect()) == list(range(20))
    rows.delete("id = 9")
    alter_set_properties(table, {"delta.enableRowTracking": "true"})
    restored = tracked(table)
    assert len({row_id for row_id, _ in restored.values()}) == 19
    rows.delete("id > 12")
    rows.restoreToVersion(version)
    now = tracked(table)
    assert len({row_id for row_id, _ in now.values()}) == 20


def test_rows_of_a_clone_have_ids_of_its_own(delta: SparkSession, path: str, vectors: str) -> None:
    """Its files say nothing of the ids that rows had in the other table, under the name that they have here."""
    table = made(delta, path, vectors)
    rows = DeltaTable.forPath(delta, path)
    rows.update("id IN (3, 12)", {"name": "'changed'"})
    rows.clone(f"{path} 2", True)
    clone = table_ref(delta, f"{path} 2")
    ids = delta.read.format("delta").load(clone.path).selectExpr("id", "_metadata.row_id AS row_id").collect()
    assert len({row["row_id"] for row in ids}) == 20
    DeltaTable.forPath(delta, clone.path).update("id IN (3, 13)", {"name": "'again'"})
    again = delta.read.format("delta").load(clone.path).selectExpr("id", "_metadata.row_id AS row_id").collect()
    assert dict(map(tuple, again)) == dict(map(tuple, ids))
    assert tracked(table)[3] == (3, 2)


def test_overwrites_and_streams_bring_new_rows(delta: SparkSession, path: str, vectors: str, tmp_path: Path) -> None:
    table = made(delta, path, vectors)
    frame = delta.range(2, 4, 1, 1).selectExpr("id", "9L AS k", "'new' AS name")
    before = tracked(table)
    frame.write.format("delta").mode("overwrite").option("replaceWhere", "id IN (2, 3)").save(path)
    now = tracked(table)
    assert {key: now[key] for key in now if key not in {2, 3}} == {k: v for k, v in before.items() if k not in {2, 3}}
    assert {now[2][1], now[3][1]} == {table.latest().version}
    assert min(now[2][0], now[3][0]) > 19
    assert last_commit(table)["commitInfo"][0]["tags"]["delta.rowTracking.preserved"] == "true"
    frame.write.format("delta").mode("overwrite").save(path)
    highest = max(row_id for row_id, _ in now.values())
    assert all(row_id > highest for row_id, _ in tracked(table).values())

    source, target = f"{path} 2", f"{path} 3"
    append(delta, source, 0, 5)
    append(delta, target, 100, 101, **{"delta.enableRowTracking": "true"})
    stream = delta.readStream.format("delta").load(source).writeStream.format("delta")
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(
        target
    ).awaitTermination()
    assert {row_id for row_id, _ in tracked(table_ref(delta, target)).values()} == set(range(6))


def test_beside_columns_that_the_table_makes(delta: SparkSession, path: str, vectors: str) -> None:
    """Partitions by a generated column, numbers, and a MERGE that brings a column."""
    (
        DeltaTable.create(delta)
        .location(path)
        .addColumn("id", "BIGINT")
        .addColumn("n", "BIGINT", generatedByDefaultAs=IdentityGenerator(start=1, step=1))
        .addColumn("part", "BIGINT", generatedAlwaysAs="id % 3")
        .addColumn("word", "STRING")
        .partitionedBy("part")
        .property("delta.enableRowTracking", "true")
        .property("delta.enableDeletionVectors", vectors)
        .property("delta.enableChangeDataFeed", "true")
        .execute()
    )
    table, rows = table_ref(delta, path), DeltaTable.forPath(delta, path)
    delta.range(0, 12, 1, 1).selectExpr("id", "'a' AS word").write.format("delta").mode("append").save(path)
    ids = tracked(table)
    rows.update("id IN (1, 2)", {"word": "'b'"})
    ids = check(table, ids, changed={1, 2})
    source = delta.range(2, 14, 1, 1).selectExpr("id", "'c' AS word", "true AS more")
    merging = rows.alias("t").merge(source.alias("s"), "t.id = s.id AND t.id < 5").withSchemaEvolution()
    merging.whenMatchedUpdateAll("s.id < 4").whenMatchedDelete().whenNotMatchedInsertAll("s.id > 11").execute()
    ids = check(table, ids, changed={2, 3}, gone={4})
    rows_read = rows.toDF().orderBy("id").collect()
    assert rows_read[0].asDict().keys() == {"id", "n", "part", "word", "more"}
    assert [(row.id, row.part, row.word, row.more) for row in rows_read[:4]] == [
        (0, 0, "a", None),
        (1, 1, "b", None),
        (2, 2, "c", True),
        (3, 0, "c", True),
    ]
    assert len({row.n for row in rows_read}) == len(rows_read) == len(ids) == 13


def test_statements_that_read_no_file(delta: SparkSession, path: str, vectors: str) -> None:
    """An empty table, and conditions that rule out every file: nothing is there that has an id."""
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, k BIGINT, name STRING) USING delta TBLPROPERTIES "
        f"('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    for condition in ("", "WHERE id > 100"):
        delta.sql(f"UPDATE delta.`{path}` SET name = 'x' {condition}")
        delta.sql(f"DELETE FROM delta.`{path}` {condition}")
    assert delta.sql(f"SELECT id, _metadata.row_id FROM delta.`{path}`").collect() == []
    merge = f"MERGE INTO delta.`{path}` t USING (SELECT id FROM range(3)) s ON t.id = s.id AND t.k > 100 WHEN MATCHED THEN DELETE"
    delta.sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 0)")
    ids = tracked(table_ref(delta, path))
    assert sorted(row_id for row_id, _ in ids.values()) == [0, 1, 2]
    delta.sql(f"UPDATE delta.`{path}` SET name = 'x' WHERE id > 100")
    assert tracked(table_ref(delta, path)) == ids
