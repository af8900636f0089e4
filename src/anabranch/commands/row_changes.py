"""What becomes of files whose rows are deleted or replaced: hidden by vectors, or the files written anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64
from pyspark.sql import DataFrame

from anabranch.commands.target_rows import TargetRows, with_row_counts
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, RemoveFile
from anabranch.schema.void import without_void
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.row_checks import typed_violations
from anabranch.spark.table_identifiers import quote
from anabranch.transaction.hiding_rows import hide_rows, removal
from anabranch.transaction.read_set import FileKey, RowsOfFile
from anabranch.transaction.row_ids import row_count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowChanges:
    """The file actions of a statement, and what they are made of."""

    removes: tuple[RemoveFile, ...]
    adds: tuple[AddFile, ...]
    """Files that stay with fewer rows, and files with rows that were kept while theirs was written anew."""
    deleted_rows: Mapping[FileKey, BitMap64 | None]
    """As `Transaction.commit` takes it."""
    num_rows: int | None
    """Rows taken out; None where a file does not say how many it had."""
    copied: WrittenFiles | None = None
    change_files: tuple[AddCDCFile, ...] = ()
    """For the change data feed: all rows that the statement changes, or none where the files above tell them."""

    def actions(self, written: WrittenFiles | None = None) -> list[Action]:
        """All of them, with the files of new rows."""
        return [*self.removes, *self.adds, *(written.adds if written is not None else ()), *self.change_files]

    def metrics(self, written: WrittenFiles | None = None) -> dict[str, int]:
        """By Delta's names; `written` are the files of new rows."""
        kept = {add.path: add for add in self.adds if add.deletion_vector is not None}
        gone = [remove for remove in self.removes if remove.path not in kept]
        new = [*(self.copied.adds if self.copied else ()), *(written.adds if written is not None else ())]
        updated = sum(remove.deletion_vector is not None for remove in self.removes if remove.path in kept)
        return {
            "numRemovedFiles": len(gone),
            "numAddedFiles": len(new),
            "numRemovedBytes": sum(remove.size or 0 for remove in gone),
            "numAddedBytes": sum(add.size for add in new),
            "numCopiedRows": self.copied.num_rows if self.copied else 0,
            "numDeletionVectorsAdded": len(kept),
            "numDeletionVectorsRemoved": sum(remove.deletion_vector is not None for remove in self.removes),
            "numDeletionVectorsUpdated": updated,
            "numAddedChangeFiles": len(self.change_files),
        }


def take_out(target: TargetRows, chosen: Sequence[RowsOfFile], *, by_vectors: bool) -> RowChanges:
    """Take these rows out of the table, whole files where no row is left.

    Without vectors, the other rows of the files are written to new ones; nothing is committed.
    """
    chosen = [rows for rows in chosen if rows.positions is None or rows.positions]
    now_ms = target.handle.session.clock.now_ms()
    if not by_vectors:
        return _written_anew(target, chosen, now_ms)
    counted = _whole_where_nothing_is_left(target, with_row_counts(chosen, target.handle))
    actions = hide_rows(counted, target.vectors, removed_at_ms=now_ms)
    return RowChanges(
        removes=tuple(action for action in actions if isinstance(action, RemoveFile)),
        adds=tuple(action for action in actions if isinstance(action, AddFile)),
        deleted_rows={rows.file.key: rows.positions for rows in counted},
        num_rows=_num_rows(counted),
    )


def write_new_rows(target: TargetRows, frame: DataFrame) -> WrittenFiles:
    """Write rows, which have the table's columns and more, as data files. Nothing is committed."""
    snapshot, handle = target.snapshot, target.handle
    schema = without_void(snapshot.schema)
    with typed_violations():
        return handle.session.engine.write(
            WriteRequest(
                table_root=handle.path,
                frame=frame.select(*(frame[quote(name)] for name in schema.fieldNames())),
                schema=schema,
                partition_columns=snapshot.partition_columns,
                column_mapping=snapshot.column_mapping_mode,
                properties=snapshot.properties,
                options=handle.storage,
            )
        )


def _written_anew(target: TargetRows, chosen: Sequence[RowsOfFile], now_ms: int) -> RowChanges:
    counted = _whole_where_nothing_is_left(target, with_row_counts(chosen, target.handle))
    partial = [rows for rows in counted if rows.positions is not None]
    live = target.all_rows([rows.file for rows in partial])
    assert live is not None, "rows were counted"
    kept = [
        RowsOfFile(file=rows.file, positions=live[rows.file.key] - rows.positions)
        for rows in partial
        if rows.positions is not None
    ]
    copied = write_new_rows(target, target.read_rows(kept).frame) if kept else None
    return RowChanges(
        removes=tuple(removal(rows.file, removed_at_ms=now_ms, data_change=True) for rows in counted),
        adds=copied.adds if copied else (),
        deleted_rows={rows.file.key: None for rows in counted if rows.positions is None},
        num_rows=_num_rows(counted),
        copied=copied,
    )


def _whole_where_nothing_is_left(target: TargetRows, chosen: Sequence[RowsOfFile]) -> list[RowsOfFile]:
    hidden = target.vectors.hidden([rows.file for rows in chosen])
    return [
        RowsOfFile(file=rows.file, positions=None)
        if rows.positions is not None and len(rows.positions) + len(vector) == row_count(rows.file.stats)
        else rows
        for rows, vector in zip(chosen, hidden, strict=True)
    ]


def _num_rows(chosen: Sequence[RowsOfFile]) -> int | None:
    total = 0
    for rows in chosen:
        if rows.positions is not None:
            total += len(rows.positions)
            continue
        count = row_count(rows.file.stats)
        if count is None:
            return None
        total += count - (rows.file.deletion_vector.cardinality if rows.file.deletion_vector else 0)
    return total
