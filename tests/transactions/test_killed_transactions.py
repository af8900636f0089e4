"""A transaction of several statements whose process is killed at any of its calls of the storage. Covers fault F59.

All of it is in the log, or nothing. What is left beside the table are files that VACUUM removes.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement.open_transaction import TableInTransaction
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from commands.vacuumed_tables import Target
from storage.faults import FaultyStore, WriterDied
from transactions.log_linter import lint
from transactions.open_statements import VECTORS, Open, delete
from transactions.table_on_memory import TestClock, Writer, add, created, metadata, rival_of, with_properties

CALLS = frozenset(
    {
        "delete",
        "delete_many",
        "head",
        "list_from",
        "list_tree",
        "make_durable",
        "open",
        "put",
        "put_if_absent",
        "read",
        "read_range",
        "walk",
    }
)
ROWS = 10_000
MANY = range(1, 5_000, 2)
"""So many that their vector is a file."""
MONTH_HOURS = 30 * 24
Rows = dict[str, frozenset[int]]
"""The hidden rows of each live file."""


class StoreThatKills(FaultyStore):
    """The process dies before its call of this number, or after it was executed; no call comes after that."""

    def __init__(self, inner: LogStore, *, at: int | None, after: bool) -> None:
        super().__init__(inner)
        self.count, self.at, self.after = 0, at, after

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name not in CALLS:
            return method
        self.count += 1
        number = self.count

        def call(*arguments: Any, **options: Any) -> Any:
            if self.at is None or number < self.at:
                return method(*arguments, **options)
            if number == self.at and self.after:
                method(*arguments, **options)
            raise WriterDied

        return call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a transaction, or what was left of it, came to."""

    result: str
    rows: Rows
    calls: int
    log: list[str]


def no_rival(rival: Writer) -> None:
    """No other session commits."""


def of_other_rows(rival: Writer) -> None:
    delete(rival, "a", 2)


def of_same_rows(rival: Writer) -> None:
    delete(rival, "a", 1)


def program(ours: Open, store: LogStore, land: Callable[[], None]) -> None:
    """Four statements that stay, in two data files, two vectors and a tombstone, and one that is undone."""

    def write(path: str) -> None:
        store.put(path, b"data")

    write("one")
    ours.begin().commit([add("one", rows=ROWS)])
    ours.delete("a", *MANY)
    ours.transaction.set_savepoint("here")
    write("undone")
    ours.rewrite("b", add("undone"))
    ours.transaction.roll_back_to("here")
    land()
    ours.delete("one", *MANY)
    write("two")
    ours.rewrite("c", add("two"))


def run(land: Callable[[Writer], None], *, at: int | None = None, after: bool = False) -> Run:
    """The transaction, killed at a call; then another session goes on, and VACUUM removes what is left."""
    clock = TestClock()
    store = MemoryStore(clock=clock)
    for path in "abc":
        store.put(path, b"data")
    described = with_properties(metadata(), checkpointInterval="1")
    table = created(add("a", rows=ROWS), add("b"), add("c"), protocol=VECTORS, described=described, store=store)
    killing = StoreThatKills(store, at=at, after=after)
    result = "killed"
    try:
        ours = Open(rival_of(table, store=killing))
        program(ours, killing, lambda: land(rival_of(table, seed=3)))
        ours.commit()
        result = "committed"
    except DeltaConcurrentModificationException:
        result = "conflict"
    except WriterDied:
        pass
    rows, log = live_rows(store), lint(store)
    rival_of(table, seed=4).append(add("later"))
    delete(rival_of(table, seed=5), "b", 3)
    assert live_rows(store) == {**rows, "b": frozenset({3}), "later": frozenset()}
    log += lint(store)
    log += left_after_vacuum(store, clock)
    return Run(result=result, rows=rows, calls=killing.count, log=log)


def live_rows(store: LogStore) -> Rows:
    files = DeltaLog(store, TestClock(), random.Random(0)).snapshots.latest().files.to_actions()
    vectors = StoredVectors(store, random.Random(0)).hidden(files)
    return {file.path: frozenset(rows) for file, rows in zip(files, vectors, strict=True)}


def left_after_vacuum(store: MemoryStore, clock: TestClock) -> list[str]:
    """The files that VACUUM leaves and the table does not have, and the other way round."""
    target = Target(delta_log=DeltaLog(store, clock, random.Random(6)), store=store, clock=clock)
    store.put("later", b"data")
    target.wait(MONTH_HOURS)
    target.vacuum()
    live = target.latest().files.to_actions()
    vectors = [file.deletion_vector for file in live if file.deletion_vector is not None]
    stored = {vector_path(vector, table_root=store.root) for vector in vectors if vector.storage_type == "u"}
    return sorted(target.files() ^ {file.path for file in live} ^ stored)


@pytest.mark.parametrize("land", [no_rival, of_other_rows, of_same_rows])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_transaction_that_is_killed_at_any_call_is_committed_as_a_whole_or_not_at_all(
    land: Callable[[Writer], None], after: bool
) -> None:
    """Before each call of the storage, and when it was executed."""
    whole, nothing = run(land), run(land, at=1)
    assert whole.result == ("conflict" if land is of_same_rows else "committed")
    met: Counter[str] = Counter()
    last: Run | None = None
    for call in range(1, whole.calls + 1):
        killed = run(land, at=call, after=after)
        assert killed.log == [], f"killed at call {call}"
        assert killed.result == "killed", f"killed at call {call}"
        assert killed.rows in outcomes(land, whole=whole.rows), f"killed at call {call}"
        met["all" if killed.rows == whole.rows else "nothing"] += 1
        assert last is None or last.rows != whole.rows or killed.rows == whole.rows, "what is committed stays"
        last = killed
    assert met["nothing"] >= 5
    assert met["all"] > 3 or land is of_same_rows
    assert nothing.rows != whole.rows or land is of_same_rows


def outcomes(land: Callable[[Writer], None], *, whole: Rows) -> list[Rows]:
    """The table before the transaction, without and with the rival's commit, and after the transaction."""
    before: Rows = {path: frozenset() for path in "abc"}
    theirs = {no_rival: frozenset[int](), of_other_rows: frozenset({2}), of_same_rows: frozenset({1})}[land]
    return [before, {**before, "a": theirs}, whole]


def test_a_whole_transaction_has_the_net_changes_of_those_statements_that_stay() -> None:
    many = frozenset(MANY)
    assert run(no_rival).rows == {"a": many, "b": frozenset(), "one": many, "two": frozenset()}
    assert run(of_other_rows).rows == {"a": many | {2}, "b": frozenset(), "one": many, "two": frozenset()}


def test_changes_of_a_part_in_the_log_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: each statement is committed when it ends."""

    def commit_now(self: TableInTransaction, proposal: ProposedCommit, read: Snapshot | None) -> CommittedVersion:
        kept = keep(self, proposal, read)
        files = [action for action in proposal.actions if isinstance(action, AddFile)]
        if all(file.deletion_vector is None for file in files):
            self.committed.begin(proposal.operation).commit(files)
        return kept

    keep = TableInTransaction.keep
    monkeypatch.setattr(TableInTransaction, "keep", commit_now)
    runs = [run(no_rival, at=call) for call in range(1, 20)]
    assert any(killed.rows not in outcomes(no_rival, whole={}) for killed in runs)
