"""`replaceWhere` takes rows out as DELETE does: by vectors, and only writers of the same rows conflict."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml.statement import Prepared
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.overwrite_scope import replaced_rows
from anabranch.commands.write.write_command import write_frame
from anabranch.commands.write.write_options import ReplacedRows, SaveMode, WriteOptions
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.exceptions import (
    ConcurrentAppendException,
    DeltaConcurrentModificationException,
)
from anabranch.schema.write_rules import WriteApi
from anabranch.tables import DeltaTable
from anabranch.transactions.proposed_commit import Operation
from tables.made_tables import numbered_table
from tables.races import commit_with_retries, lose
from tables.statements import delete, update

pytestmark = pytest.mark.spark


def write(delta: SparkSession, path: str, condition: str, *rows: tuple[int, int, int], mode: str = "overwrite") -> None:
    frame = delta.createDataFrame(list(rows), "id long, n long, part long")
    frame.coalesce(1).write.format("delta").mode(mode).option("replaceWhere", condition).save(path)


def prepared(table: TableRef, condition: str) -> Prepared:
    """All of a replacement but its new rows and its commit."""
    snapshot = table.latest()
    transaction = table.begin_at(Operation(name="WRITE", parameters={"mode": "Overwrite"}), snapshot=snapshot)
    options = WriteOptions(mode=SaveMode.OVERWRITE, replace_where=condition)
    replaced = replaced_rows(table, snapshot, transaction, options, ())
    return Prepared(transaction, replaced.actions(), num_affected_rows=0, deleted_rows=replaced.deleted_rows)


def values(delta: SparkSession, path: str) -> dict[int, int]:
    return {row.id: row.n for row in delta.read.format("delta").load(path).collect()}


def test_rows_are_hidden_and_no_file_is_copied(delta: SparkSession, path: str, vectors: str) -> None:
    numbered_table(delta, path, enableDeletionVectors=vectors)
    write(delta, path, "id % 10 = 3 AND concat('x', n) LIKE 'x%'", (3, -3, 1))
    expected = {id_: id_ for id_ in range(20) if id_ % 10 != 3} | {3: -3}
    assert values(delta, path) == expected
    recorded = DeltaTable.forPath(delta, path).history(1).collect()[0].operationMetrics
    assert recorded["numDeletedRows"] == "2"
    if vectors == "true":
        assert (recorded["numFiles"], recorded["numCopiedRows"], recorded["numDeletionVectorsAdded"]) == ("1", "0", "1")
        assert (recorded["numOutputRows"], recorded["numRemovedFiles"]) == ("1", "0")
    else:
        assert (recorded["numFiles"], recorded["numCopiedRows"], recorded["numRemovedFiles"]) == ("2", "18", "1")
        assert "numDeletionVectorsAdded" not in recorded


def test_other_rows_of_the_same_file_may_change(delta: SparkSession, path: str) -> None:
    """Covers races 1 and 3 for replaceWhere."""
    table = numbered_table(delta, path)
    ours = prepared(table, "id IN (3, 5)")
    delete(table, "id = 1")
    update(table, {"n": "n + 100"}, "id = 9")
    write(delta, path, "id = 7", (7, -7, 1))
    commit_with_retries(ours)
    expected = {id_: id_ for id_ in range(20) if id_ not in (1, 3, 5)} | {9: 109, 7: -7}
    assert values(delta, path) == expected


def test_the_same_row_conflicts(delta: SparkSession, path: str) -> None:
    """Covers race 2 for replaceWhere."""
    table = numbered_table(delta, path)
    ours = prepared(table, "id IN (3, 5)")
    update(table, {"n": "n + 100"}, "id = 5")
    lost = lose(ours, ConcurrentAppendException)
    assert any("id = 5" in key for key in lost.example_keys), lost.example_keys


def test_a_row_that_comes_under_the_condition_conflicts(delta: SparkSession, path: str) -> None:
    """Covers race 15 for replaceWhere."""
    table = numbered_table(delta, path)
    ours = prepared(table, "n >= 15")
    update(table, {"n": "50"}, "id = 1")
    lose(ours, ConcurrentAppendException)


def test_without_vectors_files_decide(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path, enableDeletionVectors="false")
    ours = prepared(table, "id = 3")
    delete(table, "id = 1")
    lose(ours, ConcurrentAppendException)


def test_a_subquery_is_refused(delta: SparkSession, path: str) -> None:
    numbered_table(delta, path)
    with pytest.raises(UnsupportedOperationError, match="replaceWhere with a subquery"):
        write(delta, path, "id IN (SELECT 3)", (3, -3, 1))
    assert len(DeltaTable.forPath(delta, path).history().collect()) == 1


def test_what_replaced_rows_were_made_from_must_not_have_changed(delta: SparkSession, path: str) -> None:
    """REPLACE ON and USING freeze the rows that they write; what those read is remembered."""
    table = numbered_table(delta, path)
    update(table, {"n": "n + 100"}, "id = 3")
    replaced = ReplacedRows(
        condition="id = 4",
        alias=None,
        log_parameters={"replaceOnCond": "…"},
        versions_read=frozenset({0}),
    )
    options = WriteOptions(mode=SaveMode.OVERWRITE, replaced=replaced)
    frame = delta.createDataFrame([(4, 3, 0)], "id long, n long, part long")
    with pytest.raises(DeltaConcurrentModificationException):
        write_frame(table, frame, options, WriteApi.SQL_BY_NAME)
    assert values(delta, path)[4] == 4
