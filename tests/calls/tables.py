"""The tables that operations begin with, and a process that works on a copy of one."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping

import msgspec

from anabranch.clock import SystemClock
from anabranch.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol
from anabranch.protocol.actions_json import encode_actions, parse_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.commit_context import RetryLimits
from anabranch.transactions.delta_log import DeltaLog
from concurrency.conditions import Row, Where
from concurrency.executor import begin
from concurrency.played_ids import KeptId
from concurrency.played_table import Manner, PlayedTable
from concurrency.statements import Delete, Insert, Optimize
from simulation.simulated_table import SimulatedTable, as_parquet
from transactions.table_on_memory import TestClock, features, with_properties

DAY_MS = 24 * 3_600_000
FILES = ((Row(1, 1), Row(2, 2), Row(3, 3)), (Row(4, 4), Row(5, 5)))
HISTORY = (Optimize(), Insert((Row(6, 6), Row(7, 7))), Delete(Where("k", "=", 6)))
"""The versions after the first: a checkpoint is due at the second, and the newest hides a row."""
LIMITS = RetryLimits(attempts_max=30, unresolved_attempts_max=3)
NEEDED_FEATURES = {"delta.checkpointPolicy": "v2Checkpoint", "delta.enableInCommitTimestamps": "inCommitTimestamp"}


class PatientClock:
    """The time of this machine, and what a process would have slept by then."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._slept_ms = 0.0

    def now_ms(self) -> int:
        return self._clock.now_ms() + int(self._slept_ms)

    def elapsed_ms(self) -> int:
        return self._clock.elapsed_ms() + int(self._slept_ms)

    def sleep_ms(self, duration_ms: float) -> None:
        self._slept_ms += duration_ms


@dataclasses.dataclass(kw_only=True)
class Rows:
    """What files hold, by path: data files are read by other engines only."""

    data: dict[str, tuple[Row, ...]] = dataclasses.field(default_factory=dict)
    kept: dict[str, tuple[KeptId | None, ...]] = dataclasses.field(default_factory=dict)
    changes: dict[str, tuple[tuple[str, Row], ...]] = dataclasses.field(default_factory=dict)

    def copy(self) -> Rows:
        return Rows(data=dict(self.data), kept=dict(self.kept), changes=dict(self.changes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstState:
    """All files of a folder before an operation begins, with the times at which they were written."""

    files: Mapping[str, tuple[bytes, int]]
    rows: Rows
    shown: Counter[Row]
    """The rows of the newest version."""
    shown_first: Counter[Row]
    """Those of version 0."""


def process_on(store: LogStore, rows: Rows, manner: Manner, *, clock: object = None, seed: int = 0) -> SimulatedTable:
    """A process that has just been started: nothing is cached."""
    source, clock = random.Random(seed), clock or PatientClock()
    return SimulatedTable(
        store=store,  # type: ignore[arg-type]
        clock=clock,  # type: ignore[arg-type]
        table=DeltaLog(store, clock, source, bounds=LIMITS),  # type: ignore[arg-type]
        manner=manner,
        data=rows.data,
        kept=rows.kept,
        changes=rows.changes,
        random=source,
        content=as_parquet,
    )


def no_table(files: Mapping[str, tuple[Row, ...]] | None = None) -> FirstState:
    """A folder without a log, empty or with data files."""
    now_ms = SystemClock().now_ms() - DAY_MS
    stored = {path: (as_parquet(rows), now_ms) for path, rows in (files or {}).items()}
    return FirstState(files=stored, rows=Rows(data=dict(files or {})), shown=Counter(), shown_first=Counter())


def old_table(manner: Manner, properties: Mapping[str, str]) -> FirstState:
    """A table of four versions, of which the newest is new, and the others have expired."""
    clock = TestClock(SystemClock().now_ms() - 40 * DAY_MS)
    made = PlayedTable.created(FILES, level="WriteSerializable", manner=manner)
    rows = Rows(data=made.data, kept=made.kept, changes=made.changes)
    store = MemoryStore(clock=clock)
    contents = {path: as_parquet(held) for path, held in rows.data.items()}
    for path, content in contents.items():
        store.put(path, content)
    actions = parse_actions(made.store.read(commit_path(0)))
    store.put(commit_path(0), encode_actions([_described(action, properties, contents) for action in actions]))
    table = process_on(store, rows, manner, clock=clock)
    shown_first = Counter(table.rows(table.table.snapshots.latest()))
    for number, statement in enumerate(HISTORY, start=1):
        clock.time_ms += 1_000
        if number == len(HISTORY):
            clock.time_ms = SystemClock().now_ms() - 30_000
        begin(table, statement).commit()
    files = {file.path: (store.read(file.path), file.modified_ms) for file in store.list_tree()}
    shown = Counter(table.rows(table.table.snapshots.latest()))
    return FirstState(files=files, rows=rows, shown=shown, shown_first=shown_first)


def _described(action: Action, properties: Mapping[str, str], contents: Mapping[str, bytes]) -> Action:
    """The action with the properties, the features that they need, and the sizes of the files."""
    if isinstance(action, AddFile):
        return msgspec.structs.replace(action, size=len(contents[action.path]))
    if isinstance(action, Metadata):
        stated = {name.removeprefix("delta.").replace(".", "_"): value for name, value in properties.items()}
        return with_properties(action, **{"checkpointInterval": "2", **stated})
    if isinstance(action, CommitInfo) and "delta.enableInCommitTimestamps" in properties:
        return msgspec.structs.replace(action, in_commit_timestamp=action.timestamp)
    if isinstance(action, Protocol):
        needed = [feature for name, feature in NEEDED_FEATURES.items() if name in properties]
        return features(*(action.writer_features or ()), *needed)
    return action
