"""RESTORE against everything that may land before it, and everything that it may land before; without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from anabranch.commands.restore.restore_table import PreparedRestore, file_difference, planned_restore
from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from anabranch.predicates.expressions import TRUE
from anabranch.protocol.actions import AddFile, Metadata
from anabranch.transactions.proposed_commit import Bin, Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from transactions.log_linter import lint
from transactions.table_on_memory import (
    Writer,
    add,
    created,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
)

VECTORS = features("deletionVectors", "clustering", "domainMetadata")
LEVELS = pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])


def table(*files: AddFile, level: str = "WriteSerializable") -> Writer:
    described = metadata(properties={"delta.isolationLevel": level, "delta.enableDeletionVectors": "true"})
    return created(*files, protocol=VECTORS, described=described)


def restoring(writer: Writer, version: int) -> PreparedRestore:
    now, then = writer.table.snapshots.latest(), writer.table.snapshots.at_version(version)
    transaction = writer.table.begin_at(Operation(name="RESTORE", parameters={"version": version}), snapshot=now)
    difference = file_difference(now.files, then.files)
    return planned_restore(transaction, then, difference, may_downgrade=False, now_ms=writer.clock.now_ms())


def paths(writer: Writer) -> set[str]:
    return set(writer.table.snapshots.latest().files.table["path"].to_pylist())


def hide(writer: Writer, path: str, rows: set[int], *, name: str = "DELETE") -> None:
    """Rows of one file, found by a condition that was true for them alone."""
    transaction, actions, deleted = hiding(writer, path, rows, name=name)
    transaction.commit(actions, deleted_rows=deleted)


def hiding(writer: Writer, path: str, rows: set[int], *, name: str = "DELETE") -> Any:
    transaction = writer.table.begin(Operation(name=name))
    assert transaction.snapshot is not None
    (file,) = transaction.snapshot.files.at_path(path)
    positions = BitMap64(rows)

    def again(candidates: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
        return [
            BitMap64(rows) if candidate.positions is None else candidate.positions & positions
            for candidate in candidates
        ]

    transaction.record_scan(TRUE, files=[file.key], rows={file.key: positions}, reevaluate=again)
    actions = hide_rows([RowsOfFile(file=file, positions=positions)], transaction.vectors, removed_at_ms=0)
    return transaction, actions, {file.key: positions}


def hidden(writer: Writer, path: str) -> set[int]:
    (file,) = writer.table.snapshots.latest().files.at_path(path)
    return set(writer.begin().vectors.hidden([file])[0])


# Something lands while RESTORE is being prepared.


@LEVELS
def test_a_blind_append_counts_as_later_unless_the_order_is_that_of_the_log(level: str) -> None:
    writer = table(add("a"), level=level)
    writer.append(add("b"))
    ours = restoring(writer, 0)
    rival_of(writer).append(add("c"))
    if level == "Serializable":
        with pytest.raises(ConcurrentAppendException):
            ours.commit()
        assert paths(writer) == {"a", "b", "c"}
    else:
        ours.commit()
        assert paths(writer) == {"a", "c"}


@LEVELS
def test_an_append_that_read_the_table_is_a_conflict(level: str) -> None:
    writer = table(add("a"), level=level)
    writer.append(add("b"))
    ours = restoring(writer, 0)
    reader = rival_of(writer).begin("WRITE")
    reader.record_whole_table()
    reader.commit([add("c")])
    with pytest.raises(ConcurrentAppendException):
        ours.commit()


@LEVELS
@pytest.mark.parametrize("path", ["a", "b"], ids=["a file that stays", "a file that leaves"])
def test_rows_deleted_meanwhile_are_a_conflict(level: str, path: str) -> None:
    writer = table(add("a"), level=level)
    writer.append(add("b"))
    ours = restoring(writer, 0)
    hide(rival_of(writer), path, {1})
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)):
        ours.commit()
    assert hidden(writer, path) == {1}


@LEVELS
def test_a_file_rewritten_meanwhile_is_a_conflict(level: str) -> None:
    writer = table(add("a"), level=level)
    writer.append(add("b"))
    ours = restoring(writer, 0)
    rival_of(writer).rewrite(add("a"), add("a2"), where=id_is(1))
    with pytest.raises(ConcurrentAppendException):
        ours.commit()


@LEVELS
def test_a_compaction_of_files_that_leave_goes_with_them(level: str) -> None:
    """It changed no row, so what it wrote holds the rows that are to leave."""
    writer = table(add("a"), level=level)
    writer.append(add("b"))
    ours = restoring(writer, 0)
    rival_of(writer).optimize([add("b")], [add("b2")])
    ours.commit()
    assert paths(writer) == {"a"}


@LEVELS
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_compaction_while_the_schema_goes_back_is_a_conflict(level: str, where: str) -> None:
    """Its files were written by the schema that goes; under the old one they might be read as values that were never written."""
    writer = table(add("a"), level=level)
    latest = writer.table.snapshots.latest().metadata
    writer.commit([with_properties(latest, dataSkippingNumIndexedCols="5")], name="SET TBLPROPERTIES")
    if where == "before":
        writer.append(add("b"))
    ours = restoring(writer, 0)
    rival_of(writer).optimize([add("a")], [add("a2")])
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit()
    assert "a2" in paths(writer)


@LEVELS
@pytest.mark.parametrize("has_files", [True, False])
def test_a_change_of_the_table_itself_is_a_conflict_however_harmless(level: str, has_files: bool) -> None:
    writer = table(add("a"), level=level)
    if has_files:
        writer.append(add("b"))
    else:
        writer.commit([], name="Manual Update")
    ours = restoring(writer, 0)
    rival = rival_of(writer)
    latest = rival.table.snapshots.latest().metadata
    rival.commit([with_properties(latest, checkpointInterval="20")], name="SET TBLPROPERTIES")
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit()
    assert raised.value.reason is ConflictReason.RULED_OUT
    assert raised.value.operation == "SET TBLPROPERTIES"


@LEVELS
@pytest.mark.parametrize("winner", ["append", "delete", "compaction"])
def test_without_a_file_to_change_the_winners_are_judged_as_well(level: str, winner: str) -> None:
    """Nothing came or went since; RESTORE would still have to undo what lands now."""
    writer = table(add("a"), add("b"), level=level)
    writer.commit([], name="Manual Update")
    ours = restoring(writer, 0)
    rival = rival_of(writer)
    if winner == "append":
        rival.append(add("c"))
    elif winner == "delete":
        hide(rival, "a", {1})
    else:
        rival.optimize([add("a"), add("b")], [add("ab")])
    if winner == "append" and level == "WriteSerializable":
        assert ours.commit().committed.version == 3
        return
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit()


def test_two_restores_do_not_mix() -> None:
    writer = table(add("a"))
    writer.append(add("b"))
    writer.append(add("c"))
    ours = restoring(writer, 0)
    restoring(rival_of(writer), 1).commit()
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit()
    assert paths(writer) == {"a", "b"}


# RESTORE lands while something else is being prepared.


@LEVELS
def test_rows_that_came_back_are_seen_by_a_delete(level: str) -> None:
    """Its condition is true for a row that was hidden when it looked."""
    writer = table(add("a"), level=level)
    hide(writer, "a", {1, 2})
    transaction = writer.table.begin(Operation(name="DELETE"))
    assert transaction.snapshot is not None
    (file,) = transaction.snapshot.files.at_path("a")
    mine = BitMap64({5})

    def again(candidates: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
        # True for row 2 and row 5.
        return [
            BitMap64({2, 5}) if candidate.positions is None else candidate.positions & BitMap64({2, 5})
            for candidate in candidates
        ]

    transaction.record_scan(TRUE, files=[file.key], rows={file.key: mine}, reevaluate=again)
    actions = hide_rows([RowsOfFile(file=file, positions=mine)], transaction.vectors, removed_at_ms=0)
    restoring(rival_of(writer), 0).commit()
    with pytest.raises(ConcurrentAppendException) as raised:
        transaction.commit(actions, deleted_rows={file.key: mine})
    assert raised.value.operation == "RESTORE"
    assert hidden(writer, "a") == set()


@LEVELS
def test_a_delete_of_rows_that_restore_left_alone_lands_behind_it(level: str) -> None:
    writer = table(add("a"), level=level)
    hide(writer, "a", {1, 2})
    transaction, actions, deleted = hiding(writer, "a", {5})
    restoring(rival_of(writer), 0).commit()
    transaction.commit(actions, deleted_rows=deleted)
    assert hidden(writer, "a") == {5}


@LEVELS
def test_a_condition_that_cannot_be_evaluated_again_conflicts_with_restored_rows(level: str) -> None:
    writer = table(add("a"), level=level)
    hide(writer, "a", {1})
    ours = writer.begin("DELETE")
    ours.record_whole_table()
    restoring(rival_of(writer), 0).commit()
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit([add("new")])


@LEVELS
def test_files_that_came_back_are_seen_and_files_that_left_are_not_deleted_from(level: str) -> None:
    writer = table(add("a"), level=level)
    writer.rewrite(add("a"), add("b"), where=id_is(1))
    reading = writer.read(TRUE, add("b"), name="UPDATE")
    deleting, actions, deleted = hiding(writer, "b", {3})
    restoring(rival_of(writer), 0).commit()
    for transaction, proposed, rows in ((reading, [add("x")], None), (deleting, actions, deleted)):
        with pytest.raises(DeltaConcurrentModificationException):
            transaction.commit(proposed, deleted_rows=rows)
    assert paths(writer) == {"a"}


def test_an_append_lands_behind_a_restore() -> None:
    writer = table(add("a"))
    writer.append(add("b"))
    ours = writer.begin("WRITE")
    restoring(rival_of(writer), 0).commit()
    ours.commit([add("c")])
    assert paths(writer) == {"a", "c"}


def test_an_append_gives_way_where_the_schema_went_back() -> None:
    writer = table(add("a"))
    latest: Metadata = writer.table.snapshots.latest().metadata
    writer.commit([with_properties(latest, columnMapping_mode="name")], name="SET TBLPROPERTIES")
    ours = writer.begin("WRITE")
    restoring(rival_of(writer), 0).commit()
    with pytest.raises(MetadataChangedException):
        ours.commit([add("c")])


@pytest.mark.parametrize("shrinks", [True, False])
def test_a_compaction_leaves_out_what_came_back(shrinks: bool) -> None:
    """What it wrote lacks rows that are there again; it never fails, and never takes them away."""
    writer = table(add("a"), add("b"))
    if shrinks:
        hide(writer, "a", {1})
    else:
        writer.append(add("c"))
    ours = writer.table.begin(Operation(name="OPTIMIZE"))
    assert ours.snapshot is not None
    sources = ours.snapshot.files.to_actions(None)
    restoring(rival_of(writer), 0).commit()
    tombstones = [remove(file, data_change=False) for file in sources]
    bins = [Bin(sources=frozenset(tombstone.key for tombstone in tombstones), outputs=frozenset({"all"}))]
    assert ours.commit_bins([*tombstones, add("all", data_change=False)], bins) is None
    assert paths(writer) == {"a", "b"}
    assert hidden(writer, "a") == set()


# Any history.

STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.just("hide"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("drop"), st.integers(0, 5)),
    st.tuples(st.just("restore"), st.integers(0, 8)),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(STEP, min_size=2, max_size=7))
def test_a_version_is_restored_exactly_after_any_statements(steps: list[tuple]) -> None:
    writer = table(add("start"))
    names = (f"f{number}" for number in itertools.count())
    for step in steps:
        _play(writer, step, names)
    latest = writer.table.snapshots.latest().version
    for version in range(latest + 1):
        then = state(writer, version)
        if version < writer.table.snapshots.latest().version:
            restoring(writer, version).commit()
        assert state(writer) == then
    assert lint(writer.store) == []


def _play(writer: Writer, step: tuple[Any, ...], names: Any) -> None:
    kind, *arguments = step
    live = sorted(paths(writer))
    if kind == "append":
        writer.append(*(add(next(names)) for _ in range(arguments[0] + 1)))
    elif kind == "restore" and arguments[0] < writer.table.snapshots.latest().version:
        restoring(writer, arguments[0]).commit()
    elif kind == "drop" and live:
        (file,) = writer.table.snapshots.latest().files.at_path(live[arguments[0] % len(live)])
        writer.commit([remove(file)], name="DELETE")
    elif kind == "hide" and live:
        path = live[arguments[0] % len(live)]
        if arguments[1] not in hidden(writer, path) and len(hidden(writer, path)) < 8:
            hide(writer, path, {arguments[1]})


def state(writer: Writer, version: int | None = None) -> dict[str, frozenset[int]]:
    snapshots = writer.table.snapshots
    snapshot = snapshots.latest() if version is None else snapshots.at_version(version)
    files = snapshot.files.to_actions(None)
    vectors = writer.begin().vectors.hidden(files)
    return {file.path: frozenset(vector) for file, vector in zip(files, vectors, strict=True)}
