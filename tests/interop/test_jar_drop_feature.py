"""Features that we dropped are gone for the delta-spark jar too, and those that it dropped are gone for us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.clock import SystemClock
from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef, table_at
from anabranch.errors.alterations import FeatureInHistoryError
from anabranch.protocol.features import supported_features
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables import DeltaTable
from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar, JarError
from interop.jar_tables import READABLE
from interop.readers import READERS

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

BY_US = {
    "vectors": "deletionVectors",
    "mapping by name": "columnMapping",
    "mapping by id": "columnMapping",
    "type widening": "typeWidening",
    "v2 checkpoints": "v2Checkpoint",
    "v2 checkpoints, JSON": "v2Checkpoint",
    "row tracking": "rowTracking",
    "in-commit timestamps": "inCommitTimestamp",
    "clustering": "clustering",
}
"""The feature that is dropped from each kind of table that the jar makes."""
BY_JAR = {
    kind: BY_US[kind]
    for kind in ("vectors", "mapping by id", "type widening", "v2 checkpoints", "row tracking", "in-commit timestamps")
}
"""The jar cannot drop clustering."""
BEFORE = {
    "mapping by name": [
        "ALTER TABLE {t} RENAME COLUMN `the part` TO part",
        "ALTER TABLE {t} RENAME COLUMN `the word` TO word",
        "ALTER TABLE {t} DROP COLUMN `new,one`",
    ]
}
"""What has to be done first: names that Parquet does not take."""


def made(jar: Jar, root: str, kind: str) -> None:
    statements = [*READABLE[kind], *BEFORE.get(kind, ())]
    jar.run(*(statement.format(t=f"delta.`{root}`") for statement in statements))


def ours(native: SparkSession, root: str) -> TableRef:
    return table_at(DeltaSession.of(native), root)


def read_alike(jar: Jar, native: SparkSession, root: str, *, by_others: bool = True) -> int:
    """How many rows there are; the jar, delta-rs and DuckDB read the same."""
    here = native.read.format("delta").load(root).toArrow()
    rows = rows_of(here)
    assert explain(rows, rows_of(jar.rows(f"SELECT * FROM delta.`{root}`"), here.column_names)) == ""
    for name in ("delta-rs", "DuckDB") if by_others else ():
        assert explain(rows, rows_of(READERS[name](root), here.column_names)) == "", name
    return len(here)


@pytest.mark.parametrize("kind", BY_US)
def test_we_drop_and_the_jar_goes_on(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    root = str(tmp_path / "t")
    made(jar, root, kind)
    before = native.read.format("delta").load(root).toArrow()
    table = ours(native, root)
    alter_drop_feature(table, BY_US[kind])
    assert explain(rows_of(native.read.format("delta").load(root).toArrow()), rows_of(before)) == ""
    count = read_alike(jar, native, root)
    features = jar.rows(f"DESCRIBE DETAIL delta.`{root}`").to_pylist()[0]["tableFeatures"]
    assert BY_US[kind] not in features
    jar.run(f"INSERT INTO delta.`{root}` SELECT * FROM delta.`{root}` LIMIT 1")
    jar.run(f"OPTIMIZE delta.`{root}`")
    native.read.format("delta").load(root).limit(1).write.format("delta").mode("append").save(root)
    assert read_alike(jar, native, root) == count + 2
    version = table.latest().version
    for old in (1, version - 4):
        theirs = jar.rows(f"SELECT * FROM delta.`{root}` VERSION AS OF {old}")
        here = native.read.format("delta").option("versionAsOf", old).load(root).toArrow()
        assert explain(rows_of(here), rows_of(theirs, here.column_names)) == ""


@pytest.mark.parametrize("kind", BY_JAR)
def test_the_jar_drops_and_we_go_on(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    root = str(tmp_path / "t")
    made(jar, root, kind)
    before = native.read.format("delta").load(root).toArrow()
    jar.run(f"ALTER TABLE delta.`{root}` DROP FEATURE {BY_JAR[kind]}")
    assert explain(rows_of(native.read.format("delta").load(root).toArrow()), rows_of(before)) == ""
    assert BY_JAR[kind] not in supported_features(ours(native, root).latest().protocol)
    frame = native.read.format("delta").load(root)
    frame.limit(1).write.format("delta").mode("append").save(root)
    column = before.column_names[0]
    DeltaTable.forPath(native, root).delete(f"`{column}` IS NULL")
    read_alike(jar, native, root)


def test_both_drop_in_turn(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Each moves the bound of what the other protects; each takes the other's protection away when it is time."""
    root = str(tmp_path / "t")
    properties = (
        "'delta.checkpointPolicy' = 'v2', 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"
    )
    jar.run(
        f"CREATE TABLE delta.`{root}` (id INT, w STRING) USING delta TBLPROPERTIES ({properties})",
        f"INSERT INTO delta.`{root}` VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        f"DELETE FROM delta.`{root}` WHERE id = 2",
    )
    table = ours(native, root)
    first = alter_drop_feature(table, "v2Checkpoint")
    jar.run(f"ALTER TABLE delta.`{root}` DROP FEATURE deletionVectors")
    bound = table.latest().properties.checkpoint_protection_version
    assert bound > first.version
    with pytest.raises(JarError, match=r"WAIT_FOR_RETENTION_PERIOD|HISTORICAL_VERSIONS_EXIST"):
        jar.run(f"ALTER TABLE delta.`{root}` DROP FEATURE columnMapping TRUNCATE HISTORY")
    with pytest.raises(FeatureInHistoryError):
        alter_drop_feature(table, "columnMapping", truncate_history=True)
    landed = alter_drop_feature(table, "columnMapping")
    assert landed.snapshot.properties.checkpoint_protection_version == landed.version
    assert read_alike(jar, native, root) == 2
    with pytest.raises(JarError, match="CHECKPOINT_PROTECTION"):
        jar.run(f"ALTER TABLE delta.`{root}` DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    day_later(Path(root) / "_delta_log")
    jar.run(f"ALTER TABLE delta.`{root}` DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    protocol = table.latest().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert read_alike(jar, native, root) == 2


def day_later(log: Path) -> None:
    """Every file of the log becomes 25 hours older."""
    for file in log.iterdir():
        if file.is_file() and not file.name.startswith("."):
            seconds = file.stat().st_mtime - 25 * 60 * 60
            os.utime(file, (seconds, seconds))
    assert SystemClock().now_ms() / 1000 - max(file.stat().st_mtime for file in log.glob("0*.json")) > 24 * 60 * 60


def test_history_that_we_truncated(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    made(jar, root, "vectors")
    table = ours(native, root)
    with pytest.raises(FeatureInHistoryError):
        alter_drop_feature(table, "deletionVectors", truncate_history=True)
    count = read_alike(jar, native, root)
    day_later(Path(root) / "_delta_log")
    alter_drop_feature(table, "deletionVectors", truncate_history=True)
    protocol = table.latest().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert read_alike(jar, native, root) == count
    jar.run(f"VACUUM delta.`{root}`", f"UPDATE delta.`{root}` SET part = 7 WHERE id = 1")
    assert read_alike(jar, native, root) == count


def test_vector_files_survive_a_vacuum_by_the_jar(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Older versions are read by vectors that the table does not know any more."""
    root = str(tmp_path / "t")
    jar.run(
        f"CREATE TABLE delta.`{root}` USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS "
        "SELECT /*+ COALESCE(1) */ id FROM range(2000)",
        f"DELETE FROM delta.`{root}` WHERE id % 3 = 0",
    )
    alter_drop_feature(ours(native, root), "deletionVectors")
    vectors = set(Path(root).glob("*.bin"))
    assert vectors
    jar.run(f"VACUUM delta.`{root}`")
    assert set(Path(root).glob("*.bin")) == vectors
    for old in (0, 1):
        theirs = jar.rows(f"SELECT * FROM delta.`{root}` VERSION AS OF {old}")
        assert len(theirs) == (2000, 1333)[old]
        assert native.read.format("delta").option("versionAsOf", old).load(root).count() == len(theirs)


def test_clustering_by_logical_names(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Without mapping, clustering columns go by the names that users see, for the jar as well."""
    root = str(tmp_path / "t")
    native.sql("SELECT id AS a, id % 3 AS b FROM range(10)").write.format("delta").save(root)
    table = ours(native, root)
    alter_set_properties(table, {"delta.columnMapping.mode": "name"})
    jar.run(f"ALTER TABLE delta.`{root}` RENAME COLUMN b TO c")
    alter_cluster_by(table, [("c",)])
    alter_set_properties(table, {"delta.columnMapping.mode": "none"})
    jar.run(f"INSERT INTO delta.`{root}` VALUES (1, 1)", f"OPTIMIZE delta.`{root}`")
    assert jar.rows(f"DESCRIBE DETAIL delta.`{root}`").to_pylist()[0]["clusteringColumns"] == ["c"]
    assert clustering_columns(table.latest()) == (("c",),)
    assert read_alike(jar, native, root) == 11
