"""Statements run on a played table: they read a version, write files, and wait to commit."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.commands.dml.identity_high_water import generated_numbers, with_moved_marks
from anabranch.commands.restore.restore_table import PreparedRestore, file_difference, planned_restore
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.log.file_columns import FileMask
from anabranch.protocol.actions import Action, AddFile, RemoveFile, SetTransaction
from anabranch.protocol.features import supported
from anabranch.schema.computed_columns import identity_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import tracks_rows
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import Bin, OnNewColumns, Operation, RowsWithColumns
from anabranch.transactions.read_set import FileKey, RowsOfFile
from anabranch.transactions.reserved_numbers import NumberRange, ReservedNumbers
from anabranch.transactions.rows.deletion_vector_actions import hide_rows, removal
from anabranch.transactions.transaction import Transaction
from concurrency.conditions import EVERY, Condition, Row, Where
from concurrency.describing import MANIFESTS, Alter, Replace, changes, described_by, keeps_rules
from concurrency.foreign import ForeignCommit, foreign_commit
from concurrency.merging import MergeByKeys, MergeSelect
from concurrency.played_feed import changes_of
from concurrency.played_ids import as_changed, as_copied, id_of
from concurrency.played_table import PlayedTable, Version
from concurrency.rearranging import rearranged
from concurrency.statements import (
    Backfill,
    Effect,
    Foreign,
    Insert,
    InsertAbsent,
    InsertByPosition,
    InsertGenerated,
    InsertJoin,
    InsertSelect,
    Numbered,
    Optimize,
    Plan,
    ReplaceWhere,
    Restore,
    Rewriting,
    Statement,
    effect_of,
    is_append,
)

APPLICATION = "job"


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
    foreign: ForeignCommit | None = None
    """What another engine puts in the place of ours."""
    restored: PreparedRestore | None = None
    generated: dict[str, NumberRange] = dataclasses.field(default_factory=dict)
    """The numbers that it has generated for the identity column."""
    reserved: ReservedNumbers | None = None
    """Those that are reserved for it."""
    again: Callable[[ReservedNumbers], Running] | None = None
    """Executes it again, with reserved numbers."""
    fails: bool = False
    """Whether a row that it makes violates a constraint, so that it has no actions."""

    @property
    def read_version(self) -> int:
        return self.transaction.read_version

    def commit(self) -> CommittedVersion | ForeignCommit | None:
        """None where nothing was to be written. Raises the conflicts, and `ExecuteAgainError`."""
        if not self.actions:
            self.transaction.end_without_commit()
            return None
        if self.foreign is not None:
            return self.foreign.put()
        if self.restored is not None:
            return self.restored.commit().committed
        if self.bins:
            return self.transaction.commit_bins(self.actions, self.bins)
        edited = self.statement.edited if isinstance(self.statement, Alter) else None
        if isinstance(self.statement, InsertGenerated):
            edited = frozenset()
        return self.transaction.commit(
            self.actions,
            deleted_rows=self.deleted_rows,
            edited_properties=edited,
            on_new_columns=on_new_columns(self.statement),
            generated=self.generated,
            reserved=self.reserved,
        )


def on_new_columns(statement: Statement) -> OnNewColumns | None:
    """An INSERT of values by name leaves new columns out. Of other statements it is not known what they do."""
    by_name = isinstance(statement, Insert) and not isinstance(statement, InsertByPosition | InsertAbsent)
    return (lambda metadata: RowsWithColumns.SAME) if by_name else None


def hides_rows(played: PlayedTable, read: Version) -> bool:
    """Whether rows may be hidden, or files must be rewritten."""
    if not played.manner.vectors or not played.manner.describes:
        return played.manner.vectors
    return supported(read.snapshot.protocol, "deletionVectors") and not described_by(read.snapshot).says(MANIFESTS)


def rules_of(played: PlayedTable, snapshot: Snapshot) -> tuple[Where, ...]:
    """The constraints of a version."""
    return tuple(described_by(snapshot).rules) if played.manner.describes else ()


def violates_rules(plan: Plan, rules: Sequence[Where]) -> bool:
    """Whether a statement makes a row that violates a constraint."""
    return not all(keeps_rules(row, rules) for row in plan.inserts)


def begin(
    played: PlayedTable,
    statement: Statement,
    *,
    snapshot: Snapshot | None = None,
    reserved: ReservedNumbers | None = None,
) -> Running:
    """The statement reads the newest version, or `snapshot`, and writes its files; it is not committed."""
    read = played.version(snapshot)
    operation = Operation(name=operation_name(statement))
    transaction = played.table.begin_at(operation, snapshot=read.snapshot, describe_rows=played.described)
    if isinstance(statement, Alter | Replace):
        return _begin_description(played, read, statement, transaction)
    if isinstance(statement, Foreign):
        return _begin_foreign(played, read, statement, transaction)
    if isinstance(statement, Restore):
        return _begin_restore(played, read, statement, transaction)
    if isinstance(statement, InsertGenerated):
        keys = statement.keys if reserved is None else (*statement.keys, *statement.more_keys)
        first = _next_value(read) if reserved is None else reserved.first_numbers["v"]
        statement = dataclasses.replace(statement, rows=tuple(map(Row, keys, itertools.count(first))))
    statement = statement.with_columns(len(read.snapshot.schema.fields))
    if isinstance(statement, Backfill):
        adds = files_with_ids_to_come(played, read)
        plan = statement.plan([])
        return Running(
            statement=statement, transaction=transaction, plan=plan, effect=effect_of(plan, []), actions=adds
        )
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
    return _begin_change(played, read, statement, transaction, reserved=reserved)


def operation_name(statement: Statement) -> str:
    """The name that Delta writes into the log."""
    if isinstance(statement, Rewriting | Foreign):
        return operation_name(statement.statement)
    if isinstance(statement, Alter | Replace):
        return "REPLACE TABLE" if isinstance(statement, Replace) else f"ALTER TABLE {statement.words}"
    if isinstance(statement, Backfill):
        return str(statement)
    kind = "MERGE" if isinstance(statement, MergeByKeys | MergeSelect) else type(statement).__name__.upper()
    return "WRITE" if isinstance(statement, Insert | InsertSelect | InsertJoin | ReplaceWhere) else kind


def files_with_ids_to_come(played: PlayedTable, read: Version) -> tuple[AddFile, ...]:
    """The files without ids again, as a batch of the backfill commits them; none where the table does not track rows."""
    if not tracks_rows(read.snapshot.protocol, read.snapshot.metadata):
        return ()
    counted = lambda add: json.loads(add.stats or "{}") | {"numRecords": len(played.data[add.path])}  # noqa: E731
    return tuple(
        msgspec.structs.replace(add, data_change=False, stats=json.dumps(counted(add)))
        for add in read.adds
        if add.base_row_id is None
    )


def _next_value(read: Version) -> int:
    (identity,) = identity_columns(read.snapshot.schema).values()
    return identity.next_value


def _begin_restore(played: PlayedTable, read: Version, statement: Restore, transaction: Transaction) -> Running:
    """Run the code of RESTORE, which needs no Spark."""
    before = _before(played, read, statement)
    statement = dataclasses.replace(statement, rows=_shown(played, before))
    difference = file_difference(read.snapshot.files, before.snapshot.files)
    restored = planned_restore(
        transaction, before.snapshot, difference, may_downgrade=False, now_ms=played.clock.now_ms()
    )
    plan = statement.plan(_shown(played, read))
    return Running(
        statement=statement,
        transaction=transaction,
        plan=plan,
        effect=effect_of(plan, _shown(played, read)),
        actions=(*restored.description, *restored.files),
        restored=restored,
    )


def _begin_foreign(played: PlayedTable, read: Version, statement: Foreign, transaction: Transaction) -> Running:
    inner = statement.statement if statement.by_vectors else Rewriting(statement.statement)
    running = _begin_change(played, read, inner, transaction, keeps_ids=statement.keeps_ids)
    commit = foreign_commit(played, read, statement, running.actions, operation=operation_name(statement))
    return dataclasses.replace(running, statement=statement, foreign=commit)


def _begin_description(
    played: PlayedTable, read: Version, statement: Alter | Replace, transaction: Transaction
) -> Running:
    """A statement that is refused writes nothing."""
    rows = _shown(played, read)
    plan = statement.plan(rows)
    may_run = isinstance(statement, Replace) or statement.may_run(rows, read.adds)
    actions = changes(read.snapshot, statement) if may_run else None
    if plan.looks:
        transaction.record_whole_table()
    if actions is not None and isinstance(statement, Replace):
        actions += [removal(add, removed_at_ms=played.clock.now_ms(), data_change=True) for add in read.adds]
        actions += played.write_files(statement.rows)
    return Running(
        statement=statement,
        transaction=transaction,
        plan=plan,
        effect=effect_of(plan, rows),
        actions=tuple(actions or ()),
    )


def _begin_change(
    played: PlayedTable,
    read: Version,
    statement: Statement,
    transaction: Transaction,
    *,
    keeps_ids: bool = True,
    reserved: ReservedNumbers | None = None,
) -> Running:
    locations = _locations(played, read)
    rows = [played.data[read.adds[file].path][position] for file, position in locations]
    plan = statement.plan(rows)
    if is_append(statement):
        _record(played, read, statement, plan, locations, transaction)
        transaction.has_recorded_all = True
    if violates_rules(plan, rules_of(played, read.snapshot)):
        nothing = Effect(Counter(), Counter())
        return Running(statement=statement, transaction=transaction, plan=plan, effect=nothing, actions=(), fails=True)
    if isinstance(statement, Numbered) and transaction.has_written(app_id=APPLICATION, version=statement.number):
        return Running(
            statement=statement, transaction=transaction, plan=plan, effect=effect_of(plan, rows), actions=()
        )
    deleted = by_file(locations, plan.deletes)
    if not is_append(statement):
        _record(played, read, statement, plan, locations, transaction)
    named: dict[FileKey, BitMap64 | None] = {}
    actions: list[Action] = []
    copies = False
    if isinstance(statement, Rewriting | ReplaceWhere) or not hides_rows(played, read):
        actions += _rewritten(played, read, deleted, keeps_ids=keeps_ids)
        copies = any(isinstance(action, AddFile) for action in actions)
        if isinstance(statement, ReplaceWhere) and statement.where == EVERY:
            named = {add.key: None for add in read.adds}
        else:
            named = {read.adds[file].key: None for file in _emptied(played, read, deleted)}
    else:
        chosen = [_chosen(played, read, file, positions) for file, positions in deleted.items()]
        named = {hidden.file.key: hidden.positions for hidden in chosen}
        actions += hide_rows(chosen, transaction.vectors, removed_at_ms=played.clock.now_ms())
    if plan.inserts:
        images = [locations[number] for number in plan.images_of] if keeps_ids else []
        ids = [as_changed(id_of(played.kept, read.adds[file], position)) for file, position in images]
        actions += played.write_files(plan.inserts, kept=[*ids, *[None] * (len(plan.inserts) - len(ids))])
    if played.manner.feeds and (copies or plan.images_of):
        actions += played.write_changes(changes_of(plan, rows))
    numbers: dict[str, NumberRange] = {}
    if isinstance(statement, InsertGenerated):
        adds = [action for action in actions if isinstance(action, AddFile)]
        before, table = read.snapshot.metadata, played.store.root
        numbers = generated_numbers(before, adds, ["v"], table=table, reserved=reserved)
        metadata = with_moved_marks(before, numbers, table=table, reserved=reserved)
        actions += [] if metadata is before else [metadata]
    if isinstance(statement, Numbered):
        actions.append(SetTransaction(app_id=APPLICATION, version=statement.number))
    return Running(
        statement=statement,
        transaction=transaction,
        plan=plan,
        effect=effect_of(plan, rows),
        actions=tuple(actions),
        deleted_rows=named,
        generated=numbers,
        reserved=reserved,
        again=lambda numbers: begin(
            played, statement, snapshot=played.table.snapshots.at_version(numbers.version), reserved=numbers
        ),
    )


def _record(
    played: PlayedTable,
    read: Version,
    statement: Statement,
    plan: Plan,
    locations: Sequence[tuple[int, int]],
    transaction: Transaction,
) -> None:
    """Record in the transaction what was read."""
    manner = played.manner
    if isinstance(statement, ReplaceWhere) and statement.where == EVERY:
        transaction.record_whole_table()
        return
    by_rows = not isinstance(statement, ReplaceWhere)
    for look in plan.looks:
        by_file_number = by_file(locations, look.rows)
        rows = {read.adds[file].key: positions for file, positions in by_file_number.items()}
        transaction.record_scan(
            look.condition.predicate,
            files=_opened(played, read, look.condition),
            rows=rows if manner.names_rows and by_rows and not look.of_query else None,
            reevaluate=played.evaluator(look.condition) if manner.reevaluates and by_rows else None,
        )


def _opened(played: PlayedTable, read: Version, condition: Condition) -> list[FileKey] | FileMask:
    """The files that were looked into to find the rows. Where rows decide it makes no difference."""
    if hides_rows(played, read):
        return [add.key for add in read.adds]
    return can_be_true(condition.predicate, read.snapshot.skipping_columns)


def _chosen(played: PlayedTable, read: Version, file: int, positions: BitMap64) -> RowsOfFile:
    """Rows to be hidden; all that a file shows are not named, where that is how it is said.

    Who names rows of a file counts those it has, also where its writer did not: see `target_rows.with_row_counts`.
    """
    add = read.adds[file]
    count = len(played.data[add.path])
    if len(positions) + len(read.hidden[file]) == count and played.manner.whole_files:
        return RowsOfFile(file=add, positions=None)
    counted = add if add.stats is not None else msgspec.structs.replace(add, stats=json.dumps({"numRecords": count}))
    return RowsOfFile(file=counted, positions=positions)


def _emptied(played: PlayedTable, read: Version, deleted: dict[int, BitMap64]) -> list[int]:
    """The files of which no row is left."""
    return [
        file
        for file, positions in deleted.items()
        if len(positions) + len(read.hidden[file]) == len(played.data[read.adds[file].path])
    ]


def _rewritten(
    played: PlayedTable, read: Version, deleted: dict[int, BitMap64], *, keeps_ids: bool
) -> list[AddFile | RemoveFile]:
    """Files without vectors in the place of those that lose rows."""
    stay = [
        (read.adds[file], position)
        for file, positions in deleted.items()
        for position in range(len(played.data[read.adds[file].path]))
        if position not in read.hidden[file] and position not in positions
    ]
    kept = [played.data[add.path][position] for add, position in stay]
    ids = [as_copied(id_of(played.kept, add, position)) for add, position in stay] if keeps_ids else []
    removes = [removal(read.adds[file], removed_at_ms=played.clock.now_ms(), data_change=True) for file in deleted]
    return [*removes, *played.write_files(kept, kept=ids)]


def _before(played: PlayedTable, read: Version, statement: Restore) -> Version:
    """The version that a RESTORE goes back to."""
    version = 0 if statement.back is None else max(0, read.snapshot.version - statement.back)
    return played.versions.get(version) or played.version(played.table.snapshots.at_version(version))


def _locations(played: PlayedTable, read: Version) -> list[tuple[int, int]]:
    """Every live row: the number of its file, and its position there."""
    return [
        (file, position)
        for file, add in enumerate(read.adds)
        for position in range(len(played.data[add.path]))
        if position not in read.hidden[file]
    ]


def _shown(played: PlayedTable, read: Version) -> tuple[Row, ...]:
    return tuple(played.data[read.adds[file].path][position] for file, position in _locations(played, read))


def by_file(locations: Sequence[tuple[int, int]], numbers: frozenset[int]) -> dict[int, BitMap64]:
    positions_by_file: dict[int, BitMap64] = {}
    for number in sorted(numbers):
        file, position = locations[number]
        positions_by_file.setdefault(file, BitMap64()).add(position)
    return positions_by_file
