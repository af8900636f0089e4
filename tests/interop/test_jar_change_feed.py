"""Change data feeds that the delta-spark jar and anabranch write, each read by both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

PROPERTIES = {
    "vectors": "'delta.enableDeletionVectors' = 'true'",
    "copy on write": "'delta.enableDeletionVectors' = 'false'",
    "mapped by id": "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'id'",
    "mapped by name": "'delta.enableDeletionVectors' = 'false', 'delta.columnMapping.mode' = 'name'",
}


def statements(root: str, properties: str) -> list[str]:
    """Each says the same to both engines."""
    table = f"delta.`{root}`"
    columns = "(id INT, n INT, part INT) USING delta PARTITIONED BY (part)"
    source = "(SELECT * FROM VALUES (4, 40), (5, 50), (50, 500) AS s(id, n)) s"
    return [
        f"CREATE TABLE {table} {columns} TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', {properties})",
        f"INSERT INTO {table} SELECT id, id, id % 2 FROM range(0, 20, 1, 1)",
        f"UPDATE {table} SET n = n + 1000 WHERE id IN (1, 2)",
        f"DELETE FROM {table} WHERE id IN (2, 3)",
        f"UPDATE {table} SET part = 7 WHERE id = 6",
        f"MERGE INTO {table} t USING {source} ON t.id = s.id WHEN MATCHED AND s.id = 4 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n, part) VALUES (s.id, s.n, 0)",
        f"INSERT INTO {table} REPLACE WHERE id >= 18 SELECT 18, 1, 0",
        f"OPTIMIZE {table}",
        f"DELETE FROM {table} WHERE id = 8",
        f"DELETE FROM {table} WHERE part = 1",
        f"INSERT OVERWRITE {table} SELECT 1, 1, 1",
    ]


@pytest.mark.parametrize("kind", PROPERTIES)
def test_both_write_and_read_the_same_feed(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    changes = {}
    for writer in ("jar", "ours"):
        root = str(tmp_path / writer)
        for statement in statements(root, PROPERTIES[kind]):
            jar.run(statement) if writer == "jar" else native.sql(statement)
        query = f"SELECT * FROM table_changes_by_path('{root}', 0)"
        theirs, ours = jar.rows(query), native.sql(query).toArrow()
        assert ours.column_names == theirs.column_names
        assert explain(rows_of(ours), rows_of(theirs)) == ""
        changes[writer] = rows_of(ours.drop_columns(["_commit_timestamp"]))
    assert explain(changes["ours"], changes["jar"]) == ""
