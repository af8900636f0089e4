"""VACUUM of ours and of the jar, on the same table: they name the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable
from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def of_jar(jar: Jar, statement: str, root: str) -> list[str]:
    """The jar's files, without folders that it takes for empty, as their files are younger than what it looks at: it leaves them there."""
    paths = [str(path).removeprefix(f"file:{root}/") for path in jar.rows(statement)["path"].to_pylist()]
    return sorted(path for path in paths if not (Path(root, path).is_dir() and any(Path(root, path).iterdir())))


def of_ours(native: SparkSession, statement: str, root: str) -> list[str]:
    return sorted(row.path.removeprefix(f"file:{root}/") for row in native.sql(statement).collect())


def test_dry_runs_name_the_same_files(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Partitions of odd names, vectors, change data, what is hidden, orphans; FULL and LITE; and one after the other."""
    root = str(tmp_path / "a table")
    jar.run(
        f"CREATE TABLE delta.`{root}` (id BIGINT, _c STRING) USING delta PARTITIONED BY (_c) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
        f"INSERT INTO delta.`{root}` SELECT /*+ COALESCE(1) */ id, element_at(array('x', 'a/b', 'a b', 'é%'), "
        "CAST(id % 4 + 1 AS INT)) FROM range(4000)",
        f"DELETE FROM delta.`{root}` WHERE id % 3 = 0",
        f"DELETE FROM delta.`{root}` WHERE id % 5 = 0 OR _c = 'a b'",
        f"UPDATE delta.`{root}` SET id = -id WHERE id % 7 = 1",
        f"SET {CHECK} = false",
    )
    for orphan in (
        "orphan.parquet",
        "_c=x/orphan",
        "_mine/x",
        ".x",
        "_change_data/orphan",
        "_delta_index/x",
        "deep/er/x",
    ):
        Path(root, orphan).parent.mkdir(parents=True, exist_ok=True)
        Path(root, orphan).write_text("x")
        os.utime(Path(root, orphan), (1.7e9, 1.7e9))
    table = DeltaTable.forPath(native, root)
    count = table.toDF().count()
    native.conf.set(CHECK, "false")
    try:
        for clauses, at_least in (("", 3), ("RETAIN 0 HOURS", 8), ("LITE RETAIN 0 HOURS", 3), ("LITE", 0)):
            statement = f"VACUUM delta.`{root}` {clauses} DRY RUN"
            theirs = of_jar(jar, statement, root)
            assert of_ours(native, statement, root) == theirs, clauses
            assert len(theirs) >= at_least, theirs

        native.sql(f"VACUUM delta.`{root}` LITE RETAIN 0 HOURS")
        jar.run(f"INSERT INTO delta.`{root}` VALUES (1, 'x')", f"DELETE FROM delta.`{root}` WHERE id % 7 = 0")
        statement = f"VACUUM delta.`{root}` LITE RETAIN 0 HOURS DRY RUN"
        theirs = of_jar(jar, statement, root)
        assert of_ours(native, statement, root) == theirs, "both go on where the hint says"
        assert theirs
        jar.run(f"VACUUM delta.`{root}` LITE RETAIN 0 HOURS")
        assert of_ours(native, statement, root) == []
        native.sql(f"VACUUM delta.`{root}` RETAIN 0 HOURS")
        assert of_jar(jar, f"VACUUM delta.`{root}` RETAIN 0 HOURS DRY RUN", root) == []
    finally:
        native.conf.unset(CHECK)
    left = native.sql(f"SELECT * FROM delta.`{root}`").count()
    assert jar.rows(f"SELECT count(*) AS n FROM delta.`{root}`")["n"].to_pylist() == [left]
    assert left < count
    entries = jar.rows(f"DESCRIBE HISTORY delta.`{root}`")["operation"].to_pylist()
    assert entries[:4] == ["VACUUM END", "VACUUM START"] * 2
