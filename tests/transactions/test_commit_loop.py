"""The loop and its three outcomes, with interleavings written down."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import (
    CommitFateUnknownError,
    ConcurrentAppendException,
    ConcurrentWriteException,
    ConflictReason,
    LogMovedOnError,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.errors.environment import StorageError
from anabranch.errors.log import CorruptCommitError
from anabranch.protocol.actions import RemoveFile
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.after_commit import AfterCommit
from anabranch.transactions.commit.commit_context import CommittedVersion, RetryLimits
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from storage.faults import FaultyStore, PutFault, WriterDied
from transactions.log_linter import lint
from transactions.table_on_memory import (
    PLAIN,
    TestClock,
    Writer,
    add,
    created,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
    writer,
)


def info(store: LogStore, version: int) -> dict[str, Any]:
    first = store.read(commit_path(version)).splitlines()[0]
    return dict(json.loads(first)["commitInfo"])


def versions(store: LogStore) -> int:
    return sum(file.path.endswith(".json") for file in store.list_from("_delta_log"))


def adds_of(store: LogStore, path: str) -> int:
    """How many commits add this file."""
    return sum(
        f'"path":"{path}"'.encode() in store.read(file.path)
        for file in store.list_from("_delta_log")
        if file.path.endswith(".json")
    )


def is_commit(path: str) -> bool:
    return path.endswith(".json")


def faulty(first: Writer, *faults: PutFault, **more: Any) -> tuple[FaultyStore, Writer]:
    store = FaultyStore(first.store, faults, only=is_commit, **more)
    return store, rival_of(first, store=store)


def test_first_commit_creates_the_table() -> None:
    made = writer()
    committed = made.commit([PLAIN, metadata(), add("a")], name="CREATE TABLE AS SELECT")

    assert committed.version == 0
    assert committed.attempts == 1
    assert committed.snapshot.files.count == 1
    assert "readVersion" not in info(made.store, 0)
    assert info(made.store, 0)["txnId"] == committed.txn_id
    assert lint(made.store) == []


def test_commit_says_what_it_is() -> None:
    made = created()
    operation = Operation(name="WRITE", parameters={"mode": "Append", "partitionBy": []}, user_metadata="by hand")
    made.table.begin(operation).commit([add("a")], metrics={"numFiles": 1, "numOutputBytes": "100"})

    said = info(made.store, 1)
    assert said["operation"] == "WRITE"
    assert said["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert said["operationMetrics"] == {"numFiles": "1", "numOutputBytes": "100"}
    assert said["userMetadata"] == "by hand"
    assert said["readVersion"] == 0
    assert said["isolationLevel"] == "WriteSerializable"
    assert said["isBlindAppend"] is True
    assert said["engineInfo"].startswith("anabranch/")
    assert said["timestamp"] == made.clock.now_ms()
    assert "tags" not in said


@pytest.mark.parametrize(("waits_ms", "is_late"), [(1_000, False), (31 * 86_400_000, True)])
def test_a_tombstone_made_long_before_has_the_time_of_the_commit(waits_ms: int, is_late: bool) -> None:
    """Covers fault F53: otherwise VACUUM would delete the file at once, under readers of the version before."""
    made = created(add("a"))
    transaction = made.begin()
    marked_ms = made.clock.now_ms()
    removal = msgspec.structs.replace(remove(add("a")), deletion_timestamp=marked_ms)
    made.clock.sleep_ms(waits_ms)
    committed = transaction.commit([removal])
    (tombstone,) = [action for action in committed.actions if isinstance(action, RemoveFile)]
    assert tombstone.deletion_timestamp == (made.clock.now_ms() if is_late else marked_ms)


def test_blind_appends_are_committed_one_after_the_other() -> None:
    ours = created()
    winner = rival_of(ours)
    late = ours.begin()
    for number in range(3):
        winner.append(add(f"w{number}"))
    committed = late.commit([add("ours")])

    assert committed.version == 4
    assert committed.reconciled == (1, 2, 3)
    assert committed.attempts == 2, "one lost race, then all winners at once"
    assert info(ours.store, 4)["tags"] == {"anabranch.landedAfter": "1-3"}
    assert info(ours.store, 4)["readVersion"] == 0
    assert lint(ours.store) == []


@pytest.mark.parametrize("fault", [PutFault.REPLY_LOST, PutFault.RETRIED_INSIDE])
def test_own_commit_is_recognized(fault: PutFault) -> None:
    """Covers faults F16, F19: the put was applied; its reply is lost, or says that the file exists."""
    first = created()
    _, ours = faulty(first, fault)
    committed = ours.append(add("a"))

    assert committed.version == 1
    assert committed.attempts == 1
    assert versions(first.store) == 2
    assert adds_of(first.store, "a") == 1


class NeverDurable(FaultyStore):
    """The disk shows what was put, and fails to promise that it will stay."""

    fails = 10**6

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        outcome = super().put_if_absent(path, data)
        return PutOutcome.UNKNOWN if self.fails and outcome is PutOutcome.CREATED else outcome

    def make_durable(self, path: str) -> None:
        if self.fails:
            self.fails -= 1
            raise StorageError(root=self.root, path=path, doing="sync", cause="Input/output error (EIO)")


def test_commit_that_may_not_survive_a_power_loss_is_not_acknowledged() -> None:
    """Its own file is there to be seen; the fsync of its folder fails for good."""
    first = created()
    ours = rival_of(first, store=NeverDurable(first.store, only=is_commit))
    with pytest.raises(CommitFateUnknownError, match="EIO") as raised:
        ours.append(add("a"))
    assert raised.value.version == 1
    assert adds_of(first.store, "a") == 1, "the error says where to look"


def test_commit_is_acknowledged_once_the_disk_promises_to_keep_it() -> None:
    first = created()
    store = NeverDurable(first.store, only=is_commit)
    store.fails = 3
    assert rival_of(first, store=store).append(add("a")).version == 1
    assert store.fails == 0
    assert adds_of(first.store, "a") == 1


def test_lost_reply_then_others_land_behind() -> None:
    """Covers race 84, fault F18: our commit is in the log, and v+1, v+2 are others'. It is not done again."""
    first = created()

    class LandsThenOthersCome(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            outcome = super().put_if_absent(path, data)
            if outcome is PutOutcome.UNKNOWN:
                winner = rival_of(first, seed=9)
                winner.append(add("w1"))
                winner.append(add("w2"))
            return outcome

    ours = rival_of(first, store=LandsThenOthersCome(first.store, [PutFault.REPLY_LOST], only=is_commit))
    committed = ours.append(add("a"))

    assert committed.version == 1
    assert committed.snapshot.version == 1
    assert versions(first.store) == 4
    assert adds_of(first.store, "a") == 1
    assert lint(first.store) == []


def test_lost_request_is_sent_again_for_the_same_version() -> None:
    """Covers fault F15."""
    first = created()
    store, ours = faulty(first, PutFault.REQUEST_LOST, PutFault.REQUEST_LOST)
    assert ours.append(add("a")).version == 1
    assert store.put_log == [commit_path(1)] * 3


def test_refused_put_is_reported_as_what_it_is() -> None:
    """Covers fault F15: no space, no permission. Nothing was committed, and the error says so."""
    first = created()
    _, ours = faulty(first, PutFault.REFUSED)
    with pytest.raises(StorageError, match="no space left"):
        ours.append(add("a"))
    assert versions(first.store) == 1


def test_refusal_of_a_second_put_is_no_proof() -> None:
    """A first put may have been committed although the second is refused."""
    first = created()
    store, ours = faulty(first, PutFault.DELAYED, PutFault.REFUSED, PutFault.NONE)
    assert ours.append(add("a")).version == 1
    assert store.land_delayed() == [PutOutcome.EXISTS]
    assert adds_of(first.store, "a") == 1


def test_zombie_put_cannot_land_twice() -> None:
    """Covers fault F21: the storage finishes a put that we had given up waiting for."""
    first = created()
    store, ours = faulty(first, PutFault.DELAYED, PutFault.DELAYED, PutFault.NONE)
    assert ours.append(add("a")).version == 1
    assert store.land_delayed() == [PutOutcome.EXISTS] * 2
    assert adds_of(first.store, "a") == 1
    assert set(store.put_log) == {commit_path(1)}


def test_unknown_outcome_is_reported_with_its_version() -> None:
    """Covers faults F20, F21: never another version while the fate of one is open."""
    first = created()
    store, ours = faulty(first, *[PutFault.DELAYED] * 50)
    transaction = ours.begin()
    with pytest.raises(CommitFateUnknownError) as raised:
        transaction.commit([add("a")])

    assert raised.value.version == 1
    assert raised.value.txn_id == transaction.txn_id
    assert transaction.txn_id in str(raised.value)
    assert set(store.put_log) == {commit_path(1)}
    assert len(store.put_log) == RetryLimits().unresolved_attempts_max
    assert sum(ours.clock.naps) < 60_000
    outcomes = store.land_delayed()
    assert outcomes[0] is PutOutcome.CREATED, "it was committed late, at the version that the error names"
    assert adds_of(first.store, "a") == 1


def test_unknown_outcome_of_a_table_that_is_dropped_meanwhile() -> None:
    """Covers fault F21: an earlier put may have landed before the drop, so no error says that it lost."""
    first = created()
    puts: list[str] = []

    def dropped_before_the_second(path: str) -> None:
        puts.append(path)
        if len(puts) == 2:
            first.store.delete(commit_path(0))

    _, ours = faulty(first, PutFault.REQUEST_LOST, before_put=dropped_before_the_second)
    with pytest.raises(CommitFateUnknownError) as raised:
        ours.append(add("a"))
    assert (raised.value.version, raised.value.attempts) == (1, 2)


def test_winner_commits_the_version_while_ours_is_unresolved() -> None:
    """Covers fault F21: once the version is a winner's, our delayed put cannot commit it, and we may try the next."""
    first = created()
    puts: list[str] = []

    def rival_comes_second(path: str) -> None:
        puts.append(path)
        if len(puts) == 2:
            rival_of(first, seed=9).append(add("w"))

    store, ours = faulty(first, PutFault.DELAYED, before_put=rival_comes_second)
    committed = ours.append(add("a"))

    assert committed.version == 2
    assert store.land_delayed() == [PutOutcome.EXISTS]
    assert adds_of(first.store, "a") == 1
    assert lint(first.store) == []


@pytest.mark.parametrize("fault", [PutFault.CRASH_BEFORE, PutFault.CRASH_AFTER])
def test_death_leaves_all_or_nothing(fault: PutFault) -> None:
    """Covers faults F14, F17: a writer that numbers its writes does each once, however often it dies."""
    from anabranch.protocol.actions import SetTransaction

    first = created()

    def write(ours: Writer) -> None:
        transaction = ours.begin()
        if not transaction.has_written(app_id="app", version=1):
            transaction.commit([SetTransaction(app_id="app", version=1), add("a")])

    _, dying = faulty(first, fault)
    with pytest.raises(WriterDied):
        write(dying)
    write(rival_of(first, seed=3))
    write(rival_of(first, seed=4))
    assert adds_of(first.store, "a") == 1
    assert lint(first.store) == []


def test_stale_listing_costs_an_attempt_only() -> None:
    """Covers fault F30: the listing does not show the newest winners yet."""
    first = created()
    store = FaultyStore(first.store)
    ours = rival_of(first, store=store)
    transaction = ours.begin()
    rival_of(first, seed=5).append(add("w0"))
    store.freeze_listings("_delta_log", times=1)
    rival_of(first, seed=6).append(add("w1"))
    rival_of(first, seed=7).append(add("w2"))
    committed = transaction.commit([add("a")])

    assert committed.version == 4
    assert committed.attempts == 3
    assert committed.reconciled == (1, 2, 3)
    assert lint(first.store) == []


def test_winner_arrives_during_every_check() -> None:
    """Covers faults F30, F32: new winners at each attempt; ours gets through when they pause."""
    first = created()
    rival = rival_of(first, seed=5)
    comes = iter(range(50))

    def one_more(path: str) -> None:
        number = next(comes, None)
        if number is not None:
            rival.append(add(f"w{number}"))

    _, ours = faulty(first, before_put=one_more)
    committed = ours.append(add("a"))
    assert committed.version == 51
    assert committed.attempts == 51
    assert max(ours.clock.naps) <= RetryLimits().lost_attempt_wait_ms_max
    assert lint(first.store) == []


def test_endless_winners_end_with_a_truthful_error() -> None:
    """Covers fault F32: bounded, and not called a conflict of data."""
    first = created()
    rival = rival_of(first, seed=5)

    def always_one_more(path: str) -> None:
        rival.append(add(f"w{path[-8:-5]}"))

    store = FaultyStore(first.store, before_put=always_one_more, only=is_commit)
    ours = rival_of(first, store=store, bounds=RetryLimits(attempts_max=7))
    with pytest.raises(ConcurrentWriteException) as raised:
        ours.append(add("a"))
    assert raised.value.reason is ConflictReason.TOO_MANY_WINNERS
    assert versions(first.store) == 8


def test_fifty_winners_are_reconciled_at_once() -> None:
    first = created()
    ours = first.begin()
    for number in range(50):
        rival_of(first, seed=10 + number).append(add(f"w{number}"))
    committed = ours.commit([add("a")])
    assert (committed.version, committed.attempts, len(committed.reconciled)) == (51, 2, 50)


def test_unreadable_winner_stops_the_commit() -> None:
    """Covers faults F24, F29: a torn winner is an error, never "no conflict"."""
    first = created()
    ours = first.begin()
    first.store.put(commit_path(1), b'{"commitInfo":{"op')
    with pytest.raises(CorruptCommitError):
        ours.commit([add("a")])
    assert versions(first.store) == 2


def test_winner_behind_ours_that_cannot_be_read_stops_the_commit() -> None:
    """Covers fault F29: the storage fails while winners are read; nothing of ours is there."""
    first = created()

    class CannotRead(FaultyStore):
        def read(self, path: str, *, size_max: int | None = None) -> bytes:
            if path == commit_path(2):
                raise StorageError(root=self.root, path=path, doing="read", cause="503 slow down")
            return super().read(path, size_max=size_max)

    ours = rival_of(first, store=CannotRead(first.store))
    transaction = ours.begin()
    first.append(add("w1"))
    first.append(add("w2"))
    with pytest.raises(StorageError, match="slow down"):
        transaction.commit([add("a")])
    assert versions(first.store) == 3
    assert adds_of(first.store, "a") == 0


def test_two_creators_of_one_table() -> None:
    """The loser learns that the table was created meanwhile; it did not change its protocol."""
    first = writer()
    second = rival_of(first)
    transaction = second.begin("CREATE TABLE")
    first.commit([PLAIN, metadata()], name="CREATE TABLE")
    with pytest.raises(ProtocolChangedException, match="was created meanwhile") as raised:
        transaction.commit([PLAIN, metadata(table_id="other"), add("a")])
    assert raised.value.reason is ConflictReason.TABLE_CREATED
    assert raised.value.version == 0
    assert raised.value.read_version == -1
    assert versions(first.store) == 1


def test_log_cleaned_up_past_the_read_version() -> None:
    """Covers race 85, fault F42: our next version is free, and it is not next."""
    first = created()
    ours = first.begin()
    rival = rival_of(first)
    for number in range(6):
        rival.append(add(f"w{number}"))
    for version in range(5):
        first.store.delete(commit_path(version))
    with pytest.raises(LogMovedOnError, match="cleaned up"):
        ours.commit([add("a")])
    assert first.store.head(commit_path(1)) is None, "no commit was written into the gap"


def with_checkpoint_at_2() -> tuple[Writer, Transaction]:
    """A transaction that read version 0; there are versions 1 to 3, and the file of version 0 is gone."""
    file = add("f")
    first = created(file, described=with_properties(metadata(), checkpointInterval="2"))
    ours = first.read(id_is(3), file)
    rival = rival_of(first)
    for number in range(3):
        rival.append(add(f"w{number}", ids=(100, 109)))
    first.store.delete(commit_path(0))
    return first, ours


def test_log_cleaned_up_to_the_read_version_itself() -> None:
    """Covers bug B75: every winner is in the log, so the checks decide."""
    first, ours = with_checkpoint_at_2()
    committed = ours.commit([remove(add("f")), add("a")])
    assert (committed.version, committed.reconciled) == (4, (1, 2, 3))
    assert adds_of(first.store, "a") == 1

    first, ours = with_checkpoint_at_2()
    rival_of(first).commit([remove(add("f")), add("g")], name="UPDATE")
    with pytest.raises(ConcurrentAppendException):
        ours.commit([remove(add("f")), add("a")])


@pytest.mark.parametrize("change", ["a gap", "another file", "no checkpoint", "another table", "a damaged checkpoint"])
def test_log_that_lacks_more_than_the_read_version(change: str) -> None:
    """Covers bug B75: what is not certain is refused."""
    first, ours = with_checkpoint_at_2()
    [checkpoint] = [file.path for file in first.store.list_from("_delta_log") if "checkpoint.parquet" in file.path]
    if change == "a gap":
        first.store.delete(commit_path(1))
    elif change == "another file":
        first.store.put(commit_path(0), b"{}\n")
    elif change == "no checkpoint":
        first.store.delete(checkpoint)
    elif change == "a damaged checkpoint":
        first.store.put(checkpoint, b"PAR1")
    else:
        other = created(described=with_properties(metadata(table_id="table-2"), checkpointInterval="2"))
        for number in range(2):
            other.append(add(f"o{number}"))
        first.store.put(checkpoint, other.store.read(checkpoint))
    with pytest.raises(LogMovedOnError, match="cleaned up"):
        ours.commit([remove(add("f")), add("a")])
    assert versions(first.store) == (2 if change == "a gap" else 4 if change == "another file" else 3)


def test_table_dropped_meanwhile() -> None:
    """Covers race 87."""
    first = created()
    ours = first.begin()
    first.store.delete(commit_path(0))
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.TABLE_REPLACED
    assert versions(first.store) == 0


@pytest.mark.parametrize("is_created_again", [False, True])
def test_table_dropped_between_check_and_put(is_created_again: bool) -> None:
    """Bug B25: the commit is alone in a log that is not the table's any more: it is removed."""
    first = created(add("f"))
    first.append(add("g"))

    def drop(path: str) -> None:
        for version in range(2):
            first.store.delete(commit_path(version))
        if is_created_again:
            rival_of(first, seed=8).commit([PLAIN, metadata(table_id="table-2")])

    ours = rival_of(first, store=FaultyStore(first.store, before_put=drop, only=lambda path: path == commit_path(2)))
    with pytest.raises(MetadataChangedException) as raised:
        ours.append(add("a"))
    assert raised.value.reason is ConflictReason.TABLE_REPLACED
    assert versions(first.store) == (1 if is_created_again else 0)
    assert first.store.head(commit_path(2)) is None


def test_commit_that_others_have_built_upon_is_never_taken_back() -> None:
    """While we slept, the log went on, and what we had read was cleaned up."""
    first = created()

    class SleepsAfterThePut(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
            outcome = super().put_if_absent(path, data)
            if path == commit_path(1):
                rival = rival_of(first)
                for number in range(3):
                    rival.append(add(f"w{number}"))
                first.store.delete(commit_path(0))
            return outcome

    ours = rival_of(first, store=SleepsAfterThePut(first.store, only=is_commit))
    assert ours.append(add("a")).version == 1
    assert first.store.head(commit_path(1)) is not None


def test_table_dropped_and_created_again_meanwhile() -> None:
    """Covers race 87, fault F50: the new table has the version that we read, and it is not the one we read."""
    first = created()
    ours = first.begin()
    first.store.delete(commit_path(0))
    first.clock.sleep_ms(5)
    rival_of(first, seed=8).commit([PLAIN, metadata(table_id="table-2")])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.TABLE_REPLACED
    assert versions(first.store) == 1


class InterruptedStore(FaultyStore):
    """The user presses Ctrl-C within a put."""

    lands = True
    interrupts = 1

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        if self.interrupts:
            self.interrupts -= 1
            if self.lands:
                self.inner.put_if_absent(path, data)
            raise KeyboardInterrupt
        return super().put_if_absent(path, data)


@pytest.mark.parametrize("lands", [True, False])
def test_interrupt_within_the_put_is_raised_once_the_outcome_is_final(lands: bool) -> None:
    """Covers fault F61."""
    first = created()
    store = InterruptedStore(first.store)
    store.lands = lands
    ours = rival_of(first, store=store)
    with pytest.raises(KeyboardInterrupt) as raised:
        ours.append(add("a"))
    assert "version 1 of memory:/table was already committed" in raised.value.__notes__[0]
    assert adds_of(first.store, "a") == 1


def test_interrupt_within_a_put_that_lost() -> None:
    """Covers fault F61: a commit that lost is not tried again after an interrupt by the user."""
    first = created()
    store = InterruptedStore(first.store)
    store.lands = False
    ours = rival_of(first, store=store).begin()
    first.append(add("w"))
    with pytest.raises(KeyboardInterrupt) as raised:
        ours.commit([add("a")])
    assert "nothing was committed" in raised.value.__notes__[0]
    assert versions(first.store) == 2


def test_second_interrupt_is_obeyed_and_says_what_is_unknown() -> None:
    """Covers fault F61."""
    first = created()
    store = InterruptedStore(first.store)
    store.lands, store.interrupts = False, 2
    with pytest.raises(KeyboardInterrupt) as raised:
        rival_of(first, store=store).append(add("a"))
    assert "not known whether" in raised.value.__notes__[0]


def test_interrupt_while_the_storage_never_answers() -> None:
    """Covers fault F61: then the exception says that the outcome is not known, and at which version to look."""
    first = created()
    store = InterruptedStore(first.store, [PutFault.REQUEST_LOST] * 50, only=is_commit)
    store.lands = False
    ours = rival_of(first, store=store).begin()
    with pytest.raises(KeyboardInterrupt) as raised:
        ours.commit([add("a")])
    assert "not known whether" in raised.value.__notes__[0]
    assert ours.txn_id in raised.value.__notes__[0]


class FailingStep:
    name = "checkpoint"

    def run(self, committed: CommittedVersion) -> None:
        raise StorageError(root="r", path="p", doing="write", cause="disk full")


def test_upkeep_that_fails_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """No failure may be reported after a commit."""
    import random

    seen: list[int] = []

    class NotingStep:
        name = "note"

        def run(self, committed: CommittedVersion) -> None:
            seen.append(committed.snapshot.version)

    store = MemoryStore()
    table = DeltaLog(
        store, TestClock(), random.Random(0), after_commit=AfterCommit(steps=[FailingStep(), NotingStep()])
    )
    assert table.begin(Operation(name="CREATE TABLE")).commit([PLAIN, metadata()]).version == 0
    assert seen == [0]
    assert "version 0 is committed, but its checkpoint failed" in caplog.text


def test_errors_of_the_loop_survive_pickling() -> None:
    import pickle

    for error in (
        CommitFateUnknownError(table="t", version=3, txn_id="x", attempts=12, cause="timeout"),
        LogMovedOnError(table="t", read_version=3, earliest=90),
    ):
        again: DeltaError = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert again.facts() == error.facts()


def test_removed_file_is_gone_for_the_next_commit() -> None:
    first = created(add("a"), add("b"))
    first.begin("DELETE").commit([remove(add("a"))])
    assert first.table.snapshots.latest().files.count == 1
    assert lint(first.store) == []
