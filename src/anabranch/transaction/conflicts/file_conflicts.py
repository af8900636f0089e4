"""Conflicts over data, told by whole files: what holds where rows cannot be told apart.

A file that a winner removed may have held any row of ours; a file that it added may hold rows that ours
should have read. Only what partition values and statistics rule out is ruled out.
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
from anabranch.transaction.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transaction.conflicts.description_rules import physical_partition_columns
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.conflicts.write_serializable import (
    breaks_serial_order,
    may_serialize_before,
    only_moves_rows,
)
from anabranch.transaction.read_set import FileKey, Scan

NARROW_THE_CONDITION = (
    "Run the operation again, or keep the two apart: a condition on a partition column, or on a column by which "
    "the files differ, tells that they touch other rows."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A file that came since we read, holding rows we have not seen."""

    add: AddFile
    winner: Winner


def removed_files_conflict(context: ConflictContext) -> Conflict | None:
    """A winner removed a file that ours had read, or that ours removes or adds again."""
    gone = context.latest.removed_from_base
    for scan in context.ours.reads.scans if context.ours.isolation is not None else ():
        for key in _read_among(context, scan, gone):
            return removed_file_conflict(context, ConcurrentDeleteReadException, key)
    for file in context.ours.files:
        if file.key in gone:
            return removed_file_conflict(context, ConcurrentDeleteDeleteException, file.key)
    return None


def added_files_conflict(context: ConflictContext) -> Conflict | tuple[Winner, ...]:
    """A winner added rows that ours should have read. If there is none: the winners before which ours has to stand.

    `WriteSerializable` lets ours stand before blind appends, and so ignore them, unless it changes the
    metadata that they were written by, or another winner may have read what was ignored (Rule R).
    """
    if context.ours.isolation is None or not context.ours.reads.reads_rows:
        return ()
    ignored: dict[int, AddedFile] = {}
    for found in _unseen_matches(context):
        if not may_serialize_before(context, found.winner):
            return _added(context, found, _reason_of(context, found))
        ignored.setdefault(found.winner.version, found)
    if ignored and breaks_serial_order(context, ignored[min(ignored)].winner):
        return _added(context, ignored[min(ignored)], ConflictReason.REORDER_CYCLE)
    return tuple(found.winner for found in ignored.values())


def unseen_files(context: ConflictContext) -> list[AddedFile]:
    """Files with rows that we have not read, oldest first.

    Left out: those whose rows another winner has deleted or changed since, whatever is left of them being
    in that winner's own files; those that hold only rows moved there from elsewhere, which are judged
    where they came from; and those that are in our snapshot as they are.
    """
    unseen: dict[FileKey, AddedFile] = {}
    added_before: dict[FileKey, AddFile] = {}
    known = context.read.live_keys({add.path for winner in context.winners for add in winner.adds})
    for winner in context.winners:
        moved = only_moves_rows(winner, context.read, added_before=added_before)
        added_before |= {add.key: add for add in winner.adds}
        if moved:
            continue
        for remove in winner.removes:
            unseen.pop(remove.key, None)
        for add in winner.adds:
            if add.key not in known:
                unseen[add.key] = AddedFile(add=add, winner=winner)
    return list(unseen.values())


def _unseen_matches(context: ConflictContext) -> list[AddedFile]:
    """Those unseen files that one of our scans might have found rows in."""
    unseen = unseen_files(context)
    if not unseen:
        return []
    matching = np.zeros(len(unseen), dtype=np.bool_)
    for scan in context.ours.reads.scans:
        if scan.reads_everything or context.read.base is None:
            return unseen
        matching |= context.can_match(context.read.base, scan.predicate, [found.add for found in unseen])
    return [found for found, matches in zip(unseen, matching, strict=True) if matches]


def _reason_of(context: ConflictContext, found: AddedFile) -> ConflictReason:
    if any(scan.reads_everything for scan in context.ours.reads.scans):
        return ConflictReason.WHOLE_TABLE_READ
    return partition_hint(found.add.partition_values)


def _added(context: ConflictContext, found: AddedFile, reason: ConflictReason) -> Conflict:
    return Conflict(
        error=ConcurrentAppendException,
        winner=found.winner,
        reason=reason,
        where=partition_or_file(context, found.add.path, found.add.partition_values),
        advice=NARROW_THE_CONDITION,
    )


def removed_file_conflict(
    context: ConflictContext, error: type[ConcurrentDeleteDeleteException | ConcurrentDeleteReadException], key: FileKey
) -> Conflict:
    """A winner removed this file."""
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
        advice=NARROW_THE_CONDITION,
    )


def _read_among(context: ConflictContext, scan: Scan, gone: frozenset[FileKey]) -> Iterable[FileKey]:
    """Which of the removed files the scan had opened."""
    if scan.files is None or scan.reads_everything:
        return sorted(gone, key=str)
    if isinstance(scan.files, frozenset):
        return sorted(scan.files & gone, key=str)
    rows = context.read.base_files.find(path for path, _ in gone)
    return sorted((key for key, row in rows.items() if key in gone and scan.files[row]), key=str)


def partition_hint(partition_values: dict[str, str | None]) -> ConflictReason:
    """How close the place of a clash is known, where it is not known by row."""
    return ConflictReason.WITH_PARTITION_HINT if partition_values else ConflictReason.WITHOUT_HINT


def partition_or_file(context: ConflictContext, path: str, partition_values: dict[str, str | None]) -> str:
    """The partition in the names that users know, or the file where there are no partitions."""
    metadata = context.latest.metadata
    if metadata is None or not metadata.partition_columns or not partition_values:
        return f"file {path}"
    columns = physical_partition_columns(metadata, table=context.latest.table)
    named = (f"{logical}={partition_values.get(physical or logical)}" for logical, physical in columns.items())
    return f"partition {', '.join(named)}"
