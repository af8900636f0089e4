"""SHALLOW CLONE: a table of its own that begins with another's files, and never touches them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.protocol import UnsafePathError
from anabranch.errors.schema import ColumnMappingChangeError
from anabranch.errors.tables import CloneOntoItselfError, DeepCloneError, TableAlreadyExistsError
from anabranch.tables import DeltaTable
from tables.made_tables import make_table

pytestmark = pytest.mark.spark
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
PLACES = "spark.anabranch.allowedPathPrefixes"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Where the table that is cloned goes."""
    return str(tmp_path / "the source%20é")


def ids(table: DeltaTable) -> list[int]:
    return sorted(row.id for row in table.toDF().select("id").collect())


def bytes_below(folder: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


def source_table(delta: SparkSession, path: str) -> DeltaTable:
    """Partitions whose folders have names that are encoded, and a vector that fills a file of its own."""
    rows = delta.range(0, 2000, 1, 1).selectExpr("id", "concat('p ', id % 2) AS part")
    table = make_table(delta, path, rows, by=("part",))
    table.delete("part = 'p 0' AND id % 3 = 0")
    assert any(name.startswith("deletion_vector") for name in os.listdir(path))
    return table


def test_everything_works_on_a_clone_and_nothing_of_it_on_the_source(
    delta: SparkSession, source: str, path: str
) -> None:
    original = source_table(delta, source)
    before, there = bytes_below(source), ids(original)
    clone = original.clone(path, isShallow=True, properties={"mine": "1"})
    assert ids(clone) == there
    assert [name for name in os.listdir(path) if not name.startswith("_")] == []
    assert clone.detail().first().properties["mine"] == "1"

    clone.delete("id < 4")
    clone.update("id = 5", {"id": "-5"})
    added = delta.createDataFrame([(7, "p 1"), (-1, "p 0")], "id long, part string")
    matched = clone.alias("t").merge(added.alias("s"), "t.id = s.id AND t.part = s.part")
    matched.whenMatchedDelete().whenNotMatchedInsertAll().execute()
    added.where("id = 7").write.format("delta").mode("append").save(path)
    expected = sorted([-5, -1, *(number for number in there if number > 3 and number != 5)])
    assert ids(clone) == expected
    assert clone.toDF().where("part = 'p 0'").count() == sum(number % 2 == 0 for number in expected) + 1

    clone.optimize().executeCompaction()
    assert ids(clone) == expected
    clone.restoreToVersion(0)
    delta.conf.set(RETENTION_CHECK, "false")
    try:
        clone.vacuum(0)
    finally:
        delta.conf.unset(RETENTION_CHECK)
    assert ids(clone) == there
    assert bytes_below(source) == before


def test_a_clone_is_read_where_its_source_is_allowed_and_nowhere_else(
    delta: SparkSession, source: str, path: str, tmp_path: Path
) -> None:
    """Who made the clone may read it; another session says whose files it trusts. A clone's clone reads both."""
    original = source_table(delta, source)
    clone = original.cloneAtVersion(0, path, True)
    assert ids(clone) == list(range(2000))
    delta.range(5000, 5001).selectExpr("id", "'p 0' AS part").write.format("delta").mode("append").save(path)
    again = clone.clone(str(tmp_path / "second"), True)
    assert ids(again) == [*range(2000), 5000]
    again.delete("id > 0")
    assert (ids(again), len(ids(clone)), len(ids(original))) == ([0], 2001, 1667 - 1)

    other = anabranch.enable(delta.newSession())
    with pytest.raises(UnsafePathError, match=PLACES):
        other.read.format("delta").load(path).collect()
    other.conf.set(PLACES, str(tmp_path / "elsewhere"))
    with pytest.raises(UnsafePathError):
        other.read.format("delta").load(path).collect()
    other.conf.set(PLACES, f"/none, file:{source}")
    assert other.read.format("delta").load(path).count() == 2001


@pytest.mark.parametrize("source_elsewhere", [True, False])
def test_a_clone_in_another_store(native: SparkSession, tmp_path: Path, *, source_elsewhere: bool) -> None:
    """A mounted file system of Hadoop's in the place of one; on S3 in `make test-s3a`."""
    configuration = native.sparkContext._jsc.hadoopConfiguration()
    mounts = f"mounts-{source_elsewhere}"  # Hadoop keeps the file system that it has once opened.
    configuration.set(f"fs.viewfs.mounttable.{mounts}.link./data", tmp_path.as_uri())
    configuration.set("anabranch.hadoop.atomicRenameSchemes", "file")
    folders = [f"viewfs://{mounts}/data/there", str(tmp_path / "here")]
    source, clone = folders if source_elsewhere else folders[::-1]
    try:
        native.range(0, 10, 1, 1).write.format("delta").save(source)
        native.sql(f"DELETE FROM delta.`{source}` WHERE id = 3")
        native.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
        native.sql(f"DELETE FROM delta.`{clone}` WHERE id = 5")
        native.sql(f"UPDATE delta.`{clone}` SET id = 70 WHERE id = 7")
        changed = [0, 1, 2, 4, 6, 8, 9, 70]
        assert ids(DeltaTable.forPath(native, clone)) == changed
        native.sql(f"OPTIMIZE delta.`{clone}`")
        assert ids(DeltaTable.forPath(native, clone)) == changed
        native.sql(f"RESTORE delta.`{clone}` TO VERSION AS OF 0")
        assert ids(DeltaTable.forPath(native, clone)) == ids(DeltaTable.forPath(native, source))
    finally:
        configuration.unset("anabranch.hadoop.atomicRenameSchemes")


def test_a_table_that_is_there_becomes_a_clone(delta: SparkSession, source: str, path: str) -> None:
    original = make_table(delta, source, delta.range(0, 10, 1, 1))
    delta.range(50).coalesce(1).selectExpr("id AS other").write.format("delta").save(path)
    size = DeltaTable.forPath(delta, path).detail().first()
    with pytest.raises(TableAlreadyExistsError):
        original.clone(path, True)
    clone = original.clone(path, True, replace=True)
    entry = clone.history(1).first()
    assert (entry.version, entry.operation) == (1, "CLONE")
    assert entry.operationParameters == {"source": f"delta.`{source}`", "sourceVersion": "0"}
    own = original.detail().first()
    assert entry.operationMetrics == {
        "sourceTableSize": str(own.sizeInBytes),
        "sourceNumOfFiles": "1",
        "numRemovedFiles": "1",
        "numCopiedFiles": "0",
        "removedFilesSize": str(size.sizeInBytes),
        "copiedFilesSize": "0",
    }
    assert (clone.toDF().columns, ids(clone)) == (["id"], list(range(10)))
    assert clone.detail().first().id == size.id != own.id

    # Cloned back: the source has its very files again, with what the clone added.
    clone.delete("id < 5")
    delta.range(90, 91).write.format("delta").mode("append").save(path)
    back = clone.clone(source, True, replace=True)
    assert ids(back) == [5, 6, 7, 8, 9, 90]
    log = Path(source, "_delta_log", f"{1:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"]["path"] for line in log if "add" in json.loads(line)]
    assert sorted("/" in added for added in adds) == [False, True]
    with pytest.raises(CloneOntoItselfError, match="RESTORE"):
        back.cloneAtVersion(0, source, True, True)


def test_a_clone_counts_for_itself(delta: SparkSession, source: str, path: str) -> None:
    """Identity columns go on behind the source's values, row ids start again, commits have times from the first on."""
    name = f"delta.`{source}`"
    delta.sql(
        f"CREATE TABLE {name} (k BIGINT GENERATED ALWAYS AS IDENTITY, id INT) USING delta CLUSTER BY (id) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')"
    )
    delta.sql(f"INSERT INTO {name} (id) VALUES (10), (20)")
    delta.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    original = DeltaTable.forPath(delta, source)
    clone = original.clone(path, True)
    delta.sql(f"INSERT INTO delta.`{path}` (id) VALUES (30)")
    assert sorted(tuple(row) for row in clone.toDF().collect())[:2] == sorted(map(tuple, original.toDF().collect()))
    assert max(row.k for row in clone.toDF().collect()) > 2
    described, own = clone.detail().first(), original.detail().first()
    assert described.clusteringColumns == own.clusteringColumns == ["id"]
    assert described.tableFeatures == own.tableFeatures
    column = "delta.rowTracking.materializedRowIdColumnName"
    assert described.properties[column] != own.properties[column]
    assert "delta.inCommitTimestampEnablementVersion" not in described.properties
    with pytest.raises(ColumnMappingChangeError):
        original.clone(path + "2", True, properties={"delta.columnMapping.mode": "none"})


def test_arguments_are_checked_with_deltas_words(delta: SparkSession, source: str, path: str) -> None:
    table = make_table(delta, source, delta.range(1))
    with pytest.raises(DeepCloneError, match="SHALLOW"):
        table.clone(path)
    for wrong, message in [
        ((5, True), "target needs to be a string but got '<class 'int'>'"),
        ((path, "yes"), "isShallow needs to be a boolean"),
        ((path, True, 1), "replace needs to be a boolean"),
        ((path, True, True, [1]), "properties needs to be a dict"),
        ((path, True, True, {1: "a"}), "All property keys including 1 needs to be a string"),
        ((path, True, True, {"a": 1}), "All property values including 1 needs to be a string"),
    ]:
        with pytest.raises(ValueError, match=message):
            table.clone(*wrong)
    with pytest.raises(ValueError, match="version needs to be an int"):
        table.cloneAtVersion("0", path, True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timestamp needs to be a string"):
        table.cloneAtTimestamp(0, path, True)  # type: ignore[arg-type]
    assert not os.path.exists(path)
