"""The net changes of the statements of a transaction, and what a transaction refuses."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyroaring import BitMap64
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.commits import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    StatementInTransactionError,
)
from anabranch.protocol.actions import Metadata, SetTransaction
from anabranch.schema.computed_columns import IDENTITY_HIGH_WATER_MARK
from anabranch.schema.serialization import schema_string
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction, is_uncommitted, open_transaction
from anabranch.transactions.read_set import WHOLE_TABLE
from transactions.log_linter import lint
from transactions.open_statements import VECTORS, Open, Reference, delete, hidden
from transactions.table_on_memory import (
    SCHEMA,
    Writer,
    add,
    created,
    features,
    metadata,
    remove,
    rival_of,
    with_properties,
)

A, B, NEW = add("a"), add("b"), add("new")
BASE_A = ("a", None)
JOB = "job"


@pytest.fixture
def table() -> Writer:
    return created(A, B, protocol=VECTORS)


def test_a_file_that_is_added_and_removed_is_in_no_commit(table: Writer) -> None:
    ours = Open(table)
    ours.begin().commit([NEW])
    assert ours.live("new").path == "new"
    ours.delete("new")
    assert ours.net.files == []
    assert ours.net.named_rows == {}
    assert ours.net.changes_own_rows


def test_rows_of_an_own_file_are_hidden_in_it(table: Writer) -> None:
    """The file is new in the commit, with its last vector; no other commit can know its rows."""
    ours = Open(table)
    ours.begin().commit([NEW])
    ours.delete("new", 3)
    ours.delete("new", 5)
    assert ours.net.removes == {}
    assert ours.net.named_rows == {}
    ours.commit()
    assert hidden(table, "new") == {3, 5}
    assert lint(table.store) == []


def test_a_file_with_two_vectors_is_removed_once_and_added_with_the_last(table: Writer) -> None:
    ours = Open(table)
    ours.delete("a", 1)
    ours.delete("a", 4, 6)
    assert list(ours.net.removes) == [BASE_A]
    assert list(ours.net.adds) == ["a"]
    assert ours.net.named_rows == {BASE_A: BitMap64([1, 4, 6])}
    assert not ours.net.changes_own_rows
    delete(rival_of(table), "a", 2)

    ours.commit()
    assert hidden(table, "a") == {1, 2, 4, 6}
    assert lint(table.store) == []


def test_a_row_that_the_second_statement_deleted_is_a_conflict(table: Writer) -> None:
    """Its position counts for the vector of the version that the transaction began with."""
    ours = Open(table)
    ours.delete("a", 1)
    ours.delete("a", 4)
    delete(rival_of(table), "a", 4)

    with pytest.raises(ConcurrentDeleteDeleteException):
        ours.commit()


def test_advice_names_what_runs_all_statements_again(table: Writer) -> None:
    """The setting alone runs single statements again, and no transaction that is given statement by statement."""
    ours = Open(table)
    ours.delete("a", 1)
    delete(table, "a", 1)
    with pytest.raises(ConcurrentDeleteDeleteException) as raised:
        ours.commit()
    advice = raised.value.advice
    assert advice.startswith("It conflicts with statement 1 of the transaction, DELETE. Both operations")
    assert 'Run the whole transaction again. anabranch.transact(spark, "t", work) runs it again' in advice
    assert advice.endswith("spark.anabranch.conflictRetries for a SQL script, BEGIN ATOMIC … END.")
    assert advice.count("conflictRetries") == 1


def test_a_file_is_removed_after_some_of_its_rows(table: Writer) -> None:
    ours = Open(table)
    ours.delete("a", 1)
    ours.delete("a")
    assert list(ours.net.removes) == [BASE_A]
    assert ours.net.adds == {}
    assert ours.net.named_rows == {BASE_A: None}

    ours.commit()
    assert table.table.snapshots.latest().files.at_path("a") == []
    assert lint(table.store) == []


def test_a_file_without_rows_left_stays_removed_where_all_were_named(table: Writer) -> None:
    """The rows of two statements are all that the file has."""
    ours = Open(table)
    ours.delete("a", *range(4))
    ours.delete("a", *range(4, 10))
    assert ours.net.adds == {}
    assert ours.net.named_rows == {BASE_A: BitMap64(range(10))}


def test_a_file_that_was_rewritten_names_no_rows(table: Writer) -> None:
    """A row that another session deletes from it would come back in the new file."""
    ours = Open(table)
    ours.delete("a", 1)
    ours.rewrite("a", NEW)
    assert ours.net.rewritten == {BASE_A}
    assert ours.net.named_rows == {}
    assert ours.net.deleted_rows == {BASE_A: BitMap64([1])}
    delete(rival_of(table), "a", 2)

    with pytest.raises(ConcurrentDeleteDeleteException):
        ours.commit()


def test_rows_of_a_base_file_with_a_vector_are_counted_under_that_vector(table: Writer) -> None:
    delete(table, "a", 9)
    base = table.table.snapshots.latest().files.at_path("a")[0].key
    ours = Open(table)
    ours.delete("a", 1)
    ours.delete("a", 2)
    assert base != BASE_A
    assert ours.net.named_rows == {base: BitMap64([1, 2])}
    assert list(ours.net.removes) == [base]


def test_savepoints_undo_changes_and_keep_reads(table: Writer) -> None:
    ours = Open(table)
    ours.transaction.set_savepoint("start")
    ours.delete("a", 1)
    ours.transaction.set_savepoint("one")
    ours.delete("b", 2)
    ours.transaction.set_savepoint("two")
    assert ours.transaction.roll_back_to("one")
    assert list(ours.net.adds) == ["a"]
    assert len(ours.target.reads().scans) == 2
    assert not ours.transaction.roll_back_to("two"), "it came after the state that was gone back to"
    ours.transaction.set_savepoint("start")
    assert ours.transaction.roll_back_to("start")
    assert list(ours.net.adds) == ["a"], "the name is that of the newer state"
    assert ours.transaction.release_savepoint("one")
    assert not ours.transaction.roll_back_to("one")
    assert not ours.transaction.release_savepoint("one")


def test_a_statement_after_a_rollback_changes_the_older_state(table: Writer) -> None:
    ours = Open(table)
    ours.transaction.set_savepoint("start")
    ours.delete("a", 1)
    undone = ours.target.snapshot.version
    ours.transaction.roll_back_to("start")
    assert ours.target.snapshot is ours.target.base
    ours.delete("a", 2)
    assert ours.target.snapshot.version > undone, "Spark's cache knows rows by the version"
    assert ours.net.named_rows == {BASE_A: BitMap64([2])}


def test_of_the_writes_of_an_application_the_furthest_counts(table: Writer) -> None:
    ours = Open(table)
    for version in (3, 5, 4):
        statement = ours.begin()
        assert not statement.has_written(app_id=JOB, version=version)
        statement.commit([add(f"write-{version}"), SetTransaction(app_id=JOB, version=version)])
    assert {name: progress.version for name, progress in ours.net.applications.items()} == {JOB: 5}
    ours.commit()
    assert table.table.snapshots.latest().set_transactions[JOB].version == 5
    assert lint(table.store) == []


def test_progress_that_a_statement_without_changes_read_is_a_conflict(table: Writer) -> None:
    ours = Open(table)
    statement = ours.begin()
    statement.has_written(app_id=JOB, version=1)
    statement.end_without_commit()
    ours.begin().commit([NEW])
    rival_of(table).commit([add("theirs"), SetTransaction(app_id=JOB, version=1)])

    with pytest.raises(ConcurrentTransactionException) as raised:
        ours.commit()
    assert "again" not in raised.value.advice


def with_mark(described: Metadata, mark: int, *, sort_keys: bool = False) -> Metadata:
    schema = json.loads(described.schema_string)
    schema["fields"][0]["metadata"] = {IDENTITY_HIGH_WATER_MARK: mark}
    return msgspec.structs.replace(described, schema_string=json.dumps(schema, sort_keys=sort_keys))


def test_later_statements_may_move_the_marks_of_identity_columns() -> None:
    described = with_mark(metadata(), 4)
    ours = Open(created(A, protocol=VECTORS, described=described))
    ours.begin().commit([add("one"), with_mark(described, 6)])
    ours.begin().commit([add("two"), with_mark(described, 9)])
    assert ours.net.metadata == with_mark(described, 9)
    assert ours.target.snapshot.metadata == with_mark(described, 9)


def test_the_order_in_which_another_engine_writes_a_schema_is_no_change() -> None:
    theirs = with_mark(metadata(), 4, sort_keys=True)
    mark = StructField("id", LongType(), metadata={IDENTITY_HIGH_WATER_MARK: 6})
    moved = msgspec.structs.replace(theirs, schema_string=schema_string(StructType([mark, *SCHEMA.fields[1:]])))
    ours = Open(created(A, protocol=VECTORS, described=theirs))
    ours.delete("a", 1)
    ours.begin().commit([NEW, moved])
    assert ours.net.metadata == moved


def test_only_the_first_statement_may_describe_the_table(table: Writer) -> None:
    ours = Open(table)
    first = with_properties(metadata(), logRetentionDuration="interval 9 days")
    ours.begin("ALTER TABLE").commit([first])
    ours.delete("a", 1)
    for described in (with_properties(first, logRetentionDuration="interval 8 days"), features("appendOnly")):
        with pytest.raises(StatementInTransactionError, match="only the first statement") as refused:
            ours.begin("ALTER TABLE").commit([described])
        assert refused.value.table == "events"
    assert ours.net.metadata == first
    assert len(ours.target.statements) == 2
    ours.commit()
    assert table.table.snapshots.latest().metadata == first


def test_after_a_rollback_to_the_start_the_next_statement_is_the_first(table: Writer) -> None:
    ours = Open(table)
    ours.transaction.set_savepoint("start")
    ours.delete("a", 1)
    ours.transaction.roll_back_to("start")
    ours.begin("ALTER TABLE").commit([with_properties(metadata(), logRetentionDuration="interval 9 days")])
    assert len(ours.target.statements) == 1


def test_a_statement_that_was_made_from_an_older_state_is_refused(table: Writer) -> None:
    """Its file actions name files that are not in the table any more."""
    ours = Open(table)
    late = ours.begin("DELETE")
    ours.delete("a", 1)
    with pytest.raises(StatementInTransactionError, match="another statement has changed"):
        late.commit([remove(A)])
    assert ours.net.named_rows == {BASE_A: BitMap64([1])}


def test_nothing_is_in_the_log_before_the_commit(table: Writer) -> None:
    ours = Open(table)
    ours.delete("a", 1)
    version = ours.target.snapshot.version
    assert is_uncommitted(version)
    assert table.table.snapshots.latest().version == 0
    assert ours.target.log.snapshots.at_version(version) is ours.target.snapshot
    assert open_transaction("the transaction") is ours.transaction
    assert ours.commit().version == 1
    assert open_transaction("the transaction") is None


def test_a_transaction_has_one_table(table: Writer) -> None:
    ours = Open(table)
    other = created(A, protocol=VECTORS, store=MemoryStore("memory:/other"))
    with pytest.raises(StatementInTransactionError, match="it can change one table only"):
        ours.transaction.choose_target(other.table, Reference("other"), "DELETE", label="other")


def test_what_cannot_be_released_does_not_fail_the_end() -> None:
    """The transaction may be committed by then."""
    transaction = OpenTransaction("ends")
    released: list[bool] = []

    def fail() -> None:
        raise OSError

    transaction.keep_until_end(fail)
    transaction.keep_until_end(lambda: released.append(True))
    transaction.end()
    assert released == [True]
    assert open_transaction("ends") is None


def test_a_failed_statement_changes_nothing_and_has_read_all_rows(table: Writer) -> None:
    """Its program knows that it failed, which may depend on any row."""
    ours = Open(table)
    ours.delete("a", 1)
    before, scans = ours.target.snapshot, ours.target.reads().scans
    ours.begin("UPDATE")
    assert ours.target.snapshot is before
    assert len(ours.target.statements) == 1
    assert ours.target.reads().scans == (*scans, WHOLE_TABLE)
    ours.delete("a", 2)
    delete(rival_of(table), "b", 7)

    with pytest.raises(ConcurrentDeleteReadException) as lost:
        ours.commit()
    assert "a statement that failed" in str(lost.value)


def test_a_failed_append_has_read_what_it_recorded(table: Writer) -> None:
    """It fails by rows that it makes, and not by those of the table."""
    ours = Open(table)
    ours.delete("a", 1)
    failed = ours.begin()
    failed.has_written(app_id=JOB, version=1)
    failed.has_recorded_all = True
    assert len(ours.target.reads().scans) == 1
    assert ours.target.reads().application_ids == {JOB}
    delete(rival_of(table), "b", 7)
    ours.commit()
    assert (hidden(table, "a"), hidden(table, "b")) == ({1}, {7})


def test_a_statement_that_ended_has_not_failed(table: Writer) -> None:
    ours = Open(table)
    ours.begin("DELETE").end_without_commit()
    late = ours.begin("DELETE")
    ours.delete("a", 1)
    with pytest.raises(StatementInTransactionError):
        late.commit([remove(A)])
    assert len(ours.target.reads().scans) == 1
