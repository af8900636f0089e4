"""Rules that look right and are wrong, to be put in the place of ours: judges that do not find them are of no use."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import msgspec
from pyroaring import BitMap64

from anabranch.commands.restore.restore_table import PreparedRestore
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import Action, AddFile, Metadata, RemoveFile
from anabranch.transactions.commit import commit_attempt, invariants
from anabranch.transactions.conflicts import (
    compaction_rebase,
    conflict_checks,
    metadata_compatibility,
    row_conflicts,
    row_tracing,
    write_serializable,
)
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.relocate_rows import RelocatedRows
from anabranch.transactions.conflicts.row_tracing import TracedRows, UnresolvedDelete
from anabranch.transactions.conflicts.traced_files import TracedFile
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows import deletion_vector_actions
from anabranch.transactions.rows.row_map import Moves
from anabranch.transactions.transaction import Transaction
from concurrency.conditions import Condition, KeyIn, Row
from concurrency.merging import MergeByKeys
from concurrency.random_histories import (
    APPENDS_AND_COMPACTION,
    APPENDS_AND_READERS,
    CHANGES_AND_OPTIMIZE,
    COLUMNS_AND_READERS,
    DESCRIPTIONS,
    EVERYTHING,
    INSERTS_OF_OWN_ROWS,
    MERGES_AND_COMPACTION,
    MERGES_BY_KEYS,
    MERGES_OF_OWN_ROWS,
    NEW_COLUMNS,
    NUMBERED_ROWS,
    NUMBERED_WRITES,
    READERS_WHO_NAME_NO_ROWS,
    RESTORES_AND_DESCRIPTIONS,
    RESTORES_AND_ENGINES,
    ROW_TRACKING_IN_STEPS,
    Mix,
)
from concurrency.statements import InsertJoin, Plan, look

Patch = tuple[object, str, object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrongRule:
    """What is wrong, and which histories are likely to show it."""

    name: str
    patches: Sequence[Patch]
    mix: Mix = EVERYTHING
    histories_max: int = 2_000
    verdict: str = ""
    """What a judge must say of it."""

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, rule in self.patches:
                stack.enter_context(mock.patch.object(owner, name, rule))
            yield


def _no_reads(self: TracedFile, gone: BitMap64) -> BitMap64:
    return BitMap64()


def _no_conflict(context: ConflictContext, traced: TracedRows) -> tuple[()]:
    return ()


def _new_but_of_updates(context: ConflictContext, traced: TracedRows) -> Conflict | tuple[Winner, ...]:
    files = {
        path: dataclasses.replace(file, new=tuple(rows for rows in file.new if rows.origin.operation != "UPDATE"))
        for path, file in traced.files.items()
    }
    return RIGHT_ADDED_ROWS_CONFLICT(context, dataclasses.replace(traced, files=files))


def _no_cycles(context: ConflictContext, ignored: object) -> bool:
    return False


def _scan_anything_again(
    context: ConflictContext, sources: Sequence[TracedFile], outputs: Sequence[AddFile]
) -> RelocatedRows | None:
    for scan in context.ours.reads.scans:
        if scan.reevaluate is not None:
            matches = scan.reevaluate([RowsOfFile(file=add, positions=None) for add in outputs])
            return RelocatedRows(deleted=[rows or BitMap64() for rows in matches])
    return None


def _nothing_read(context: ConflictContext, unresolved_deletes: Sequence[UnresolvedDelete]) -> None:
    return None


def _remove_by_path(file: AddFile, **facts: object) -> RemoveFile:
    return msgspec.structs.replace(RIGHT_REMOVAL(file, **facts), deletion_vector=None)  # type: ignore[arg-type]


def no_complaints(*facts: object) -> Iterator[str]:
    return iter(())


def _moved_without_counting(self: Moves, positions: BitMap64, *, source: str, hidden: BitMap64) -> dict[str, BitMap64]:
    return RIGHT_MOVED(self, positions, source=source, hidden=BitMap64())


def _no_marks(context: ConflictContext, before: AddFile, now: AddFile, moves: Moves) -> dict[str, BitMap64]:
    return {}


def _moved_rows_are_old(
    context: ConflictContext, source: TracedFile, moves: Moves, outputs: Mapping[str, TracedFile]
) -> list[TracedFile]:
    return RIGHT_MOVED_ROWS(context, dataclasses.replace(source, new=()), moves, outputs)


def _unchecked(file: AddFile, positions: BitMap64, hidden: BitMap64) -> bool:
    return False


def _reads_of_the_append_do_not_count(context: ConflictContext, ignored: Winner) -> bool:
    return any(
        winner.version > ignored.version
        and winner.changes_data
        and not winner.is_blind_append
        and (winner.read_version is None or winner.read_version > ignored.version)
        for winner in context.winners
    )


def _first_unresolved_only(context: ConflictContext, unresolved_deletes: Sequence[UnresolvedDelete]) -> Conflict | None:
    return RIGHT_UNRESOLVED_DELETE_CONFLICT(context, unresolved_deletes[:1])


def _first_winner(winners: Sequence[Winner], app_id: str) -> Winner:
    return winners[0]


def _only_where_rows_matter(file: TracedFile) -> bool:
    return file.has_relevant_rows or bool(file.new)


def _only_the_first_read_of_a_write(self: Transaction, predicate: Predicate, **options: Any) -> None:
    if self.operation.name != "WRITE" or not self.reads().scans:
        RIGHT_RECORD_SCAN(self, predicate, **options)


def _not_what_the_source_reads(self: Transaction, predicate: Predicate, **options: Any) -> None:
    if self.operation.name != "MERGE" or options.get("rows") is not None:
        RIGHT_RECORD_SCAN(self, predicate, **options)


def _only_rows_that_the_other_side_matches(self: InsertJoin, rows: Sequence[Row]) -> Plan:
    """The rule for NOT EXISTS over another table: but here the other side changes, too."""
    plan = RIGHT_PLAN_OF_JOIN(self, rows)
    one, other = (frozenset(rows[number].k for number in read.rows) for read in plan.looks)
    looks = (look(KeyIn(other, self.where), rows, of_query=True), look(KeyIn(one, self.other), rows, of_query=True))
    return dataclasses.replace(plan, looks=looks)


def _only_keys_that_it_had(self: MergeByKeys, rows: Sequence[Row]) -> Condition:
    """The rule for another table: but here the other side of the join reads the table, too."""
    return RIGHT_READ_BY_KEYS(self, rows) if self.keeps_others else KeyIn(frozenset(self.last_values(rows)))


def _only_rows_with_a_match(self: MergeByKeys, rows: Sequence[Row]) -> Condition:
    """The rule for an inner join: but an outer join keeps rows of this side that have no match."""
    return KeyIn(self.keys)


def _blind_as_if_any_columns(self: ProposedCommit) -> bool:
    return RIGHT_BLIND_APPEND(dataclasses.replace(self, precedes_columns=False))


def _blind_if_it_only_adds(self: ProposedCommit) -> bool:
    return not self.removes and all(add.data_change for add in self.adds)


def _as_it_is(context: ConflictContext) -> ProposedCommit | Conflict:
    """Where it is a batch; else as it should be."""
    return context.ours if context.ours.operation.name == "ROW TRACKING BACKFILL" else RIGHT_REBASE_DATA(context)


def _no_conflict_of_descriptions(context: ConflictContext) -> None:
    return None


def _marks_of_the_version_read(self: LatestState, winners: Sequence[Winner]) -> LatestState:
    state = RIGHT_AFTER(self, winners)
    vars(state)["row_id_high_water_mark"] = self.row_id_high_water_mark
    return state


def _every_file_is_new(actions: Sequence[Action], latest: LatestState) -> list[Action]:
    return [
        msgspec.structs.replace(action, base_row_id=None, default_row_commit_version=None)
        if isinstance(action, AddFile)
        else action
        for action in actions
    ]


def _every_file_has_changed(actions: Sequence[Action], latest: LatestState) -> list[Action]:
    return [
        msgspec.structs.replace(action, default_row_commit_version=latest.version + 1)
        if isinstance(action, AddFile) and action.base_row_id is not None
        else action
        for action in actions
    ]


def _ids_begin_at_the_mark(actions: Sequence[Action], *, after: int, **facts: Any) -> tuple[Action, ...]:
    return RIGHT_ROW_IDS(actions, after=max(after - 1, 0), **facts)


def _ids_for_batches_alone(actions: Sequence[Action], **facts: Any) -> tuple[Action, ...]:
    changes = any(isinstance(action, AddFile) and action.data_change for action in actions)
    return tuple(actions) if changes else RIGHT_ROW_IDS(actions, **facts)


def _nulls_are_free(before: Metadata, after: Metadata) -> bool:
    """Whether the columns differ only in what is NULL."""
    strings = (metadata.schema_string.replace('"nullable": false', '"nullable": true') for metadata in (before, after))
    texts = [msgspec.structs.replace(after, schema_string=text) for text in strings]
    return RIGHT_SAME_SCHEMA(*texts)


def _any_order(context: ConflictContext) -> bool:
    """New columns before which ours cannot come count as any others."""
    before, after = context.read.metadata, context.latest.metadata
    return before is not None and after is not None and write_serializable.adds_only_columns(before, after)


RIGHT_BLIND_APPEND: Callable[[ProposedCommit], bool] = ProposedCommit.is_blind_append.func  # type: ignore[attr-defined]
RIGHT_SAME_SCHEMA = conflict_checks.same_schema_and_layout
RIGHT_ROW_IDS = commit_attempt.with_row_ids
RIGHT_REBASE_DATA = conflict_checks.rebase_data
RIGHT_RECORD_SCAN = Transaction.record_scan
RIGHT_PLAN_OF_JOIN = InsertJoin.plan
RIGHT_READ_BY_KEYS = MergeByKeys.read
RIGHT_AFTER = LatestState.after
RIGHT_UNRESOLVED_DELETE_CONFLICT = row_tracing.unresolved_delete_conflict
RIGHT_ADDED_ROWS_CONFLICT: Callable[[ConflictContext, TracedRows], Conflict | tuple[Winner, ...]] = (
    row_conflicts.added_rows_conflict
)
RIGHT_REMOVAL = deletion_vector_actions.removal
RIGHT_MOVED = Moves.moved
RIGHT_MOVED_ROWS = row_tracing.trace_moved_rows

WRONG_RULES = (
    WrongRule(
        name="vectors are united because they are disjoint, and reads are not looked at",
        patches=[(TracedFile, "only_reads_among", _no_reads), (row_conflicts, "added_rows_conflict", _no_conflict)],
    ),
    WrongRule(
        name="rows that an UPDATE wrote are not new",
        patches=[(row_conflicts, "added_rows_conflict", _new_but_of_updates)],
        verdict="a serial run has",
    ),
    WrongRule(
        name="WriteSerializable without Rule R",
        patches=[(row_conflicts, "breaks_serial_order", _no_cycles)],
        mix=APPENDS_AND_READERS,
        histories_max=6_000,
        verdict="no order",
    ),
    WrongRule(
        name="another engine's compaction is scanned again, also with new rows in it",
        patches=[(row_tracing, "relocate_rows", _scan_anything_again)],
        mix=APPENDS_AND_COMPACTION,
    ),
    WrongRule(
        name="what ours read in files that were moved without word is not looked for",
        patches=[(row_tracing, "unresolved_delete_conflict", _nothing_read)],
        mix=MERGES_AND_COMPACTION,
    ),
    WrongRule(
        name="a remove names the path and not the vector",
        patches=[
            (deletion_vector_actions, "removal", _remove_by_path),
            (invariants, "_inconsistent_files", no_complaints),
        ],
    ),
    WrongRule(
        name="rows are moved by position, hidden rows not counted",
        patches=[(Moves, "moved", _moved_without_counting), (deletion_vector_actions, "_hides_all_rows", _unchecked)],
        mix=CHANGES_AND_OPTIMIZE,
    ),
    WrongRule(
        name="OPTIMIZE forgets rows that were hidden meanwhile",
        patches=[(compaction_rebase, "_positions_in_outputs", _no_marks)],
    ),
    WrongRule(
        name="rows that an OPTIMIZE moved count as old",
        patches=[(row_tracing, "trace_moved_rows", _moved_rows_are_old)],
        mix=CHANGES_AND_OPTIMIZE,
    ),
    WrongRule(
        name="rows that came back in a file of which ours read none are not new",
        patches=[(row_tracing, "_needs_vectors", _only_where_rows_matter)],
        mix=RESTORES_AND_ENGINES,
    ),
    WrongRule(
        name="a file of unknown length goes with rows that came back",
        patches=[(row_tracing, "_removes_unknown_rows", lambda file: False)],
        mix=RESTORES_AND_ENGINES,
        histories_max=6_000,
    ),
    WrongRule(
        name="Rule R does not count who read the very version of the append",
        patches=[(row_conflicts, "breaks_serial_order", _reads_of_the_append_do_not_count)],
        mix=APPENDS_AND_READERS,
        histories_max=6_000,
        verdict="no order",
    ),
    WrongRule(
        name="only the first unresolved delete is checked",
        patches=[(row_tracing, "unresolved_delete_conflict", _first_unresolved_only)],
        mix=READERS_WHO_NAME_NO_ROWS,
        histories_max=6_000,
    ),
    WrongRule(
        name="files that came since a statement looked at all files are not looked at",
        patches=[(conflict_checks, "incompatible_files", lambda context: None)],
        mix=DESCRIPTIONS,
        histories_max=6_000,
    ),
    WrongRule(
        name="domains are compared only if ours writes them",
        patches=[(conflict_checks, "domains_read", lambda context: None), (invariants, "_description", no_complaints)],
        mix=DESCRIPTIONS,
        histories_max=6_000,
    ),
    WrongRule(
        name="of the progress of an application only the first winner's is looked at",
        patches=[(conflict_checks, "_furthest", _first_winner)],
        mix=NUMBERED_WRITES,
        histories_max=6_000,
    ),
    WrongRule(
        name="of an INSERT that joins its table with itself only one read is remembered",
        patches=[(Transaction, "record_scan", _only_the_first_read_of_a_write)],
        mix=INSERTS_OF_OWN_ROWS,
    ),
    WrongRule(
        name="deleted rows are not checked for reads of an INSERT",
        patches=[(row_tracing, "unresolved_delete_conflict", _nothing_read)],
        mix=INSERTS_OF_OWN_ROWS,
    ),
    WrongRule(
        name="what the source of a MERGE reads of its table is not remembered",
        patches=[(Transaction, "record_scan", _not_what_the_source_reads)],
        mix=MERGES_OF_OWN_ROWS,
    ),
    WrongRule(
        name="of a table joined with itself only rows count to which one of those read belongs",
        patches=[(InsertJoin, "plan", _only_rows_that_the_other_side_matches)],
        mix=INSERTS_OF_OWN_ROWS,
        histories_max=6_000,
    ),
    WrongRule(
        name="of a table joined with keys that it has itself, only keys count that it had",
        patches=[(MergeByKeys, "read", _only_keys_that_it_had)],
        mix=MERGES_BY_KEYS,
    ),
    WrongRule(
        name="of the side of an outer join that is kept whole only rows with a match count",
        patches=[(MergeByKeys, "read", _only_rows_with_a_match)],
        mix=MERGES_BY_KEYS,
    ),
    WrongRule(
        name="a batch of row ids commits files again that others took",
        patches=[
            (conflict_checks, "rebase_data", _as_it_is),
            (invariants, "_inconsistent_files", no_complaints),
        ],
        mix=ROW_TRACKING_IN_STEPS,
    ),
    WrongRule(
        name="between the first commit and the last of turning row tracking on, writers bring files without ids",
        patches=[(commit_attempt, "with_row_ids", _ids_for_batches_alone)],
        mix=ROW_TRACKING_IN_STEPS,
        verdict="has no row ids",
    ),
    WrongRule(
        name="an INSERT that reads its own table counts as a blind append",
        patches=[(ProposedCommit, "is_blind_append", property(_blind_if_it_only_adds))],
        mix=APPENDS_AND_READERS,
        histories_max=6_000,
        verdict="no order",
    ),
    WrongRule(
        name="a mark of an identity column is no change that others must heed",
        patches=[
            (conflict_checks, "metadata_changed", _no_conflict_of_descriptions),
            (conflict_checks, "identity_columns", _no_conflict_of_descriptions),
        ],
        mix=NUMBERED_ROWS,
        verdict="again",
    ),
    WrongRule(
        name="a commit with generated values brings back the description that it has read",
        patches=[(conflict_checks, "_with_our_marks", lambda context: None)],
        mix=NUMBERED_ROWS,
        histories_max=1_000,
        verdict="makes",
    ),
    WrongRule(
        name="a change of columns brings back the mark that it has read",
        patches=[(metadata_compatibility, "_merged_schema", lambda before, theirs, ours: ours.schema_string)],
        mix=NUMBERED_ROWS,
        histories_max=2_000,
        verdict="mark",
    ),
    WrongRule(
        name="RESTORE does not heed who described the table meanwhile",
        patches=[(PreparedRestore, "_conflict_with", lambda self, commit: None)],
        mix=RESTORES_AND_DESCRIPTIONS,
    ),
    WrongRule(
        name="NOT NULL is no change that a writer must heed",
        patches=[
            (conflict_checks, "same_schema_and_layout", _nulls_are_free),
            (write_serializable, "same_schema_and_layout", _nulls_are_free),
        ],
        mix=NEW_COLUMNS,
        histories_max=1_000,
        verdict="and its rules are",
    ),
    WrongRule(
        name="a constraint is a property like others",
        patches=[(conflict_checks, "harmful_properties", lambda before, after: [])],
        mix=NEW_COLUMNS,
        histories_max=1_000,
        verdict="and its rules are",
    ),
    WrongRule(
        name="a column that was dropped is missing like one that was added",
        patches=[(write_serializable, "adds_only_columns", lambda before, after: True)],
        mix=NEW_COLUMNS,
        histories_max=1_000,
    ),
    WrongRule(
        name="every statement is right after new columns",
        patches=[
            (write_serializable, "new_columns_to_precede", lambda context: None),
            (conflict_checks, "new_columns_to_precede", lambda context: None),
        ],
        mix=NEW_COLUMNS,
        histories_max=1_000,
    ),
    WrongRule(
        name="new columns are ignored also where the order of the log is the serial order",
        patches=[(conflict_checks, "allows_new_columns", _any_order)],
        mix=NEW_COLUMNS,
        histories_max=1_000,
        verdict="a serial run has",
    ),
    WrongRule(
        name="new columns are ignored also where another winner has read them",
        patches=[(write_serializable, "breaks_serial_order", _no_cycles)],
        mix=COLUMNS_AND_READERS,
        histories_max=1_000,
        verdict="no order",
    ),
    WrongRule(
        name="an append before new columns is blind for those who have read the columns",
        patches=[(ProposedCommit, "is_blind_append", property(_blind_as_if_any_columns))],
        mix=COLUMNS_AND_READERS,
        histories_max=1_000,
        verdict="no order",
    ),
    WrongRule(
        name="row ids follow those of the version read, though winners have assigned some",
        patches=[(LatestState, "after", _marks_of_the_version_read)],
        verdict="overlap",
    ),
    WrongRule(
        name="a file that comes again with another vector gets new row ids",
        patches=[(commit_attempt, "_with_existing_ids", _every_file_is_new)],
        verdict="id",
    ),
    WrongRule(
        name="rows of a file that comes again with another vector count as changed",
        patches=[(commit_attempt, "_with_existing_ids", _every_file_has_changed)],
        verdict="is new",
    ),
    WrongRule(
        name="row ids begin at the high-water mark and not behind it",
        patches=[(commit_attempt, "with_row_ids", _ids_begin_at_the_mark)],
        verdict="id",
    ),
)
