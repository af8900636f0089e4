"""Appends of one process that wait for one another land as one commit."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.commits import (
    CommitFateUnknownError,
    ConcurrentDeleteReadException,
    InvalidCommitError,
    MetadataChangedException,
)
from anabranch.protocol.actions import Action
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.transactions.commit import group_commit
from anabranch.transactions.commit.after_commit import AfterCommit
from anabranch.transactions.commit.commit_context import CommitQueue, CommittedVersion, RetryLimits
from anabranch.transactions.commit.group_commit import Member
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from storage.faults import FaultyStore, PutFault
from transactions.log_linter import lint
from transactions.table_on_memory import (
    SCHEMA,
    TestClock,
    Writer,
    add,
    created,
    domain,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
)
from transactions.test_commit_loop import info

WRITE = Operation(name="WRITE", parameters={"mode": "Append"}, user="ann")


@dataclasses.dataclass
class Session:
    """A client's session, and what its append ended with."""

    table: DeltaLog
    transaction: Transaction | None = None
    ended: CommittedVersion | BaseException | None = None

    def begin(self, operation: Operation = WRITE) -> Session:
        self.transaction = self.table.begin(operation)
        return self

    def append(self, actions: Sequence[Action], **facts: Any) -> None:
        assert self.transaction is not None
        try:
            self.ended = self.transaction.commit(actions, **{"may_be_grouped": True, **facts})
        except BaseException as error:
            self.ended = error

    @property
    def version(self) -> int:
        assert isinstance(self.ended, CommittedVersion), repr(self.ended)
        return self.ended.version


class Clients:
    """Sessions of one process. Their appends wait until all have arrived."""

    def __init__(self, store: LogStore, count: int, **facts: Any) -> None:
        self.queue = CommitQueue(turn_seconds_max=60)
        self.upkeep: list[int] = []
        steps = AfterCommit(steps=(self,))
        self.sessions = [
            DeltaLog(store, TestClock(), random.Random(seed), queue=self.queue, after_commit=steps, **facts)
            for seed in range(10, 10 + count)
        ]
        self.name = "count"

    def run(self, committed: CommittedVersion) -> None:
        self.upkeep.append(committed.version)

    def begin(self, operation: Operation = WRITE) -> list[Session]:
        return [Session(table).begin(operation) for table in self.sessions]

    def run_all(self, *appends: Callable[[], None]) -> None:
        """Run these on threads, which get in line one after the other before the first of them has its turn."""
        threads = []
        with self.queue.turn():
            for number, append in enumerate(appends, start=1):
                threads.append(threading.Thread(target=append))
                threads[-1].start()
                deadline = time.monotonic() + 10
                while len(self.queue._waiting) < number:
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def append_all(first: Writer, store: LogStore | None = None, *, count: int = 3, **facts: Any) -> list[Session]:
    clients = Clients(store or first.store, count, **facts)
    sessions = clients.begin()
    clients.run_all(*(_append(session, add(f"f{number}")) for number, session in enumerate(sessions)))
    return sessions


def _append(session: Session, *actions: Action, **facts: Any) -> Callable[[], None]:
    return lambda: session.append(actions, **facts)


def is_commit(path: str) -> bool:
    return path.endswith(".json")


class LyingStore(FaultyStore):
    """Acknowledges the commit of version 1 and does not store it."""

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        return PutOutcome.CREATED if path == commit_path(1) else super().put_if_absent(path, data)


def test_a_commit_of_several_appends_that_is_acknowledged_and_not_stored() -> None:
    first = created()
    sessions = append_all(first, LyingStore(first.store))
    assert [type(session.ended) for session in sessions] == [CommitFateUnknownError] * 3
    assert first.store.head(commit_path(1)) is None


def test_appends_that_wait_land_as_one_commit() -> None:
    first = created(protocol=features("rowTracking", "domainMetadata"), described=metadata())
    clients = Clients(first.store, 4)
    early, *rest = clients.begin()
    first.append(add("before"))
    sessions = [early, *(session.begin() for session in rest)]
    appends = [
        _append(session, add(f"f{number}"), metrics={"numFiles": 1, "numOutputRows": 10 + number})
        for number, session in enumerate(sessions)
    ]
    clients.run_all(*reversed(appends))

    assert [session.version for session in sessions] == [2, 2, 2, 2]
    entry = info(first.store, 2)
    assert entry["operation"] == "WRITE"
    assert entry["operationParameters"] == {"mode": "Append"}
    assert entry["operationMetrics"] == {"numFiles": "4", "numOutputRows": "46", "numGroupedAppends": "4"}
    assert entry["isBlindAppend"] is True
    assert entry["readVersion"] == 0, "the oldest version that one of them has read"
    assert entry["userName"] == "ann"
    assert clients.upkeep == [2], "the upkeep of a version runs once"
    assert {session.ended.txn_id for session in sessions} == {entry["txnId"]}
    assert lint(first.store) == []


def test_an_append_without_others_is_a_commit_of_its_own() -> None:
    first = created()
    (session,) = append_all(first, count=1)
    assert session.version == 1
    assert info(first.store, 1)["operationMetrics"] == {}


def reads_rows(session: Session) -> dict[str, Any]:
    session.transaction.record_scan(id_is(1))
    return {}


def reads_application(session: Session) -> dict[str, Any]:
    session.transaction.has_written(app_id="app", version=1)
    return {}


@pytest.mark.parametrize(
    "other",
    [
        reads_rows,
        reads_application,
        lambda session: {"conflicts_with": lambda commit: None},
        lambda session: {"may_be_grouped": False},
        lambda session: {"tags": {"lostTo": "1"}},
        lambda session: {"metrics": {"numFiles": 1}},
        lambda session: session.begin(Operation(name="WRITE", parameters={"mode": "Append"}, user="bob")) and {},
        lambda session: session.begin(dataclasses.replace(WRITE, user_metadata="mine")) and {},
        lambda session: session.begin(dataclasses.replace(WRITE, name="STREAMING UPDATE")) and {},
    ],
)
def test_other_commits_stay_alone(other: Callable[[Session], dict[str, Any]]) -> None:
    first = created()
    clients = Clients(first.store, 3)
    sessions = clients.begin()
    facts = other(sessions[1])
    clients.run_all(
        _append(sessions[0], add("a")), _append(sessions[1], add("b"), **facts), _append(sessions[2], add("c"))
    )
    assert [session.version for session in sessions] == [1, 2, 1]
    assert lint(first.store) == []


@pytest.mark.parametrize(
    "actions",
    [[domain("mine"), add("b")], [remove(add("old")), add("b")], [add("b", data_change=False)], []],
    ids=["a domain", "a removed file", "no change of rows", "nothing"],
)
def test_commits_that_do_more_than_add_rows_stay_alone(actions: list[Action]) -> None:
    first = created(add("old"), protocol=features("domainMetadata"))
    clients = Clients(first.store, 3)
    sessions = clients.begin()
    clients.run_all(_append(sessions[0], add("a")), _append(sessions[1], *actions), _append(sessions[2], add("c")))
    assert [session.version for session in sessions] == [1, 2, 1]
    assert lint(first.store) == []


def test_tables_with_identity_columns_have_no_groups() -> None:
    column = StructField("n", LongType(), metadata={"delta.identity.start": 1, "delta.identity.step": 1})
    first = created(protocol=features("identityColumns"), described=metadata(StructType([*SCHEMA.fields, column])))
    sessions = append_all(first, count=2)
    assert [session.version for session in sessions] == [1, 2]


def test_the_main_thread_commits_alone() -> None:
    first = created()
    clients = Clients(first.store, 1)
    (session,) = clients.begin()
    session.append([add("a")])
    assert session.version == 1
    proposal = clients.sessions[0].begin(WRITE).propose([add("b")], may_be_grouped=True)
    assert not group_commit.may_be_grouped(proposal, first.table.snapshots.latest())


def one_fails() -> list[Session]:
    """The second of three appends would put a file into the table twice."""
    first = created(add("old"))
    clients = Clients(first.store, 3)
    sessions = clients.begin()
    clients.run_all(
        _append(sessions[0], add("a")), _append(sessions[1], add("b"), add("b")), _append(sessions[2], add("c"))
    )
    assert lint(first.store) == []
    return sessions


def test_an_append_that_fails_fails_alone() -> None:
    sessions = one_fails()
    assert isinstance(sessions[1].ended, InvalidCommitError)
    assert sorted([sessions[0].version, sessions[2].version]) == [1, 2]


def test_a_failure_for_all_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the error of a group counts for each member."""
    monkeypatch.setattr(group_commit, "DeltaError", ZeroDivisionError)
    sessions = one_fails()
    assert [type(session.ended) for session in sessions] == [InvalidCommitError] * 3


def with_an_older_description() -> list[Session]:
    """One append was made before a NOT NULL, and one after it; the younger has the turn first."""
    first = created()
    clients = Clients(first.store, 2)
    old, young = clients.begin()
    stricter = StructType([StructField("id", LongType(), nullable=False), *SCHEMA.fields[1:]])
    first.commit([metadata(stricter)], name="CHANGE COLUMN")
    young.begin()
    clients.run_all(_append(young, add("young")), _append(old, add("old")))
    assert young.version == 2
    return [old, young]


def test_each_append_is_checked_against_the_description_that_it_has_read() -> None:
    old, _ = with_an_older_description()
    assert isinstance(old.ended, MetadataChangedException)


def test_a_group_of_different_descriptions_falls_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Member, "fits", lambda self, other: True)
    old, _ = with_an_older_description()
    assert isinstance(old.ended, MetadataChangedException)


def test_a_group_that_follows_the_newest_version_read_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: winners that only one of the members has not seen do not count."""
    monkeypatch.setattr(Member, "fits", lambda self, other: True)
    monkeypatch.setattr(group_commit, "min", max, raising=False)
    old, _ = with_an_older_description()
    assert old.version == 2


def after_a_vacuum() -> Session:
    """A VACUUM has deleted the file of the append that began first."""
    first = created()
    clients = Clients(first.store, 2)
    old, young = clients.begin()
    first.commit([], name="VACUUM END")
    young.begin()
    first.store.put_if_absent("young", b"rows")
    clients.run_all(_append(young, add("young")), _append(old, add("old")))
    assert young.version == 2
    return old


def test_files_that_a_vacuum_has_deleted_are_missed_by_one_append_alone() -> None:
    assert isinstance(after_a_vacuum().ended, ConcurrentDeleteReadException)


def test_a_vacuum_that_only_some_members_have_seen_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted, as above."""
    monkeypatch.setattr(group_commit, "min", max, raising=False)
    assert after_a_vacuum().version == 2


@pytest.mark.parametrize("fault", [PutFault.REPLY_LOST, PutFault.RETRIED_INSIDE])
def test_a_group_is_recognized_by_its_id(fault: PutFault) -> None:
    first = created()
    sessions = append_all(first, FaultyStore(first.store, [fault], only=is_commit))
    assert [session.version for session in sessions] == [1, 1, 1]
    assert not first.store.head(commit_path(2))


def test_no_member_commits_again_while_the_outcome_is_unknown() -> None:
    first = created()
    store = FaultyStore(first.store, [PutFault.DELAYED] * 50, only=is_commit)
    sessions = append_all(first, store, bounds=RetryLimits(unresolved_attempts_max=3))
    assert [type(session.ended) for session in sessions] == [CommitFateUnknownError] * 3
    assert {session.ended.version for session in sessions} == {1}
    store.land_delayed()
    table = rival_of(first).table.snapshots.latest()
    assert (table.version, table.files.count) == (1, 3)


def test_no_member_waits_for_ever_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*facts: Any, **more: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(group_commit, "commit_in_turn", broken)
    sessions = append_all(created())
    assert [type(session.ended) for session in sessions] == [RuntimeError] * 3


def test_a_group_loses_to_other_processes_and_lands() -> None:
    first = created()
    rival = rival_of(first)
    left = [add("w1"), add("w2")]
    store = FaultyStore(first.store, before_put=lambda _: rival.append(left.pop()) if left else None, only=is_commit)
    sessions = append_all(first, store)
    assert [session.version for session in sessions] == [3, 3, 3]
    assert info(first.store, 3)["tags"] == {"anabranch.landedAfter": "1-2"}
    assert lint(first.store) == []


def test_threads_append_all_the_time() -> None:
    """Each append is in the table once, whichever group it was in."""
    first = created()
    clients = Clients(first.store, 8)

    def work(number: int) -> None:
        for count in range(25):
            session = Session(clients.sessions[number]).begin()
            session.append([add(f"f{number}-{count}")], metrics={"numFiles": 1})
            assert session.version > 0

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    table = first.table.snapshots.latest()
    assert table.files.count == 200
    assert table.version < 200
    entries = [info(first.store, version)["operationMetrics"] for version in range(1, table.version + 1)]
    assert sum(int(entry["numFiles"]) for entry in entries) == 200
    assert sum(int(entry.get("numGroupedAppends", 1)) for entry in entries) == 200
    assert sorted(clients.upkeep) == list(range(1, table.version + 1))
    assert lint(first.store) == []
