"""Numbers of an identity column that a commit reserves for a statement which has lost its own (race 79)."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.commits import ConflictReason, DeltaConcurrentModificationException, MetadataChangedException
from anabranch.protocol.actions import Metadata
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.reserved_numbers import ExecuteAgainError, NumberRange, ReservedNumbers
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

NUMBERING = features("appendOnly", "invariants", "identityColumns")


def with_identity(mark: int) -> Metadata:
    """The table's metadata with this mark."""
    facts = {"start": 1, "step": 1, "allowExplicitInsert": True, "highWaterMark": mark}
    identity = {f"delta.identity.{name}": value for name, value in facts.items()}
    return metadata(StructType([StructField("id", LongType(), False, identity)]))


def numbers(first: int, last: int) -> NumberRange:
    return NumberRange(first=first, last=last, step=1)


def executed_again(first: Writer, *winners: Metadata) -> ReservedNumbers:
    """The numbers that are reserved for a statement which has generated 4 and 5, after these winners."""
    ours = first.begin()
    for number, winner in enumerate(winners):
        rival_of(first, seed=number + 2).commit([add(f"w{number}"), winner])
    with pytest.raises(ExecuteAgainError) as raised:
        ours.commit([add("a"), with_identity(5)], edited_properties=frozenset(), generated={"id": numbers(4, 5)})
    return raised.value.reserved


def test_numbers_that_are_taken_are_reserved() -> None:
    """Covers race 79: a commit moves the newest mark, and nothing of the statement is in the log but that."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    reserved = executed_again(first, with_identity(9), with_properties(with_identity(9), checkpointInterval="20"))
    assert reserved == ReservedNumbers(version=3, ranges={"id": numbers(10, 11)})
    latest = first.table.snapshots.latest()
    assert latest.metadata == with_properties(with_identity(11), checkpointInterval="20")
    assert latest.files.count == 2
    (entry,) = first.table.snapshots.history(1)
    assert entry.info is not None
    assert (entry.info.operation, entry.info.operation_parameters) == ("RESERVE IDENTITY", {"columns": '{"id":2}'})
    assert (entry.info.tags or {})["delta.identity.schemaUpdate"] == "true"
    assert lint(first.store) == []


def test_a_commit_with_reserved_numbers() -> None:
    """It has no metadata, so that the marks of others stay, and it begins at or before its reservation."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    old = first.begin()
    reserved = executed_again(first, with_identity(9))
    ours = first.begin()
    rival_of(first, seed=9).commit([add("x"), with_identity(14)])
    for transaction, file in ((ours, "b"), (old, "c")):
        transaction.commit(
            [add(file)], edited_properties=frozenset(), generated={"id": numbers(10, 11)}, reserved=reserved
        )
    assert first.table.snapshots.latest().metadata == with_identity(14)
    with pytest.raises(AssertionError, match="reserved before"):
        first.begin().commit([add("d")], generated={"id": numbers(10, 11)}, reserved=reserved)
    assert lint(first.store) == []


def test_reserved_numbers_whose_mark_goes_back() -> None:
    """Another engine lowers the mark, as its SYNC IDENTITY may: the numbers may have been generated again."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    reserved = executed_again(first, with_identity(9))
    ours = first.begin()
    for version, mark in ((3, 3), (4, 20)):
        first.store.put(commit_path(version), encode_actions([add(f"e{version}"), with_identity(mark)]))
    with pytest.raises(ExecuteAgainError) as raised:
        ours.commit([add("b")], edited_properties=frozenset(), generated={"id": numbers(10, 11)}, reserved=reserved)
    assert raised.value.reserved.ranges == {"id": numbers(21, 22)}


def test_a_statement_with_another_conflict_reserves_nothing() -> None:
    first = created(add("f", ids=(0, 9)), protocol=NUMBERING, described=with_identity(3))
    ours = first.read(id_is(3), add("f", ids=(0, 9)))
    rival_of(first).commit([remove(add("f", ids=(0, 9))), add("w"), with_identity(9)])
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        ours.commit([add("a"), with_identity(5)], edited_properties=frozenset(), generated={"id": numbers(4, 5)})
    assert raised.value.reason is not ConflictReason.IDENTITY_COLUMNS
    assert first.table.snapshots.latest().version == 1


def test_no_numbers_are_left_to_reserve() -> None:
    first = created(protocol=NUMBERING, described=with_identity(3))
    ours = first.begin()
    rival_of(first).commit([add("w"), with_identity(2**63 - 2)])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a"), with_identity(5)], edited_properties=frozenset(), generated={"id": numbers(4, 5)})
    assert raised.value.reason is ConflictReason.IDENTITY_COLUMNS
    assert first.table.snapshots.latest().version == 1


def test_a_mark_that_is_moved_and_taken_back() -> None:
    """Another engine does so. The marks that ours has read and that it would leave agree, and the numbers are taken."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    ours = first.begin()
    for version, mark in ((1, 5), (2, 3)):
        first.store.put(commit_path(version), encode_actions([add(f"e{version}"), with_identity(mark)]))
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a"), with_identity(5)], edited_properties=frozenset())
    assert raised.value.reason is ConflictReason.IDENTITY_COLUMNS
