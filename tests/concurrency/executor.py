"""Statements run on a played table: they read a version, write files, and wait to commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.protocol.actions import Action, AddFile, RemoveFile
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.hiding_rows import hide_rows, removal
from anabranch.transaction.operation import Operation
from anabranch.transaction.proposed_commit import Bin
from anabranch.transaction.read_set import FileKey, FileMask, RowsOfFile
from anabranch.transaction.transaction import Transaction
from concurrency.conditions import EVERY, Condition
from concurrency.played_table import NOW_MS, PlayedTable, Version
from concurrency.rearranging import rearranged
from concurrency.statements import (
    Effect,
    Insert,
    InsertSelect,
    Optimize,
    Plan,
    ReplaceWhere,
    Restore,
    Rewriting,
    Statement,
    effect_of,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Running:
    """A statement that has read and written, and waits to commit."""

    statement: Statement
    transaction: Transaction
    plan: Plan
    effect: Effect
    actions: tuple[Action, ...]
    deleted_rows: dict[FileKey, BitMap64 | None] = dataclasses.field(default_factory=dict)
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


def begin(played: PlayedTable, statement: Statement, *, snapshot: Snapshot | None = None) -> Running:
    """The statement reads the newest version, or `snapshot`, and writes its files; it is not committed."""
    read = played.version(snapshot)
    operation = Operation(name=operation_name(statement))
    transaction = played.table.begin_at(operation, snapshot=read.snapshot, describe_rows=played.described)
    if isinstance(statement, Optimize):
        actions, bins = rearranged(played, read, statement)
        return Running(
            statement=statement,
            transaction=transaction,
            plan=Plan(),
            effect=statement.effect([]),
            actions=actions,
            bins=bins,
        )
    return _begin_change(played, read, statement, transaction)


def operation_name(statement: Statement) -> str:
    """In Delta's words."""
    if isinstance(statement, Rewriting):
        return operation_name(statement.statement)
    kind = type(statement).__name__.upper()
    return "WRITE" if isinstance(statement, Insert | InsertSelect | ReplaceWhere) else kind


def _begin_change(played: PlayedTable, read: Version, statement: Statement, transaction: Transaction) -> Running:
    places = [
        (file, position)
        for file, add in enumerate(read.adds)
        for position in range(len(played.data[add.path]))
        if position not in read.hidden[file]
    ]
    rows = [played.data[read.adds[file].path][position] for file, position in places]
    plan = statement.plan(rows)
    deleted = by_file(places, plan.deletes)
    _record(played, read, statement, plan, places, transaction)
    named: dict[FileKey, BitMap64 | None] = {}
    actions: list[Action] = []
    if isinstance(statement, Restore):
        actions += _restored(played, read)
    elif isinstance(statement, Rewriting | ReplaceWhere) or not played.manner.vectors:
        actions += _rewritten(played, read, deleted)
    else:
        chosen = [
            RowsOfFile(file=read.adds[file], positions=_named(played, read, file, positions))
            for file, positions in deleted.items()
        ]
        named = {each.file.key: each.positions for each in chosen}
        actions += hide_rows(chosen, transaction.vectors, removed_at_ms=NOW_MS)
    if plan.inserts and not isinstance(statement, Restore):
        actions.append(played.write(plan.inserts))
    return Running(
        statement=statement,
        transaction=transaction,
        plan=plan,
        effect=effect_of(plan, rows),
        actions=tuple(actions),
        deleted_rows=named,
    )


def _record(
    played: PlayedTable,
    read: Version,
    statement: Statement,
    plan: Plan,
    places: Sequence[tuple[int, int]],
    transaction: Transaction,
) -> None:
    """Tell the transaction what was read."""
    manner = played.manner
    if isinstance(statement, Restore) or (isinstance(statement, ReplaceWhere) and statement.where == EVERY):
        transaction.record_whole_table()
        return
    by_rows = not isinstance(statement, ReplaceWhere)
    for each in plan.looks:
        found = by_file(places, each.rows)
        rows = {read.adds[file].key: positions for file, positions in found.items()}
        transaction.record_scan(
            each.condition.predicate,
            files=_opened(played, read, each.condition),
            rows=rows if manner.told_rows and by_rows else None,
            again=played.asking(each.condition) if manner.asks_again and by_rows else None,
        )


def _opened(played: PlayedTable, read: Version, condition: Condition) -> list[FileKey] | FileMask:
    """The files that were looked into to find the rows. Where rows decide it makes no difference."""
    if played.manner.vectors:
        return [add.key for add in read.adds]
    return can_be_true(condition.predicate, read.snapshot.skipping_columns)


def _named(played: PlayedTable, read: Version, file: int, positions: BitMap64) -> BitMap64 | None:
    """None for all rows that the file shows, where that is how it is said."""
    everything = len(positions) + len(read.hidden[file]) == len(played.data[read.adds[file].path])
    return None if everything and played.manner.whole_files else positions


def _rewritten(played: PlayedTable, read: Version, deleted: dict[int, BitMap64]) -> list[AddFile | RemoveFile]:
    """Files without vectors in the place of those that lose rows."""
    kept = [
        row
        for file, positions in deleted.items()
        for position, row in enumerate(played.data[read.adds[file].path])
        if position not in read.hidden[file] and position not in positions
    ]
    removes = [removal(read.adds[file], removed_at_ms=NOW_MS, data_change=True) for file in deleted]
    return [*removes, *([played.write(kept)] if kept else [])]


def _restored(played: PlayedTable, read: Version) -> list[AddFile | RemoveFile]:
    """Files of version 0 that are gone, in the place of those that came."""
    before = played.versions.get(0) or played.version(played.table.snapshots.at_version(0))
    live, wanted = {add.key for add in read.adds}, {add.key for add in before.adds}
    return [
        *(removal(add, removed_at_ms=NOW_MS, data_change=True) for add in read.adds if add.key not in wanted),
        *(msgspec.structs.replace(add, data_change=True) for add in before.adds if add.key not in live),
    ]


def by_file(places: Sequence[tuple[int, int]], numbers: frozenset[int]) -> dict[int, BitMap64]:
    found: dict[int, BitMap64] = {}
    for number in sorted(numbers):
        file, position = places[number]
        found.setdefault(file, BitMap64()).add(position)
    return found
