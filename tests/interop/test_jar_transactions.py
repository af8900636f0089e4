"""What transactions of several statements have committed, read and written further by the delta-spark jar."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar
from interop.transaction_tables import COLUMNS, FED, KINDS, OPERATIONS, TransactionTable, after_changes, write_table

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]


def read_all(jar: Jar, native: SparkSession, table: TransactionTable) -> None:
    """Both read the rows of the statements at every version."""
    columns = ", ".join(COLUMNS)
    for version, rows in enumerate(table.rows):
        query = f"SELECT {columns} FROM delta.`{table.root}` VERSION AS OF {version}"
        assert explain(rows_of(jar.rows(query), COLUMNS), rows) == "", f"version {version}"
        assert explain(rows_of(native.sql(query).toArrow(), COLUMNS), rows) == "", f"version {version}"


def read_feed(jar: Jar, native: SparkSession, table: TransactionTable) -> None:
    """Both read the same feed, and the changes of each version turn the rows before it into its rows."""
    for version in range(1, len(table.rows)):
        query = f"SELECT * FROM table_changes_by_path('{table.root}', {version}, {version})"
        theirs, ours = jar.rows(query), native.sql(query).toArrow()
        assert explain(rows_of(ours), rows_of(theirs)) == "", f"version {version}"
        assert explain(after_changes(table.rows[version - 1], theirs), table.rows[version]) == "", f"version {version}"
    query = f"SELECT * FROM table_changes_by_path('{table.root}', 0)"
    assert explain(rows_of(native.sql(query).toArrow()), rows_of(jar.rows(query))) == ""


def row_ids(jar: Jar, native: SparkSession, root: str) -> dict[int, int]:
    """The row ids by `id`, as both read them."""
    query = f"SELECT id, _metadata.row_id AS row, _metadata.row_commit_version AS version FROM delta.`{root}`"
    theirs = jar.rows(query)
    assert explain(rows_of(native.sql(query).toArrow()), rows_of(theirs)) == ""
    ids = {row["id"]: row["row"] for row in theirs.to_pylist()}
    assert len(set(ids.values())) == len(ids)
    return ids


@pytest.mark.parametrize("kind", KINDS)
def test_the_jar_reads_every_version(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    table = write_table(native, kind, str(tmp_path))
    history = jar.rows(f"DESCRIBE HISTORY delta.`{table.root}`").to_pylist()
    assert tuple(entry["operation"] for entry in reversed(history)) == OPERATIONS
    statements = dict(history[0]["operationParameters"])["statements"]
    assert [word for word in ("DELETE", "UPDATE", "MERGE") if word in statements] == ["DELETE", "UPDATE", "MERGE"]
    assert dict(history[0]["operationMetrics"])["numStatements"] == "3"
    read_all(jar, native, table)
    if kind in FED:
        read_feed(jar, native, table)


@pytest.mark.parametrize("kind", KINDS)
def test_the_jar_writes_after_transactions(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    """Its statements keep row ids and continue the numbers of identity columns."""
    table = write_table(native, kind, str(tmp_path))
    name, tracked = f"delta.`{table.root}`", "enableRowTracking" in KINDS[kind][2]
    before = row_ids(jar, native, table.root) if tracked else {}
    jar.run(
        f"UPDATE {name} SET v = v + 1 WHERE id IN (2, 100, 300)",
        f"INSERT INTO {name} (id, v, part) VALUES (400, 1, 0)",
        f"DELETE FROM {name} WHERE id = 102",
        f"OPTIMIZE {name}",
    )
    rows = {row[0]: row for row in table.rows[-1]}
    expected = {(id_, v + (id_ in {2, 100, 300}), part) for id_, v, part in rows.values() if id_ != 102}
    query = f"SELECT id, v, part FROM {name}"
    for output in (jar.rows(query), native.sql(query).toArrow()):
        assert set(rows_of(output, COLUMNS)) == expected | {(400, 1, 0)}
    if tracked:
        after = row_ids(jar, native, table.root)
        assert {id_: after[id_] for id_ in before if id_ != 102} == {id_: before[id_] for id_ in before if id_ != 102}
    if kind == "identity":
        numbers = [row.k for row in native.sql(f"SELECT k FROM {name}").collect()]
        assert len(set(numbers)) == len(numbers)
