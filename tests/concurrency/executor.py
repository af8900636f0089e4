"""Statements run on a table in memory, by the real snapshots, transactions and conflict checks. Only rows are played:
a "data file" is a list of Python values."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64
from pyspark.sql.types import LongType, StructField, StructType
from table_on_memory import TestClock, features, metadata, with_properties

from anabranch.protocol.actions import Action, AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory import MemoryStore
from anabranch.transaction.after_commit import AfterCommit
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.hiding_rows import hide_rows, removal
from anabranch.transaction.operation import Operation
from anabranch.transaction.proposed_commit import Bin
from anabranch.transaction.read_set import RowsMatching, RowsOfFile
from anabranch.transaction.row_moves import moved_to_tags, runs_of
from anabranch.transaction.table import Table
from anabranch.transaction.transaction import Transaction
from concurrency.conditions import Condition, Row
from concurrency.statements import Effect, Optimize, Plan, Statement

SCHEMA = StructType([StructField("k", LongType()), StructField("v", LongType())])
NOW_MS = 1_700_000_000_000
SEEDS = itertools.count(1)
"""Of copied tables: no two may give out the same transaction ids."""
NAMES = {"Insert": "WRITE", "InsertSelect": "WRITE"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manner:
    """How executors of a history tell transactions what they read."""

    statistics: str = "bounds"
    """What files say of themselves: `bounds`, only `counts` of rows, or `nothing`."""
    told_rows: bool = True
    """Whether scans name the rows that satisfied them."""
    asks_again: bool = True
    """Whether conditions can be asked of other rows."""
    whole_files: bool = False
    """Whether a file of which all rows go is named as such, and its rows are not."""
    tracks_rows: bool = False
    """Whether the table gives its rows ids; it needs counts for that."""


AS_USUAL = Manner()


@dataclasses.dataclass(kw_only=True)
class PlayedTable:
    """One table and its data files."""

    store: MemoryStore
    clock: TestClock
    table: Table
    manner: Manner
    data: dict[str, tuple[Row, ...]]
    """Physical rows by path."""

    @classmethod
    def created(
        cls,
        files: Sequence[Sequence[Row]],
        *,
        level: str,
        manner: Manner = AS_USUAL,
    ) -> PlayedTable:
        clock = TestClock(NOW_MS)
        store = MemoryStore(clock=clock)
        played = cls(
            store=store,
            clock=clock,
            table=Table(store, clock, random.Random(0), after_commit=AfterCommit()),
            manner=manner,
            data={},
        )
        described = with_properties(metadata(SCHEMA), isolationLevel=level)
        tracking = ["rowTracking"] if manner.tracks_rows else []
        protocol = features("deletionVectors", "appendOnly", "invariants", "domainMetadata", *tracking)
        adds = [played.write(rows) for rows in files if rows]
        played.table.begin(Operation(name="CREATE TABLE AS SELECT")).commit([protocol, described, *adds])
        return played

    def copy(self) -> PlayedTable:
        """The same table again, to be continued in another way."""
        clock = TestClock()
        store = MemoryStore(clock=clock)
        for file in self.store.list_tree():
            clock.time_ms = file.modified_ms
            store.put(file.path, self.store.read(file.path))
        clock.time_ms = self.clock.time_ms
        table = Table(store, clock, random.Random(next(SEEDS)), after_commit=AfterCommit())
        return PlayedTable(store=store, clock=clock, table=table, manner=self.manner, data=dict(self.data))

    def write(self, rows: Sequence[Row], *, data_change: bool = True) -> AddFile:
        """A new data file."""
        path = f"f{len(self.data)}.parquet"
        self.data[path] = tuple(rows)
        return AddFile(
            path=path,
            partition_values={},
            size=100 * len(rows),
            modification_time=NOW_MS,
            data_change=data_change,
            stats=None if self.manner.statistics == "nothing" else json.dumps(self._statistics(rows)),
        )

    def _statistics(self, rows: Sequence[Row]) -> dict[str, object]:
        found: dict[str, object] = {"numRecords": len(rows), "tightBounds": True}
        if self.manner.statistics == "bounds":
            columns = {
                name: [value for row in rows if (value := getattr(row, name)) is not None] for name in Row._fields
            }
            found["minValues"] = {name: min(values) for name, values in columns.items() if values}
            found["maxValues"] = {name: max(values) for name, values in columns.items() if values}
            found["nullCount"] = {name: len(rows) - len(values) for name, values in columns.items()}
        return found

    def begin(self, statement: Statement, *, snapshot: Snapshot | None = None) -> Running:
        """The statement reads the newest version, or `snapshot`, and writes its files; it is not committed."""
        operation = Operation(name=NAMES.get(type(statement).__name__, type(statement).__name__.upper()))
        read = snapshot or self.table.snapshots.latest()
        transaction = self.table.begin_at(operation, snapshot=read)
        if isinstance(statement, Optimize):
            return self._begin_optimize(statement, transaction)
        return self._begin_change(statement, transaction)

    def _begin_change(self, statement: Statement, transaction: Transaction) -> Running:
        adds, hidden = live_files(transaction)
        places = [
            (file, position)
            for file, add in enumerate(adds)
            for position in range(len(self.data[add.path]))
            if position not in hidden[file]
        ]
        rows = [self.data[adds[file].path][position] for file, position in places]
        plan = statement.plan(rows)
        for each in plan.looks:
            found = by_file(places, each.rows)
            transaction.record_scan(
                each.condition.predicate,
                files=[add.key for add in adds],
                rows={adds[file].key: positions for file, positions in found.items()}
                if self.manner.told_rows
                else None,
                again=self.asking(each.condition) if self.manner.asks_again else None,
            )
        deleted = by_file(places, plan.deletes)
        chosen = [
            RowsOfFile(file=adds[file], positions=self._named(adds[file], positions, hidden[file]))
            for file, positions in deleted.items()
        ]
        actions: list[Action] = [*hide_rows(chosen, transaction.vectors, removed_at_ms=NOW_MS)]
        if plan.inserts:
            actions.append(self.write(plan.inserts))
        return Running(
            statement=statement,
            transaction=transaction,
            plan=plan,
            effect=statement.effect(rows),
            actions=tuple(actions),
            deleted_rows={rows.file.key: rows.positions for rows in chosen},
        )

    def _named(self, add: AddFile, positions: BitMap64, hidden: BitMap64) -> BitMap64 | None:
        """None for all rows that the file shows, where that is how it is said."""
        everything = len(positions) + len(hidden) == len(self.data[add.path])
        return None if everything and self.manner.whole_files else positions

    def _begin_optimize(self, statement: Optimize, transaction: Transaction) -> Running:
        adds, hidden = live_files(transaction)
        order = sorted(range(len(adds)), key=lambda file: adds[file].path)
        chosen = [order[file] for file in statement.files if file < len(order)] or ([] if statement.files else order)
        sources = [adds[file] for file in chosen]
        kept = [
            [row for position, row in enumerate(self.data[adds[file].path]) if position not in hidden[file]]
            for file in chosen
        ]
        rows = [row for each in kept for row in each]
        size = statement.rows_per_file
        outputs = [self.write(rows[start : start + size], data_change=False) for start in range(0, len(rows), size)]
        runs = runs_of([len(each) for each in kept], [(add.path, len(self.data[add.path])) for add in outputs])
        removes = [removal(add, removed_at_ms=NOW_MS, data_change=False) for add in sources]
        if statement.leaves_word:
            removes = [
                msgspec.structs.replace(remove, tags=moved_to_tags(found))
                for remove, found in zip(removes, runs, strict=True)
            ]
        each = Bin(sources=frozenset(add.key for add in sources), outputs=frozenset(add.path for add in outputs))
        return Running(
            statement=statement,
            transaction=transaction,
            plan=Plan(),
            effect=statement.effect([]),
            actions=(*removes, *outputs) if sources and outputs else (),
            bins=(each,) if sources and outputs else (),
        )

    def asking(self, condition: Condition) -> RowsMatching:
        """The condition, to be asked of rows of any file."""

        def again(asked: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
            return [self._satisfying(rows, condition) for rows in asked]

        return again

    def _satisfying(self, rows: RowsOfFile, condition: Condition) -> BitMap64:
        data = self.data[rows.file.path]
        (hidden,) = self.table.begin(Operation(name="READ")).vectors.hidden([rows.file])
        asked = rows.positions if rows.positions is not None else set(range(len(data))) - set(hidden)
        assert not set(asked) & set(hidden), "rows are asked that are hidden"
        return BitMap64([position for position in asked if condition(data[position])])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Running:
    """A statement that has read and written, and waits to commit."""

    statement: Statement
    transaction: Transaction
    plan: Plan
    effect: Effect
    actions: tuple[Action, ...]
    deleted_rows: dict[tuple[str, str | None], BitMap64 | None] = dataclasses.field(default_factory=dict)
    bins: tuple[Bin, ...] = ()

    @property
    def read_version(self) -> int:
        return self.transaction.read_version

    def commit(self) -> CommittedVersion | None:
        """None where nothing was to be written. Raises the conflicts."""
        if not self.actions:
            return None
        if self.bins:
            return self.transaction.commit_bins(self.actions, self.bins)
        return self.transaction.commit(self.actions, deleted_rows=self.deleted_rows)


def live_files(transaction: Transaction) -> tuple[list[AddFile], list[BitMap64]]:
    assert transaction.snapshot is not None
    adds = transaction.snapshot.files.to_actions()
    return adds, transaction.vectors.hidden(adds)


def by_file(places: Sequence[tuple[int, int]], numbers: frozenset[int]) -> dict[int, BitMap64]:
    found: dict[int, BitMap64] = {}
    for number in sorted(numbers):
        file, position = places[number]
        found.setdefault(file, BitMap64()).add(position)
    return found
