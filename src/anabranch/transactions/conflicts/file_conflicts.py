"""Conflicts over data by whole files, for tables without row-level concurrency.

A file that a winner removed may have had any row that ours read; a file that it added may have rows that ours should
have read. Only files that partition values and statistics exclude are no conflict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
)
from anabranch.protocol.actions import AddFile
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.description_rules import physical_partition_columns
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.conflicts.write_serializable import (
    breaks_serial_order,
    may_serialize_before,
    only_moves_rows,
)
from anabranch.transactions.read_set import FileKey, Scan

NARROW_CONDITION = (
    "Run the operation again, or add a condition on a partition column, or on a column by which the files differ, "
    "which shows that the two operations are about different rows."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file that a winner added, with rows that ours has not read."""

    add: AddFile
    winner: Winner


def removed_files_conflict(context: ConflictContext) -> Conflict | None:
    """The conflict with a winner that removed a file that ours read, or that ours removes or adds again."""
    removed = context.latest.removed_from_base
    for scan in context.ours.reads.scans if context.ours.isolation is not None else ():
        for key in _files_read(context, scan, removed):
            return removed_file_conflict(context, ConcurrentDeleteReadException, key)
    for file in context.ours.files:
        if file.key in removed:
            return removed_file_conflict(context, ConcurrentDeleteDeleteException, file.key)
    return None


def added_files_conflict(context: ConflictContext) -> Conflict | tuple[Winner, ...]:
    """The conflict with a winner that added rows that ours should have read.

    If there is none, the winners that ours is ordered before. `WriteSerializable` orders ours before blind appends,
    and so ignores them, unless ours changes the metadata with which they were written, or another winner may have read
    the ignored rows (Rule R).
    """
    if context.ours.isolation is None or not context.ours.reads.scans:
        return ()
    ignored: dict[int, AddedFile] = {}
    for file in _unseen_matches(context):
        if not may_serialize_before(context, file.winner):
            return _added_file_conflict(context, file, _reason_of(context, file))
        ignored.setdefault(file.winner.version, file)
    if ignored and breaks_serial_order(context, ignored[min(ignored)].winner):
        return _added_file_conflict(context, ignored[min(ignored)], ConflictReason.REORDER_CYCLE)
    return tuple(file.winner for file in ignored.values())


def unseen_files(context: ConflictContext) -> list[AddedFile]:
    """The files with rows that ours has not read, oldest first.

    Three kinds of files are left out: files whose rows another winner has deleted or changed since, because the rows
    that remain are in that winner's own files; files that have only moved rows, because these are checked in the files
    they come from; and files that are in our snapshot unchanged.
    """
    unseen: dict[FileKey, AddedFile] = {}
    added_before: dict[FileKey, AddFile] = {}
    in_snapshot = context.read.live_keys({add.path for winner in context.winners for add in winner.adds})
    for winner in context.winners:
        moved = only_moves_rows(winner, context.read, added_before=added_before)
        added_before |= {add.key: add for add in winner.adds}
        if moved:
            continue
        for remove in winner.removes:
            unseen.pop(remove.key, None)
        for add in winner.adds:
            if add.key not in in_snapshot:
                unseen[add.key] = AddedFile(add=add, winner=winner)
    return list(unseen.values())


def _unseen_matches(context: ConflictContext) -> list[AddedFile]:
    """The unseen files that may have rows for one of our scans."""
    unseen = unseen_files(context)
    if not unseen:
        return []
    matching = np.zeros(len(unseen), dtype=np.bool_)
    for scan in context.ours.reads.scans:
        if scan.reads_everything or context.read.base is None:
            return unseen
        matching |= context.can_match(context.read.base, scan.predicate, [file.add for file in unseen])
    return [file for file, matches in zip(unseen, matching, strict=True) if matches]


def _reason_of(context: ConflictContext, file: AddedFile) -> ConflictReason:
    if any(scan.reads_everything for scan in context.ours.reads.scans):
        return ConflictReason.WHOLE_TABLE_READ
    return partition_hint(file.add.partition_values)


def _added_file_conflict(context: ConflictContext, file: AddedFile, reason: ConflictReason) -> Conflict:
    return Conflict(
        error=ConcurrentAppendException,
        winner=file.winner,
        reason=reason,
        where=partition_or_file(context, file.add.path, file.add.partition_values),
        advice=NARROW_CONDITION,
    )


def removed_file_conflict(
    context: ConflictContext, error: type[ConcurrentDeleteDeleteException | ConcurrentDeleteReadException], key: FileKey
) -> Conflict:
    """The conflict with the winner that removed this file."""
    winner, remove = next(
        (winner, remove) for winner in context.winners for remove in winner.removes if remove.key == key
    )
    values = remove.partition_values or {}
    reason = partition_hint(values) if winner.changes_data else ConflictReason.UNMAPPED_REWRITE
    return Conflict(
        error=error,
        winner=winner,
        reason=reason,
        where=partition_or_file(context, key[0], values),
        advice=NARROW_CONDITION,
    )


def _files_read(context: ConflictContext, scan: Scan, removed: frozenset[FileKey]) -> Iterable[FileKey]:
    """The removed files that the scan had opened."""
    if scan.files is None or scan.reads_everything:
        return sorted(removed, key=str)
    if isinstance(scan.files, frozenset):
        return sorted(scan.files & removed, key=str)
    rows = context.read.base_files.find(path for path, _ in removed)
    return sorted((key for key, row in rows.items() if key in removed and scan.files[row]), key=str)


def partition_hint(partition_values: dict[str, str | None]) -> ConflictReason:
    """The reason of a conflict that is not between single rows: whether its message names a partition."""
    return ConflictReason.WITH_PARTITION_HINT if partition_values else ConflictReason.WITHOUT_HINT


def partition_or_file(context: ConflictContext, path: str, partition_values: dict[str, str | None]) -> str:
    """The partition with logical column names, or the file where the table is not partitioned."""
    metadata = context.latest.metadata
    if metadata is None or not metadata.partition_columns or not partition_values:
        return f"file {path}"
    columns = physical_partition_columns(metadata, table=context.latest.table)
    named = (f"{logical}={partition_values.get(physical or logical)}" for logical, physical in columns.items())
    return f"partition {', '.join(named)}"
