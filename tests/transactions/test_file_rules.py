"""Races over data without row-level concurrency: the matrix "Without it (no deletion vectors)" of the mission."""

from __future__ import annotations

import msgspec
import pytest
from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
    DeltaConcurrentModificationException,
)
from anabranch.predicates.expressions import TRUE, Unknown
from anabranch.protocol.actions import AddFile, CommitInfo
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from transactions.log_linter import lint
from transactions.table_on_memory import (
    Writer,
    add,
    created,
    date_is,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
)

SERIALIZABLE = with_properties(metadata(), isolationLevel="Serializable")
WRITE_SERIALIZABLE = metadata()
BOTH_LEVELS = pytest.mark.parametrize("described", [SERIALIZABLE, WRITE_SERIALIZABLE], ids=["S", "W"])
LOW, HIGH = add("low", ids=(0, 9)), add("high", ids=(100, 109))


def foreign(first: Writer, *actions: object, version: int, **said: object) -> None:
    """A commit of another engine, whose word is not to be taken."""
    info = CommitInfo(operation="WRITE", **said)  # type: ignore[arg-type]
    first.store.put_if_absent(commit_path(version), encode_actions([info, *actions]))  # type: ignore[list-item]


@BOTH_LEVELS
def test_appends_never_conflict(described: object) -> None:
    first = created(described=described)
    ours = first.begin()
    rival_of(first).append(add("w"))
    assert ours.commit([add("a")]).version == 2


@BOTH_LEVELS
def test_append_beside_an_update(described: object) -> None:
    """A blind append reads nothing, so no winner can make it wrong."""
    first = created(LOW, described=described)
    ours = first.begin()
    rival_of(first).rewrite(LOW, add("low2"), where=id_is(5))
    assert ours.commit([add("a", ids=(5, 5))]).version == 2


def test_update_behind_an_append_of_matching_rows_under_serializable() -> None:
    """Covers race 18 (S)."""
    first = created(LOW, described=SERIALIZABLE)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(5, 5)))
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit([remove(LOW), add("low2")])
    assert raised.value.version == 1
    assert raised.value.read_version == 0
    assert raised.value.operation == "WRITE"
    assert raised.value.where == "file w"
    assert raised.value.reason is ConflictReason.WITHOUT_HINT
    assert "WRITE (version 1) landed first" in str(raised.value)


def test_update_precedes_an_append_under_write_serializable() -> None:
    """Covers race 18 (W): the appended row survives."""
    first = created(LOW)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(5, 5)))
    ours.commit([remove(LOW), add("low2")])
    assert first.table.snapshots.latest().files.find("w") is not None
    assert lint(first.store) == []


@BOTH_LEVELS
def test_append_of_rows_that_cannot_match(described: object) -> None:
    """Covers race 19: min/max statistics decide."""
    first = created(LOW, described=described)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(100, 200)))
    assert ours.commit([remove(LOW), add("low2")]).version == 2


def test_append_without_statistics_may_match() -> None:
    """Covers race 33."""
    first = created(LOW, described=SERIALIZABLE)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=None))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW), add("low2")])


@BOTH_LEVELS
@pytest.mark.parametrize("operation", ["WRITE", "MERGE"])
def test_append_that_read_the_table_is_not_blind(described: object, operation: str) -> None:
    """Covers races 20, 21, 36."""
    first = created(LOW, described=described)
    ours = first.read(id_is(5), LOW)
    rival_of(first).read(id_is(7), LOW, name=operation).commit([add("w", ids=(5, 5))])
    with pytest.raises(ConcurrentAppendException):
        ours.commit([add("ours", ids=(5, 5))])


def test_delete_of_everything() -> None:
    """Covers race 22."""
    for level, blind, conflicts in (
        (WRITE_SERIALIZABLE, True, False),
        (WRITE_SERIALIZABLE, False, True),
        (SERIALIZABLE, True, True),
    ):
        first = created(LOW, described=level)
        ours = first.begin("DELETE")
        ours.record_whole_table()
        winner = rival_of(first).begin()
        if not blind:
            winner.record_scan(id_is(900), files=[])
        winner.commit([add("w", ids=None)])
        if conflicts:
            with pytest.raises(ConcurrentAppendException) as raised:
                ours.commit([remove(LOW)])
            assert raised.value.reason is ConflictReason.WHOLE_TABLE_READ
        else:
            ours.commit([remove(LOW)])
            assert lint(first.store) == []


@BOTH_LEVELS
def test_two_writers_change_one_file(described: object) -> None:
    """Covers races 1 to 5, as far as files go: without vectors the file is the row."""
    first = created(LOW, HIGH, described=described)
    ours = first.read(id_is(5), LOW)
    rival_of(first).rewrite(LOW, add("low2"), where=id_is(6))
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit([remove(LOW), add("low3")])
    assert raised.value.where == "file low2"


def test_exceptions_come_in_the_order_of_delta() -> None:
    """Users catch `ConcurrentAppendException` and run again: rows added, then files read, then files deleted."""
    raised_types = []
    for new, reads in (([add("low2")], True), ([], True), ([], False)):
        first = created(LOW, HIGH)
        ours = first.read(id_is(5), LOW) if reads else first.begin("DELETE")
        rival_of(first).commit([remove(LOW), *new], name="UPDATE")
        with pytest.raises(DeltaConcurrentModificationException) as raised:
            ours.commit([remove(LOW)])
        raised_types.append(raised.type)
    assert raised_types == [ConcurrentAppendException, ConcurrentDeleteReadException, ConcurrentDeleteDeleteException]


@BOTH_LEVELS
def test_two_writers_change_two_files(described: object) -> None:
    """Statistics narrow what each has read."""
    first = created(LOW, HIGH, described=described)
    ours = first.read(id_is(5), LOW)
    rival_of(first).rewrite(HIGH, add("high2", ids=(100, 109)), where=id_is(105))
    assert ours.commit([remove(LOW), add("low2")]).version == 2
    assert lint(first.store) == []


@BOTH_LEVELS
def test_winner_changes_a_file_that_ours_only_read(described: object) -> None:
    first = created(LOW, HIGH, described=described)
    ours = first.read(TRUE, LOW, HIGH, name="MERGE")
    rival_of(first).commit([remove(HIGH)], name="DELETE")
    with pytest.raises(ConcurrentDeleteReadException) as raised:
        ours.commit([remove(LOW), add("low2")])
    assert raised.value.where == "file high"


def test_files_read_may_be_a_mask() -> None:
    import numpy as np

    for mask, conflicts in (([True, False], False), ([False, True], True)):
        first = created(LOW, HIGH)
        ours = first.begin("INSERT")
        ours.record_scan(id_is(5), files=np.array(mask))
        rival_of(first).rewrite(HIGH, add("high2", ids=(100, 109)), where=id_is(105))
        if conflicts:
            with pytest.raises(ConcurrentDeleteReadException):
                ours.commit([add("ours")])
        else:
            ours.commit([add("ours")])


@BOTH_LEVELS
def test_winner_moves_rows_into_our_condition(described: object) -> None:
    """Covers race 15: the file that the winner changed was not ours, the rows it made are."""
    first = created(LOW, HIGH, described=described)
    ours = first.read(id_is(5), LOW)
    rival_of(first).rewrite(HIGH, add("high2", ids=(5, 109)), where=id_is(105))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW), add("low2")])


def test_rows_that_came_and_went() -> None:
    """Covers race 28: inserted and deleted before we commit."""
    first = created(LOW, described=SERIALIZABLE)
    ours = first.begin("DELETE")
    ours.record_whole_table()
    rival = rival_of(first)
    phantom = add("w", ids=(5, 5))
    rival.append(phantom)
    rival.read(id_is(5), phantom).commit([remove(phantom)])
    assert ours.commit([remove(LOW)]).version == 3


def test_rows_that_came_and_were_moved_are_still_seen() -> None:
    """Compaction of an append does not make its rows ours to overlook."""
    first = created(LOW, described=SERIALIZABLE)
    ours = first.read(id_is(5), LOW)
    rival = rival_of(first)
    rival.append(add("w", ids=(5, 5), rows=1))
    rival.optimize([add("w", ids=(5, 5), rows=1)], [add("w2", ids=(5, 5), rows=1)])
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit([remove(LOW), add("low2")])
    assert raised.value.version == 1


def test_compaction_of_an_ignored_append() -> None:
    """Covers race 54, as far as files go: neither part of the append is deleted."""
    first = created(LOW, HIGH)
    ours = first.begin("DELETE")
    ours.record_scan(id_is(5), files=[LOW.key])
    rival = rival_of(first)
    one, two = add("w1", ids=(5, 5), rows=1), add("w2", ids=(5, 5), rows=1)
    rival.append(one, two)
    rival.optimize([one, HIGH], [add("h2", ids=(5, 109), rows=11)])
    assert ours.commit([remove(LOW)]).version == 3
    assert first.table.snapshots.latest().files.count == 2
    assert lint(first.store) == []


def test_optimize_against_delete_of_the_same_file() -> None:
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    rival_of(first).optimize([LOW, HIGH], [add("both", ids=(0, 109), rows=20)])
    with pytest.raises(ConcurrentDeleteReadException) as raised:
        ours.commit([remove(LOW)])
    assert raised.value.reason is ConflictReason.UNMAPPED_REWRITE


@BOTH_LEVELS
def test_optimize_of_other_files(described: object) -> None:
    """Its output covers our condition by statistics, but holds only rows that we ruled out."""
    more = add("more", ids=(50, 59))
    first = created(LOW, HIGH, more, described=described)
    ours = first.read(id_is(60), LOW)
    rival_of(first).optimize([HIGH, more], [add("both", ids=(50, 109), rows=20)])
    assert ours.commit([remove(LOW)]).version == 2


def test_optimize_behind_an_append() -> None:
    """OPTIMIZE and INSERT: never."""
    first = created(LOW, HIGH, described=SERIALIZABLE)
    ours = first.begin("OPTIMIZE")
    ours.record_whole_table()
    rival_of(first).append(add("w"))
    committed = ours.commit(
        [
            remove(LOW, data_change=False),
            remove(HIGH, data_change=False),
            add("both", ids=(0, 109), rows=20, data_change=False),
        ]
    )
    assert committed.version == 2
    assert b'"isolationLevel":"SnapshotIsolation"' in first.store.read(commit_path(2))


def test_optimize_behind_a_change_of_its_files() -> None:
    first = created(LOW, HIGH)
    ours = first.begin("OPTIMIZE")
    rival_of(first).rewrite(LOW, add("low2"), where=id_is(5))
    with pytest.raises(ConcurrentDeleteDeleteException):
        ours.commit([remove(LOW, data_change=False), add("low3", data_change=False)])


def test_two_optimize_of_one_file() -> None:
    """Two compactions never both win: their rows would be there twice."""
    first = created(LOW, HIGH)
    ours = first.begin("OPTIMIZE")
    rival_of(first).optimize([LOW, HIGH], [add("one", rows=20)])
    with pytest.raises(ConcurrentDeleteDeleteException):
        ours.commit(
            [remove(LOW, data_change=False), remove(HIGH, data_change=False), add("two", rows=20, data_change=False)]
        )


def test_identity_is_path_and_vector() -> None:
    """A winner hid rows of the file: it is no longer the file that we read."""
    vectors = features("deletionVectors", "appendOnly", "invariants")
    first = created(LOW, protocol=vectors)
    ours = first.read(id_is(5), LOW)
    blind = first.begin("DELETE")
    marked, marked_by_us = (
        msgspec.structs.replace(LOW, deletion_vector=inline_descriptor(BitMap64([row]))) for row in (6, 5)
    )
    rival_of(first).rewrite(LOW, marked, where=id_is(6), name="DELETE")
    with pytest.raises(ConcurrentDeleteReadException):
        ours.commit([remove(LOW), marked_by_us])
    with pytest.raises(ConcurrentDeleteDeleteException):
        blind.commit([remove(LOW), marked_by_us])


def test_readding_a_file_that_a_winner_removed() -> None:
    """New tags for a file must not bring it back to life."""
    first = created(LOW)
    ours = first.begin("SET TAGS")
    rival_of(first).read(id_is(5), LOW).commit([remove(LOW)])
    tagged = msgspec.structs.replace(LOW, tags={"x": "y"}, data_change=False)
    with pytest.raises(ConcurrentDeleteDeleteException):
        ours.commit([tagged])


def test_file_that_was_removed_and_restored() -> None:
    """The net difference counts: the very file that we read is there again."""
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    rival = rival_of(first)
    rival.read(id_is(7), LOW).commit([remove(LOW)])
    rival.begin("RESTORE").commit([LOW])
    assert ours.commit([remove(LOW), add("low2")]).version == 3
    assert lint(first.store) == []


# Partitions


def by_date(*files: AddFile, **properties: str) -> Writer:
    return created(*files, described=with_properties(metadata(partition_by=["date"]), **properties))


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_disjoint_partitions_never_conflict(level: str) -> None:
    monday, tuesday = add("m", date="mon", ids=None), add("t", date="tue", ids=None)
    first = by_date(monday, tuesday, isolationLevel=level)
    ours = first.read(date_is("mon"), monday)
    rival = rival_of(first)
    rival.rewrite(tuesday, add("t2", date="tue", ids=None), where=date_is("tue"))
    rival.append(add("t3", date="tue", ids=None))
    assert ours.commit([remove(monday), add("m2", date="mon", ids=None)]).version == 3
    assert lint(first.store) == []


def test_partition_in_conflict_is_named() -> None:
    monday = add("m", date="mon")
    first = by_date(monday, isolationLevel="Serializable")
    ours = first.read(date_is("mon"), monday)
    rival_of(first).append(add("m2", date="mon"))
    with pytest.raises(ConcurrentAppendException, match="partition date=mon") as raised:
        ours.commit([remove(monday)])
    assert raised.value.reason is ConflictReason.WITH_PARTITION_HINT


def test_append_to_the_partition_of_nulls() -> None:
    """Covers race 23: a condition is not true of NULL."""
    monday = add("m", date="mon")
    first = by_date(monday, isolationLevel="Serializable")
    ours = first.read(date_is("mon"), monday)
    nulls = msgspec.structs.replace(add("n"), partition_values={"date": None})
    rival_of(first).append(nulls)
    assert ours.commit([remove(monday)]).version == 2


# What cannot be judged by one row


def test_opaque_condition_reads_the_whole_table() -> None:
    """Covers races 24, 29: a condition with a subquery, or a random one."""
    first = created(LOW, HIGH)
    ours = first.read(Unknown("rand() < 0.5", opaque=True), LOW)
    rival_of(first).rewrite(HIGH, add("high2", ids=(100, 109)), where=id_is(105))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])


def test_condition_that_is_not_understood_may_match_anything() -> None:
    """Covers race 31: it is still a condition on the row, so files that ours did not open stay out."""
    first = created(LOW, HIGH, described=SERIALIZABLE)
    ours = first.read(Unknown("size(tags) > 3"), LOW, HIGH)
    rival_of(first).append(add("w"))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])


# Order under WriteSerializable


def jump(first: Writer) -> object:
    """Ours deletes id 5; a blind append of such a row is committed as version 1."""
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(5, 5)))
    return ours


def test_reorder_cycle() -> None:
    """Covers race 63: W appends, U reads W's row, ours changes what U read."""
    first = created(LOW, HIGH)
    ours = jump(first)
    rival_of(first, seed=3).rewrite(HIGH, add("high2", ids=(100, 109)), where=id_is(105))
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit([remove(LOW)])  # type: ignore[attr-defined]
    assert raised.value.reason is ConflictReason.REORDER_CYCLE
    assert raised.value.where == "file w"


def test_later_winner_that_read_before_the_append() -> None:
    """Covers races 64, 67."""
    first = created(LOW, HIGH)
    second = rival_of(first, seed=3).read(id_is(105), HIGH)
    ours = jump(first)
    second.commit([remove(HIGH), add("high2", ids=(100, 109))])
    assert ours.commit([remove(LOW)]).version == 3  # type: ignore[attr-defined]
    assert lint(first.store) == []


def test_later_winner_of_unknown_read_version() -> None:
    """Covers race 65."""
    first = created(LOW, HIGH)
    ours = jump(first)
    foreign(first, remove(HIGH), add("high2", ids=(100, 109)), version=2)
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit([remove(LOW)])  # type: ignore[attr-defined]
    assert raised.value.reason is ConflictReason.REORDER_CYCLE


def test_later_append_and_compaction_are_no_readers() -> None:
    """Rule R is about winners that change data and are not blind."""
    first = created(LOW, HIGH)
    ours = jump(first)
    rival = rival_of(first, seed=3)
    rival.append(add("w2", ids=(5, 5)))
    rival.optimize([HIGH], [add("high2", ids=(100, 109))])
    assert ours.commit([remove(LOW)]).version == 4  # type: ignore[attr-defined]


def test_ignored_append_that_was_changed_since() -> None:
    """Covers race 68: what is left of it is in a commit that is not blind."""
    first = created(LOW, HIGH)
    ours = jump(first)
    rival_of(first, seed=3).rewrite(add("w", ids=(5, 5)), add("w2", ids=(5, 5)), where=id_is(5))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])  # type: ignore[attr-defined]


def test_metadata_change_does_not_overlook_appends() -> None:
    """Covers race 69: an overwrite with a new schema would misread rows appended under the old one."""
    first = created(LOW)
    ours = first.begin("WRITE")
    ours.record_whole_table()
    rival_of(first).append(add("w"))
    with pytest.raises(ConcurrentAppendException):
        ours.commit([with_properties(metadata(), checkpointInterval="20"), remove(LOW), add("new")])


# Writers that lie


@pytest.mark.parametrize("said", [{}, {"is_blind_append": False}], ids=["nothing", "false"])
def test_append_that_does_not_say_it_is_blind(said: dict[str, object]) -> None:
    """Covers race 70."""
    first = created(LOW)
    ours = first.read(id_is(5), LOW)
    foreign(first, add("w", ids=(5, 5)), version=1, read_version=0, **said)
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])


@pytest.mark.parametrize(
    "actions",
    [
        [remove(HIGH), add("w", ids=(5, 5))],
        [add("w", ids=(5, 5), data_change=False)],
    ],
    ids=["removes", "no data change"],
)
def test_blind_append_that_is_none(actions: list[object]) -> None:
    """Covers race 71, fault F36."""
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    foreign(first, *actions, version=1, read_version=0, is_blind_append=True)
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])


@pytest.mark.parametrize(
    "actions",
    [
        [remove(HIGH, data_change=False), add("w", ids=(5, 109), rows=11, data_change=False)],
        [remove(HIGH, data_change=False), add("w", ids=None, data_change=False)],
        [remove(HIGH), add("w", ids=(5, 109), data_change=False)],
    ],
    ids=["more rows than before", "unknown rows", "a delete among it"],
)
def test_rearrangement_that_is_none(actions: list[object]) -> None:
    """Covers race 59, fault F36: `dataChange=false` counts if all say so and the rows add up."""
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    foreign(first, *actions, version=1, read_version=0, is_blind_append=False)
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(LOW)])


def test_winner_without_commit_info() -> None:
    first = created(LOW)
    ours = first.read(id_is(5), LOW)
    first.store.put_if_absent(commit_path(1), encode_actions([remove(LOW)]))
    with pytest.raises(ConcurrentDeleteReadException, match="another writer") as raised:
        ours.commit([remove(LOW)])
    assert raised.value.operation == "another writer"
