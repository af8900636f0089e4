"""Writers that take turns as chance has it, over a storage that fails as chance has it.

The invariants of docs/design/cases.md: I1 what was acknowledged is in the log exactly once; I2 what was not is there
once or not at all; I3 every version is sound; I5 no other writer is harmed; I6 errors say what is true.
"""

from __future__ import annotations

import dataclasses
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors.commits import (
    CommitFateUnknownError,
    DeltaConcurrentModificationException,
    LogMovedOnError,
)
from anabranch.errors.environment import StorageError
from anabranch.log.cleanup import DAY_MS
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import PutOutcome
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit import commit_loop, invariants
from anabranch.transactions.commit.commit_context import CommittedVersion, RetryLimits
from anabranch.transactions.commit.commit_draft import CommitDraft
from anabranch.transactions.commit.log_continuity import PutTimer, check_commit_is_visible
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement.net_changes import NetChanges
from anabranch.transactions.multi_statement.net_commit import commit_net_changes
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction
from anabranch.transactions.proposed_commit import Operation, ProposedCommit
from anabranch.transactions.transaction import Transaction
from storage.faults import FaultyStore, PutFault, WriterDied
from transactions.log_linter import lint
from transactions.table_on_memory import PLAIN, TestClock, add, features, id_is, metadata, remove, with_properties

FAULTS = st.lists(st.sampled_from([PutFault.NONE, PutFault.NONE, *PutFault]), max_size=8)
ACTS = st.sampled_from(["append", "delete", "rewrite", "insert_select", "optimize", "transaction", "transaction"])
PARTS = ("append", "delete", "rewrite", "insert_select")
KILLED, UNDONE = 0.05, 0.2
LEVELS = st.sampled_from(["Serializable", "WriteSerializable"])


@dataclasses.dataclass
class Outcome:
    """The result that one writer got of one transaction."""

    txn_id: str
    result: str
    version: int | None = None
    files: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    """Files of statements of a transaction that are not in its commit."""


class Turns:
    """One writer moves at a time; whose turn it is, is drawn. Writers hand over before each put."""

    def __init__(self, chooser: random.Random) -> None:
        self._chooser = chooser
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def run(self, writers: dict[str, Callable[[Callable[[], None]], None]]) -> None:
        """All writers to their end, in an order that depends on the seed alone."""
        threads = {name: _Thread(self, name, work) for name, work in writers.items()}
        for thread in threads.values():
            thread.start()
            thread.paused.wait()
        alive = dict(threads)
        while alive:
            name = self._chooser.choice(sorted(alive))
            thread = alive[name]
            thread.paused.clear()
            thread.turn.set()
            thread.paused.wait()
            if thread.done:
                thread.join()
                del alive[name]
                if thread.error is not None:
                    raise thread.error


class _Thread(threading.Thread):
    def __init__(self, turns: Turns, name: str, work: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.turn, self.paused = threading.Event(), threading.Event()
        self.done, self.error = False, None
        self._work = work

    def _hand_over(self) -> None:
        self.paused.set()
        self.turn.wait()
        self.turn.clear()

    def run(self) -> None:
        self._hand_over()
        try:
            self._work(self._hand_over)
        except BaseException as error:
            self.error = error
        self.done = True
        self.paused.set()


def act(transaction: Transaction, kind: str, name: str, chooser: random.Random) -> list[object]:
    """What the writer does; its reads are recorded as a command of ours would record them."""
    assert transaction.snapshot is not None
    live = transaction.snapshot.files.to_actions()
    key = chooser.randrange(10)
    if kind == "append" or not live:
        return [add(name, ids=(key, key), rows=1)]
    if kind == "optimize":
        chosen = chooser.sample(live, k=min(2, len(live)))
        return [
            *(remove(file, data_change=False) for file in chosen),
            add(name, ids=_span(chosen), rows=sum(_rows(file) for file in chosen), data_change=False),
        ]
    matching = [file for file in live if _span([file])[0] <= key <= _span([file])[1]]
    transaction.record_scan(id_is(key), files=[file.key for file in matching])
    if kind == "insert_select" or not matching:
        return [add(name, ids=(key, key), rows=1)]
    removed = [remove(file) for file in matching]
    return removed if kind == "delete" else [*removed, add(name, ids=(key, key), rows=1)]


Commit = Callable[[], CommittedVersion | None]


def run_statement(
    table: DeltaLog, kind: str, name: str, chooser: random.Random, hand_over: Callable[[], None]
) -> tuple[Outcome, Commit]:
    """A single statement, which waits to commit."""
    transaction = table.begin(Operation(name=kind.upper()))
    actions = act(transaction, kind, name, chooser)
    files = tuple(action.path for action in actions if isinstance(action, AddFile))
    outcome = Outcome(txn_id=transaction.txn_id, result="nothing", files=files)
    return outcome, lambda: transaction.commit(actions)  # type: ignore[arg-type]


def run_statements(
    table: DeltaLog, kind: str, name: str, chooser: random.Random, hand_over: Callable[[], None]
) -> tuple[Outcome, Commit | None]:
    """A transaction of two to four statements, some of them undone, which waits to commit; None for one that is killed.

    Before each statement other writers may move.
    """
    whole = OpenTransaction(name)
    whole.choose_target(table, None, "BEGIN TRANSACTION", label="t")
    changed = whole.target
    assert changed is not None
    written: set[str] = set()
    own = own_at_savepoint = frozenset[str]()
    for number in range(chooser.randint(2, 4)):
        hand_over()
        if chooser.random() < KILLED:
            return Outcome(txn_id="none", result="nothing", never=tuple(written)), None
        if chooser.random() < UNDONE:
            if whole.roll_back_to("s"):
                own = own_at_savepoint
            else:
                whole.set_savepoint("s")
                own_at_savepoint = own
        statement = changed.log.begin(Operation(name="PART"))
        actions = act(statement, chooser.choice(PARTS), f"{name}-{number}", chooser)
        added = frozenset(action.path for action in actions if isinstance(action, AddFile))
        written |= added
        own = own.union(added) - {action.path for action in actions if isinstance(action, RemoveFile)}
        if actions:
            statement.commit(actions)  # type: ignore[arg-type]
    actions = [*changed.net.others, *changed.net.files]
    transaction = table.begin_at(Operation(name="TRANSACTION"), snapshot=changed.base)
    outcome = Outcome(txn_id=transaction.txn_id, result="nothing", files=tuple(own), never=tuple(written - own))

    def commit() -> CommittedVersion | None:
        try:
            return commit_net_changes(transaction, changed, actions) if actions else None
        finally:
            whole.end()

    return outcome, commit


def _span(files: list[AddFile]) -> tuple[int, int]:
    stats = [json.loads(file.stats or "") for file in files]
    return min(statistics["minValues"]["id"] for statistics in stats), max(
        statistics["maxValues"]["id"] for statistics in stats
    )


def _rows(file: AddFile) -> int:
    return int(json.loads(file.stats or "")["numRecords"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    plans=st.lists(st.tuples(st.lists(ACTS, min_size=1, max_size=4), FAULTS), min_size=2, max_size=4),
    level=LEVELS,
    tracked=st.booleans(),
)
def test_every_schedule_keeps_the_log_sound(
    seed: int, plans: list[tuple[list[str], list[PutFault]]], level: str, tracked: bool
) -> None:
    play(seed, plans, level, tracked=tracked)


def play(seed: int, plans: list[tuple[list[str], list[PutFault]]], level: str, *, tracked: bool) -> list[Outcome]:
    """One schedule, judged."""
    clock = TestClock()
    store = MemoryStore(clock=clock)
    chooser = random.Random(seed)
    protocol = features("appendOnly", "invariants", "rowTracking", "domainMetadata", "inCommitTimestamp")
    described = with_properties(metadata(), isolationLevel=level, enableInCommitTimestamps="true")
    DeltaLog(store, clock, random.Random(f"{seed}/creator")).begin(Operation(name="CREATE TABLE")).commit(
        [protocol, described] if tracked else [PLAIN, with_properties(metadata(), isolationLevel=level)]
    )
    outcomes: list[Outcome] = []
    storages: list[FaultyStore] = []

    def writer(number: int, kinds: list[str], faults: list[PutFault]) -> Callable[[Callable[[], None]], None]:
        def work(hand_over: Callable[[], None]) -> None:
            faulty = FaultyStore(store, faults, before_put=lambda path: hand_over(), only=_is_commit)
            storages.append(faulty)
            source = random.Random(f"{seed}/{number}")
            table = DeltaLog(faulty, clock, source, bounds=RetryLimits(attempts_max=20, unresolved_attempts_max=3))
            for step, kind in enumerate(kinds):
                name = f"w{number}-{step}"
                prepared = run_statements if kind == "transaction" else run_statement
                outcome, commit = prepared(table, kind, name, source, hand_over)
                outcomes.append(outcome)
                if commit is None:
                    return  # the process is killed between two statements
                hand_over()
                try:
                    committed = commit()
                    outcome.result = "nothing" if committed is None else "committed"
                    outcome.version = None if committed is None else committed.version
                except DeltaConcurrentModificationException:
                    outcome.result = "conflict"
                except StorageError:
                    outcome.result = "refused"
                except CommitFateUnknownError as unknown:
                    outcome.result, outcome.version = "unknown", unknown.version
                except WriterDied:
                    return  # the process is gone before it got a result

        return work

    Turns(chooser).run({f"w{n}": writer(n, kinds, faults) for n, (kinds, faults) in enumerate(plans)})
    zombies = [outcome for storage in storages for outcome in storage.land_delayed()]

    assert lint(store) == []
    judge(store, outcomes, zombies)
    return outcomes


def test_transactions_meet_all_that_can_happen_to_them() -> None:
    met: Counter[str] = Counter()
    for seed in range(60):
        chooser = random.Random(f"{seed}/plans")
        faults = [[chooser.choice(list(PutFault)) for _ in range(2)] for _ in range(3)]
        outcomes = play(
            seed, [(["transaction", "transaction"], of_one) for of_one in faults], "Serializable", tracked=True
        )
        met.update(outcome.result for outcome in outcomes)
        met["without a part"] += any(outcome.never and outcome.result == "committed" for outcome in outcomes)
        met["killed between statements"] += any(outcome.txn_id == "none" for outcome in outcomes)
    assert min(met.values()) >= 3, met
    assert met.keys() >= {"committed", "conflict", "refused", "nothing", "without a part"}


def test_a_commit_of_all_that_its_statements_added_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: files that one statement adds and the next removes are in the commit, too."""

    def gross(self: NetChanges, proposal: ProposedCommit) -> NetChanges:
        return dataclasses.replace(
            after(self, proposal), adds={**self.adds, **{add.path: add for add in proposal.adds}}
        )

    after = NetChanges.after
    monkeypatch.setattr(NetChanges, "after", gross)
    monkeypatch.setattr(invariants, "_inconsistent_files", lambda *facts: iter(()))
    found = 0
    for seed in range(30):
        try:
            play(seed, [(["transaction"] * 3, [])] * 2, "Serializable", tracked=False)
        except AssertionError:
            found += 1
    assert found


def _is_commit(path: str) -> bool:
    return path.endswith(".json")


def judge(store: MemoryStore, outcomes: list[Outcome], zombies: list[PutOutcome]) -> None:
    committed: dict[str, list[int]] = {}
    adds: dict[str, int] = {}
    commits = [file for file in store.list_from("_delta_log") if _is_commit(file.path)]
    for version, file in enumerate(commits):
        lines = [json.loads(line) for line in store.read(file.path).splitlines()]
        committed.setdefault(lines[0]["commitInfo"]["txnId"], []).append(version)
        for line in lines[1:]:
            if "add" in line:
                adds[line["add"]["path"]] = adds.get(line["add"]["path"], 0) + 1
    for outcome in outcomes:
        at = committed.get(outcome.txn_id, [])
        if outcome.result == "committed":
            assert at == [outcome.version], "I1: acknowledged, so there exactly once, where it was said"
        elif outcome.result in {"conflict", "refused"}:
            assert at == [], "I6: the error says that nothing was committed"
        elif outcome.result == "unknown":
            assert at in ([], [outcome.version]), "I2: at the one place that was named, or nowhere"
        else:
            assert len(at) <= 1, "I2: once or not at all"
        for path in outcome.files:
            assert adds.get(path, 0) == len(at), "no half commits, no second ones"
        assert not adds.keys() & set(outcome.never), "no changes of a part of a transaction"
    assert set(zombies) <= {PutOutcome.CREATED, PutOutcome.EXISTS}


# The same, beside a keeper of the log: it writes checkpoints and removes what is old, while writers are held up. Any call
# of theirs may fail, before the put of a commit and behind it.

CALLS = ("head", "read", "read_range", "open", "list_from", "list_tree", "put", "delete", "make_durable")
FAILS = 0.04
PUTS = [PutFault.NONE] * 6 + [PutFault.REPLY_LOST, PutFault.REQUEST_LOST, PutFault.RETRIED_INSIDE, PutFault.REFUSED]


class StoreWhoseCallsFail(FaultyStore):
    """Hands over before each put of a commit. `chooser` draws which calls fail, and what becomes of puts."""

    def __init__(self, inner: MemoryStore, chooser: random.Random, hand_over: Callable[[], None]) -> None:
        plan = [chooser.choice(PUTS) for _ in range(20)]
        super().__init__(inner, plan, before_put=lambda path: hand_over(), only=_is_commit)
        self.chooser = chooser

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS and self.chooser.random() < FAILS:
            raise StorageError(root="memory", path=name, doing="reach", cause="the token has expired")
        return super().__getattribute__(name)


def schedule_with_clean_up(seed: int) -> tuple[list[str], Counter[str]]:
    """What is wrong at the end of one schedule, a file that was acknowledged and is not there, or the other way round;
    and how often writers got which result."""
    chooser = random.Random(seed)
    clock = TestClock()
    store = MemoryStore(clock=clock)
    described = with_properties(metadata(), checkpointInterval=str(chooser.choice([1, 2, 3])))
    DeltaLog(store, clock, random.Random(f"{seed}/creator")).begin(Operation(name="CREATE TABLE")).commit(
        [PLAIN, described]
    )
    results: dict[str, str] = {}

    def writer(number: int) -> Callable[[Callable[[], None]], None]:
        def work(hand_over: Callable[[], None]) -> None:
            held = StoreWhoseCallsFail(store, random.Random(f"{seed}/calls/{number}"), hand_over)
            limits = RetryLimits(attempts_max=20, unresolved_attempts_max=2, unresolved_wait_ms_max=0)
            table = DeltaLog(held, clock, random.Random(f"{seed}/{number}"), bounds=limits)
            for step in range(3):
                name = f"w{number}-{step}"
                results[name] = "nothing"
                try:
                    table.begin(Operation(name="WRITE")).commit([add(name)])
                    results[name] = "committed"
                except CommitFateUnknownError:
                    results[name] = "unknown"
                except LogMovedOnError:
                    results[name] = "moved on"
                except StorageError:
                    results[name] = "refused"

        return work

    def keeper(hand_over: Callable[[], None]) -> None:
        table = DeltaLog(store, clock, random.Random(f"{seed}/keeper"))
        for step in range(6):
            clock.time_ms += 20 * DAY_MS
            results[f"k{step}"] = "committed"
            table.begin(Operation(name="WRITE")).commit([add(f"k{step}")])
            hand_over()

    Turns(chooser).run({"keeper": keeper, "w1": writer(1), "w2": writer(2)})
    files = DeltaLog(store, clock, random.Random(0)).snapshots.latest().files
    live = set(files.columns("path")["path"].to_pylist())
    wrong = [
        f"{name}: {outcome}"
        for name, outcome in results.items()
        if outcome != "unknown" and (outcome == "committed") != (name in live)
    ]
    return wrong, Counter(results.values())


def test_every_schedule_beside_clean_up_keeps_what_it_acknowledged() -> None:
    """Covers bugs B58 and B59."""
    results: Counter[str] = Counter()
    # In the last one a writer loses to a commit after a gap, which its own writer removes again.
    for seed in (*range(60), 205355):
        wrong, outcomes = schedule_with_clean_up(seed)
        assert wrong == [], seed
        results += outcomes
    assert {"committed", "unknown", "moved on", "refused"} <= results.keys()


@pytest.mark.long
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_many_schedules_beside_clean_up(seed: int) -> None:
    assert schedule_with_clean_up(seed)[0] == []


def test_a_commit_without_the_check_after_its_put_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what was put is taken for what readers read."""
    monkeypatch.setattr(commit_loop, "check_commit_is_visible", lambda *args, **facts: None)
    assert any(schedule_with_clean_up(seed)[0] for seed in range(100))


def test_a_fault_after_the_put_that_is_raised_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a look behind the put, of which what fails is raised as it is."""

    def look_unprotected(draft: CommitDraft, stopwatch: PutTimer, **facts: Any) -> KeyboardInterrupt | None:
        facts["context"].store.head(commit_path(draft.version))
        return check_commit_is_visible(draft, stopwatch, **facts)

    monkeypatch.setattr(commit_loop, "check_commit_is_visible", look_unprotected)
    assert any(schedule_with_clean_up(seed)[0] for seed in range(100))
