"""Tables without vectors: files that statements rewrite."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable
from tables.made_tables import make_table

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize("by", [(), ("part",)])
@pytest.mark.parametrize("feed", ["false", "true"])
def test_changed_rows_stay_with_their_file(delta: SparkSession, path: str, by: tuple[str, ...], feed: str) -> None:
    """Bug B41: UPDATE and MERGE write the rows that change and those that stay together. One file remains one."""
    frame = delta.range(0, 20, 1, 1).select("id", F.lit(0).cast("long").alias("n"), (F.col("id") % 2).alias("part"))
    table = make_table(delta, path, frame, by=by, enableDeletionVectors="false", enableChangeDataFeed=feed)
    for changed in (2, 4):
        table.update(f"id = {changed}", {"n": "n + 1"})
        source = delta.createDataFrame([(changed, 5, 0), (100 + changed, 7, 0)], "id long, n long, part long")
        merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"})
        merge.whenNotMatchedInsertAll().execute()
        recorded = last(table)
        assert recorded["numTargetRowsCopied"] == str((8 if by else 18) + changed // 2)
        assert (recorded["numTargetRowsUpdated"], recorded["numTargetRowsInserted"]) == ("1", "1")
    assert table.detail().collect()[0].numFiles == (2 if by else 1)
    expected = {id_: 6 if id_ in (2, 4) else 0 for id_ in range(20)} | {102: 7, 104: 7}
    assert {row.id: row.n for row in table.toDF().collect()} == expected
    if feed == "true":
        changes = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
        assert sorted((row._commit_version, row._change_type, row.id, row.n) for row in changes.collect()) == [
            (1, "update_postimage", 2, 1),
            (1, "update_preimage", 2, 0),
            (2, "insert", 102, 7),
            (2, "update_postimage", 2, 6),
            (2, "update_preimage", 2, 1),
            (3, "update_postimage", 4, 1),
            (3, "update_preimage", 4, 0),
            (4, "insert", 104, 7),
            (4, "update_postimage", 4, 6),
            (4, "update_preimage", 4, 1),
        ]


def last(table: DeltaTable) -> Any:
    return table.history(1).collect()[0].operationMetrics
