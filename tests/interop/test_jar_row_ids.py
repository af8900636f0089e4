"""Row ids and versions of tables that the delta-spark jar and we change in turn, beside tables that it changes alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

LAYOUTS = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "copy on write": "'delta.enableDeletionVectors' = 'false', 'delta.columnMapping.mode' = 'name'",
}
ROWS = "SELECT id, id % 4 AS part, concat('w', id) AS word FROM range({}, {}, 1, 1)"
STATEMENTS = [
    f"INSERT INTO {{t}} {ROWS.format(20, 40)}",
    "UPDATE {t} SET word = 'one' WHERE id IN (3, 23)",
    "DELETE FROM {t} WHERE id IN (4, 24)",
    "UPDATE {t} SET word = 'two' WHERE id % 3 = 0",
    f"INSERT INTO {{t}} {ROWS.format(40, 50)}",
    """MERGE INTO {t} USING (SELECT id, 1 AS part, 'merged' AS word FROM range(36, 60, 1, 1)) s ON {t}.id = s.id
       WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET word = s.word WHEN MATCHED AND s.id = 37 THEN DELETE
       WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND {t}.id < 3 THEN UPDATE SET word = 'left'""",
    "OPTIMIZE {t}",
    "UPDATE {t} SET part = 7 WHERE id > 30",
    "MERGE INTO {t} USING (SELECT id FROM range(0, 50, 5, 1)) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    "UPDATE {t} SET word = 'all'",
    f"INSERT INTO {{t}} {ROWS.format(60, 70)}",
    "DELETE FROM {t} WHERE part = 7 AND id > 52",
]


def ids(jar: Jar, root: str) -> dict[int, tuple[int, int]]:
    query = f"SELECT id, _metadata.row_id AS r, _metadata.row_commit_version AS v FROM delta.`{root}`"
    rows = jar.rows(query).to_pylist()
    assert len({row["r"] for row in rows}) == len(rows)
    return {row["id"]: (row["r"], row["v"]) for row in rows}


@pytest.mark.parametrize(("layout", "first"), [("vectors", 0), ("copy on write", 1)])
def test_rows_have_the_ids_that_the_jar_alone_gives_them(
    jar: Jar, native: SparkSession, tmp_path: Path, layout: str, first: int
) -> None:
    """Every other statement is ours. The order of a MERGE's new rows is not compared."""
    alone, both = str(tmp_path / "alone"), str(tmp_path / "both")
    for root in (alone, both):
        properties = f"'delta.enableRowTracking' = 'true', {LAYOUTS[layout]}"
        jar.run(f"CREATE TABLE delta.`{root}` USING delta TBLPROPERTIES ({properties}) AS {ROWS.format(0, 20)}")
    merged = set[int]()
    for number, statement in enumerate(STATEMENTS):
        existing = set(ids(jar, both))
        jar.run(statement.format(t=f"delta.`{alone}`"))
        if number % 2 == first:
            native.sql(statement.format(t=f"delta.`{both}`"))
        else:
            jar.run(statement.format(t=f"delta.`{both}`"))
        theirs, ours = ids(jar, alone), ids(jar, both)
        if "NOT MATCHED" in statement:
            merged = theirs.keys() - existing
        assert {key: version for key, (_, version) in ours.items()} == {k: v for k, (_, v) in theirs.items()}, statement
        assert {key: row_id for key, (row_id, _) in ours.items() if key not in merged} == {
            key: row_id for key, (row_id, _) in theirs.items() if key not in merged
        }, statement
    here = native.sql(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM delta.`{both}`").collect()
    assert {row[0]: (row[1], row[2]) for row in here} == ids(jar, both)


def test_ids_given_to_rows_that_are_there(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """By us and by the jar, and kept by both."""
    for root, ours in ((str(tmp_path / "ours"), True), (str(tmp_path / "theirs"), False)):
        jar.run(
            f"CREATE TABLE delta.`{root}` USING delta AS {ROWS.format(0, 20)}",
            f"INSERT INTO delta.`{root}` {ROWS.format(20, 40)}",
            f"DELETE FROM delta.`{root}` WHERE id = 3",
        )
        enable = f"ALTER TABLE delta.`{root}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
        one, other = (native.sql, jar.run) if ours else (jar.run, native.sql)
        one(enable)
        before = ids(jar, root)
        change = f"UPDATE delta.`{root}` SET word = 'changed' WHERE id % 7 = 1"
        other(change)
        after = ids(jar, root)
        assert {key: row_id for key, (row_id, _) in after.items()} == {
            key: row_id for key, (row_id, _) in before.items()
        }
        assert {key for key in after if after[key] != before[key]} == {1, 8, 15, 22, 29, 36}
