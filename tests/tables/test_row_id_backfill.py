"""Row tracking turned on for a table that has rows: their ids come in batches, beside other writers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch.commands.alter import row_id_backfill
from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import RowTrackingEnablementError
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import MetadataChangedException
from anabranch.tables import DeltaTable
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from session_kinds import in_this_process
from tables.tracked_rows import append, last_commit, table_ref, tracked

pytestmark = pytest.mark.spark

TRACKING = {"delta.enableRowTracking": "true"}


def made(delta: SparkSession, path: str, **properties: str) -> TableRef:
    """Rows 0 to 19 in four files, none of them with an id."""
    for start in range(0, 20, 5):
        append(delta, path, start, start + 5, **properties)
    return table_ref(delta, path)


def operations(table: TableRef) -> list[str]:
    logs = sorted((Path(table.path) / "_delta_log").glob("*.json"))
    infos = [
        json.loads(line)["commitInfo"] for log in logs for line in log.read_text().splitlines() if "commitInfo" in line
    ]
    return [info["operation"] for info in infos]


def check_ids(table: TableRef, rows: int) -> None:
    ids = tracked(table)
    mark = json.loads(table.latest().domain_metadata["delta.rowTracking"].configuration)["rowIdHighWaterMark"]
    assert len(ids) == len({row_id for row_id, _ in ids.values()}) == rows
    assert max(row_id for row_id, _ in ids.values()) <= mark


@in_this_process
def test_rows_that_are_there_get_ids_in_batches(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_id_backfill, "BATCH_FILES_MAX", 3)
    table = made(delta, path, **{"delta.enableDeletionVectors": "true"})
    DeltaTable.forPath(delta, path).delete("id = 7")
    without_count = table.latest().files.to_actions()[0]
    table.begin_at(Operation(name="WRITE"), snapshot=table.latest()).commit(
        [msgspec.structs.replace(without_count, stats=None)]
    )
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    backfill = "ROW TRACKING BACKFILL"
    assert operations(table)[-4:] == ["SET TBLPROPERTIES", backfill, backfill, "SET TBLPROPERTIES"]
    check_ids(table, 19)
    info = last_commit(table)["commitInfo"][0]
    assert info["tags"]["rowTrackingEnablementOnly"] == "true"
    before = tracked(table)
    DeltaTable.forPath(delta, path).update("id = 3", {"name": "'changed'"})
    assert tracked(table) == {**before, 3: (before[3][0], table.latest().version)}
    assert len(delta.read.format("delta").option("versionAsOf", 4).load(path).collect()) == 19

    alter_drop_feature(table, "rowTracking")
    assert alter_set_properties(table, TRACKING) is not None
    check_ids(table, 19)
    alter_set_properties(table, {"delta.enableRowTracking": "false"})
    assert alter_set_properties(table, TRACKING) is not None


def test_it_goes_on_where_it_was_stopped(delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_id_backfill, "BATCH_FILES_MAX", 3)
    table = made(delta, path)
    commit, landed = Transaction.commit, list[str]()

    def stopped(transaction: Transaction, *arguments: object, **options: object) -> CommittedVersion:
        if transaction.operation.name in landed:
            raise KeyboardInterrupt
        landed.append(transaction.operation.name)
        return commit(transaction, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Transaction, "commit", stopped)
        with pytest.raises(KeyboardInterrupt):
            alter_set_properties(table, TRACKING)
    assert landed == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL"]
    assert not table.latest().properties.row_tracking_enabled
    append(delta, path, 20, 25)
    alter_set_properties(table, TRACKING)
    assert operations(table)[-2:] == ["ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    check_ids(table, 25)


def test_row_tracking_that_is_taken_away_meanwhile(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers bug B65: another writer drops the feature, or begins to, before a batch or the property. It ends, and says so."""
    monkeypatch.setattr(row_id_backfill, "BATCH_FILES_MAX", 3)
    table = made(delta, path)
    commit = Transaction.commit
    suspended = {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}

    def suspend() -> None:
        snapshot = table.latest()
        changed = {**snapshot.metadata.configuration, **suspended}
        commit(
            table.begin_at(Operation(name="SET TBLPROPERTIES"), snapshot=snapshot),
            [msgspec.structs.replace(snapshot.metadata, configuration=changed)],
        )

    def replace() -> None:
        snapshot = table.latest()
        other = msgspec.structs.replace(snapshot.metadata, id=f"other than {snapshot.metadata.id}")
        commit(table.begin_at(Operation(name="REPLACE TABLE"), snapshot=snapshot), [other])

    def drop() -> None:
        with monkeypatch.context() as undisturbed:
            undisturbed.setattr(Transaction, "commit", commit)
            alter_drop_feature(table, "rowTracking")

    def ends(acts: Callable[[], None], number: int) -> DeltaError:
        left = [number]

        def beside(transaction: Transaction, *arguments: object, **options: object) -> CommittedVersion:
            left[0] -= 1
            if left[0] == 0:
                acts()
            return commit(transaction, *arguments, **options)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "commit", beside)
            with pytest.raises(DeltaError) as raised:
                alter_set_properties(table, TRACKING)
        assert left[0] <= 0, "somebody was in the way"
        assert not table.latest().properties.row_tracking_enabled
        return raised.value

    for number, acts in ((2, suspend), (3, suspend), (3, drop), (2, replace), (4, drop)):
        error = ends(acts, number)
        assert isinstance(error, MetadataChangedException if acts is replace else RowTrackingEnablementError)
        assert ("turned it off" in str(error)) == (acts is not replace and number != 4)
        if acts is not drop:
            drop()
    assert len(operations(table)) < 50
    alter_set_properties(table, TRACKING)
    check_ids(table, 20)


def test_changes_of_the_description_that_commute(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers bug B74: they land behind each other, and so do rows; the last step of row tracking behind any property."""
    table = made(delta, path)
    commit, here = Transaction.commit, f"delta.`{path}`"

    def behind(statement: str, *winners: str, operation: str) -> None:
        left = list(winners)

        def beside(transaction: Transaction, *arguments: object, **options: object) -> CommittedVersion:
            if left and transaction.operation.name == operation and (backfilled() or operation != "SET TBLPROPERTIES"):
                delta.sql(left.pop(0).replace("<t>", here))
            return commit(transaction, *arguments, **options)  # type: ignore[arg-type]

        def backfilled() -> bool:
            return "enableRowTracking" not in statement or "ROW TRACKING BACKFILL" in operations(table)

        with monkeypatch.context() as patched:
            patched.setattr(Transaction, "commit", beside)
            delta.sql(statement.replace("<t>", here))
        assert left == []

    def set_to(name: str, value: str) -> str:
        return f"ALTER TABLE <t> SET TBLPROPERTIES ('{name}' = '{value}')"

    behind(
        "INSERT INTO <t> (id, name) VALUES (20, 'x')",
        "ALTER TABLE <t> ALTER COLUMN name COMMENT 'who'",
        operation="WRITE",
    )
    behind(set_to("a", "1"), set_to("delta.checkpointInterval", "20"), operation="SET TBLPROPERTIES")
    behind(set_to("delta.enableTypeWidening", "true"), set_to("b", "2"), operation="SET TBLPROPERTIES")
    behind("ALTER TABLE <t> ALTER COLUMN id COMMENT 'no'", "COMMENT ON TABLE <t> IS 'all'", operation="CHANGE COLUMN")
    with pytest.raises(MetadataChangedException):
        behind(set_to("a", "2"), set_to("a", "3"), operation="SET TBLPROPERTIES")
    behind(
        set_to("delta.enableRowTracking", "true"),
        set_to("delta.enableChangeDataFeed", "true"),
        operation="SET TBLPROPERTIES",
    )
    metadata = table.latest().metadata
    assert metadata.description == "all"
    assert (
        metadata.configuration.items()
        >= {
            "a": "3",
            "b": "2",
            "delta.checkpointInterval": "20",
            "delta.enableTypeWidening": "true",
            "delta.enableRowTracking": "true",
            "delta.enableChangeDataFeed": "true",
        }.items()
    )
    assert metadata.schema_string.count("comment") == 2
    check_ids(table, 21)


@pytest.mark.long
@pytest.mark.parametrize("before", ["support", "a batch", "the property"])
def test_writers_beside_it(
    delta: SparkSession, path: str, vectors: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that land right before each of its commits, and statements that were prepared before all of them.

    Races 76 and 80.
    """
    table = made(delta, path, **{"delta.enableDeletionVectors": vectors})
    rows = DeltaTable.forPath(delta, path)
    commit, left = Transaction.commit, [{"support": 0, "a batch": 1, "the property": 2}[before]]

    def beside(transaction: Transaction, *arguments: object, **options: object) -> CommittedVersion:
        left[0] -= 1
        if left[0] == -1:
            append(delta, path, 20, 25)
            rows.delete("id = 1")
            rows.update("id = 6", {"name": "'changed'"})
        return commit(transaction, *arguments, **options)  # type: ignore[arg-type]

    with (
        prepare_delete(table, "id = 11") as deletes,
        prepare_update(table, {"name": "'late'"}, "id = 17") as updates,
        monkeypatch.context() as patched,
    ):
        patched.setattr(Transaction, "commit", beside)
        alter_set_properties(table, TRACKING)
        patched.undo()
        deletes.commit()
        updates.commit()
    assert table.latest().properties.row_tracking_enabled
    check_ids(table, 23)
    names = {row["id"]: row["name"] for row in rows.toDF().collect()}
    assert (names[6], names[17], set(names)) == ("changed", "late", set(range(25)) - {1, 11})
    assert last_commit(table)["commitInfo"][0]["tags"]["delta.rowTracking.preserved"] == "false"
