"""What the message of a conflict advises: what would help in that very situation, and nothing that would not."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch.errors.commits import (
    ConflictReason,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from anabranch.protocol.actions import Action, Metadata
from anabranch.transactions.commit.commit_context import RetryLimits
from anabranch.transactions.conflicts import conflict_advice as advice
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from concurrency.conditions import Change, Row, Where
from concurrency.scenes import Scene
from concurrency.statements import Delete, Insert, Update
from transactions.table_on_memory import (
    SCHEMA,
    add,
    created,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
)

VECTORS = features("appendOnly", "invariants", "deletionVectors")
SERIALIZABLE = with_properties(metadata(), isolationLevel="Serializable")
LOW, HIGH = add("low", ids=(0, 9)), add("high", ids=(100, 109))


def lost(transaction: Transaction, *actions: Action) -> DeltaConcurrentModificationException:
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        transaction.commit(actions)
    assert raised.value.advice in str(raised.value)
    return raised.value


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_of_the_same_row_one_must_see_what_the_other_did(level: str) -> None:
    same = Where("k", "=", 0)
    error = Scene(level, [Row(0, 0), Row(1, 1)]).meets(Delete(same), Update(same, Change("v", 9, False)))
    assert error is not None
    assert error.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert error.advice == advice.SAME_ROWS
    assert "conflictRetries" in str(error)
    assert "partition" not in error.advice


def test_beside_a_plain_append_the_isolation_level_is_named() -> None:
    error = Scene("Serializable", [Row(0, 0)]).meets(Delete(Where("k", "=", 0)), Insert((Row(0, 5),)))
    assert error is not None
    assert error.advice == advice.ISOLATION
    assert "WriteSerializable" in str(error)


def test_beside_a_plain_append_by_files_too() -> None:
    first = created(LOW, described=SERIALIZABLE)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(5, 5)))
    assert lost(ours, remove(LOW), add("low2")).advice == advice.ISOLATION


def test_of_other_rows_of_one_file_vectors_are_named() -> None:
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    rival_of(first).rewrite(LOW, add("low2"), where=id_is(3))
    error = lost(ours, remove(LOW), add("low3"))
    assert error.reason is ConflictReason.WITHOUT_HINT
    assert error.advice == advice.NO_VECTORS
    assert "delta.enableDeletionVectors" in str(error)


def test_a_condition_that_is_not_repeatable_is_named() -> None:
    """The scan records only its files, as for a subquery."""
    first = created(LOW, protocol=VECTORS, described=SERIALIZABLE)
    ours = first.read(id_is(5), LOW)
    other = rival_of(first)
    other.read(id_is(500), name="MERGE").commit([add("w", ids=(5, 5))])
    error = lost(ours, remove(LOW), add("low2"))
    assert error.advice == advice.NOT_REPEATABLE
    assert "subquery" in str(error)


def test_a_read_of_the_whole_table_is_named() -> None:
    first = created(LOW, described=SERIALIZABLE)
    replacing = first.table.begin(Operation(name="WRITE", parameters={"mode": "Overwrite"}))
    comparing = first.begin("UPDATE")
    for ours in (replacing, comparing):
        ours.record_whole_table()
    rival_of(first).read(id_is(500), name="MERGE").commit([add("w", ids=(5, 5))])
    error = lost(replacing, remove(LOW), add("all"))
    assert error.reason is ConflictReason.WHOLE_TABLE_READ
    assert error.advice == advice.WHOLE_TABLE + advice.REPLACES_ALL
    error = lost(comparing, remove(LOW), add("all"))
    assert error.advice == advice.WHOLE_TABLE + advice.READS_ALL, "bug B76"


def test_a_cycle_has_no_advice_on_conditions() -> None:
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    rival_of(first).append(add("w", ids=(5, 5)))
    rival_of(first, seed=3).rewrite(HIGH, add("high2", ids=(100, 109)), where=id_is(105))
    error = lost(ours, remove(LOW))
    assert error.reason is ConflictReason.REORDER_CYCLE
    assert error.advice == advice.CYCLE


def test_a_compaction_without_row_map_is_named() -> None:
    first = created(LOW, HIGH)
    ours = first.read(id_is(5), LOW)
    rival_of(first).optimize([LOW, HIGH], [add("both", ids=(0, 109), rows=20)])
    error = lost(ours, remove(LOW), add("low2"))
    assert error.reason is ConflictReason.UNMAPPED_REWRITE
    assert error.advice == advice.UNMAPPED_WITHOUT_VECTORS, "bug B76: our own OPTIMIZE would not help there"


def test_time_that_ran_out_names_no_setting_that_does_not_exist() -> None:
    assert "allow" not in advice.TOO_LONG
    scene = Scene("Serializable", [Row(0, 0), Row(1, 1)])
    context = scene.played.table._context
    object.__setattr__(context, "bounds", RetryLimits(checks_ms_max=-1))
    error = scene.meets(Delete(Where("k", "=", 0)), Insert((Row(0, 6),)))
    assert error is not None
    assert error.reason is ConflictReason.ALLOTTED_TIME_EXCEEDED
    assert error.advice == advice.TOO_LONG


def test_advice_on_identity_columns_is_about_rows() -> None:
    """Both have generated values, which the mark of the column says."""

    def with_mark(mark: int | None) -> Metadata:
        identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
        if mark is not None:
            identity["delta.identity.highWaterMark"] = mark
        return metadata(StructType([StructField("id", LongType(), True, identity)]))

    first = created(LOW, protocol=features("identityColumns"), described=with_mark(None))
    ours = first.begin()
    rival_of(first).commit([add("w"), with_mark(1)])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a"), with_mark(2)], edited_properties=frozenset())
    error = raised.value
    assert error.reason is ConflictReason.IDENTITY_COLUMNS
    assert "identity column id" in str(error)
    assert "changed the table's metadata" not in str(error)


def test_a_new_schema_is_described_by_its_columns() -> None:
    first = created(LOW)
    ours = first.begin()
    below = StructType([*(field for field in SCHEMA.fields if field.name != "value"), StructField("a b", StringType())])
    below = StructType([below.fields[0], StructField("date", LongType()), *below.fields[2:]])
    changed = msgspec.structs.replace(metadata(below), configuration={"delta.appendOnly": "false"})
    rival_of(first).commit([changed], name="CHANGE COLUMN")
    error = lost(ours, add("a"))
    assert error.reason is ConflictReason.SCHEMA_OR_PARTITIONING
    assert error.where == "added `a b`; dropped value; changed date; set delta.appendOnly"
