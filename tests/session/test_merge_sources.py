"""MERGE from sources of every kind into tables of every kind. Covers bugs B88 and B100.

The rules of Spark resolve a source of another format in the same round in which ours look at the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

CLAUSES = {
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, upper(s.v))": [(2, "b"), (3, "Y")],
    "WHEN MATCHED AND s.k = 1 THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE": [(1, "x")],
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *": [(1, "x"), (2, "b"), (3, "y")],
}
ROWS = "VALUES (1, 'x'), (3, 'y')"
TARGETS = {
    "by path": "CREATE TABLE delta.`{path}` (k INT, v STRING) USING delta",
    "by name": "CREATE TABLE merged.named (k INT, v STRING) USING delta",
    "partitioned": "CREATE TABLE delta.`{path}` (k INT, v STRING) USING delta PARTITIONED BY (v)",
    "mapped": (
        "CREATE TABLE delta.`{path}` (k INT, v STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    ),
    "clustered": "CREATE TABLE delta.`{path}` (k INT, v STRING) USING delta CLUSTER BY (k)",
}


@pytest.fixture(scope="module")
def sources(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Sources of a MERGE, each with the same two rows."""
    folder = tmp_path_factory.mktemp("sources")
    delta.sql("CREATE DATABASE merged")
    rows = delta.sql(f"SELECT CAST(k AS INT) AS k, v FROM {ROWS} AS v(k, v)")
    made = []
    for kind in ("parquet", "json", "orc", "delta"):
        rows.write.format(kind).save(str(folder / kind))
        made.append(f"{kind}.`{folder / kind}`")
    for kind in ("parquet", "csv", "json", "orc", "delta"):
        delta.sql(f"CREATE TABLE merged.of_{kind} (k INT, v STRING) USING {kind}")
        delta.sql(f"INSERT INTO merged.of_{kind} {ROWS}")
        made.append(f"merged.of_{kind}")
    delta.sql("CREATE TABLE merged.of_char (k INT, v CHAR(3)) USING parquet")
    delta.sql(f"INSERT INTO merged.of_char {ROWS}")
    delta.sql("CREATE VIEW merged.persistent AS SELECT * FROM merged.of_parquet")
    rows.createOrReplaceTempView("temporary")
    subquery = f"(SELECT k, v FROM parquet.`{folder / 'parquet'}`)"
    made += ["merged.of_char", "merged.persistent", "temporary", subquery, f"({ROWS} AS v(k, v))"]
    made.append("(WITH c AS (SELECT * FROM merged.of_orc) SELECT * FROM c)")
    made.append("(SELECT CAST(id AS INT) AS k, IF(id = 1, 'x', 'y') AS v FROM range(1, 4, 2))")
    yield made
    delta.sql("DROP DATABASE merged CASCADE")
    delta.sql("DROP VIEW temporary")


def _merged(delta: SparkSession, target: str, source: str, clause: str) -> list[tuple[int, str]]:
    """The rows of the target after the statement, and then none: each statement begins with the same two."""
    delta.sql(f"INSERT OVERWRITE {target} VALUES (1, 'a'), (2, 'b')")
    delta.sql(f"MERGE INTO {target} AS t USING {source} AS s ON t.k = s.k {clause}")
    return sorted(tuple(row) for row in delta.sql(f"SELECT k, rtrim(v) FROM {target}").collect())


@pytest.mark.parametrize(("every", "clauses"), [(4, 1), (2, len(CLAUSES))], ids=["some", "many"])
def test_every_clause_from_every_source(
    delta: SparkSession, sources: list[str], path: str, every: int, clauses: int
) -> None:
    delta.sql(TARGETS["by path"].format(path=path))
    wrong = {}
    for source in sources[::every]:
        for clause, expected in list(CLAUSES.items())[:clauses]:
            found = _merged(delta, f"delta.`{path}`", source, clause)
            if found != expected:
                wrong[source, clause] = found
    assert wrong == {}


def test_every_target(delta: SparkSession, sources: list[str], tmp_path: Path) -> None:
    first, (clause, expected) = sources[0], next(iter(CLAUSES.items()))
    for kind, definition in TARGETS.items():
        path = str(tmp_path / kind)
        delta.sql(definition.format(path=path))
        targets = ["merged.named", "spark_catalog.merged.named"] if kind == "by name" else [f"delta.`{path}`"]
        delta.sql(f"CREATE OR REPLACE TEMPORARY VIEW target_view AS SELECT * FROM {targets[0]}")
        for source in (first, "merged.of_csv"):
            for target in targets:
                assert _merged(delta, target, source, clause) == expected, kind
        delta.sql(f"INSERT OVERWRITE {targets[0]} VALUES (1, 'a'), (2, 'b')")
        delta.sql(f"MERGE INTO target_view AS t USING {first} AS s ON t.k = s.k {clause}")
        assert sorted(tuple(row) for row in delta.sql(f"SELECT k, rtrim(v) FROM {targets[0]}").collect()) == expected, (
            kind
        )
