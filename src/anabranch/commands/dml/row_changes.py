"""Rows that a statement deletes or replaces: hidden by vectors, or left out of new files that hold the others.

A commit has change data files where its other files do not show exactly which rows changed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.change_feed.change_files import write_change_files
from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.data_files import write_data_files
from anabranch.commands.dml.target_table import TargetRows, with_row_counts
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, RemoveFile, visible_row_count_of
from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import WrittenFiles
from anabranch.spark.gateway.jvm_classes import select
from anabranch.spark.rows.row_tracking import stored_tracking_columns
from anabranch.transactions.read_set import FileKey, RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows, removal

REWRITTEN_FILE_BYTES = 128 << 20
"""Files with rows that are copied because other rows of their files change are about this large."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowChanges:
    """The file actions of a statement that changes rows, and the rows that they delete."""

    removes: tuple[RemoveFile, ...]
    adds: tuple[AddFile, ...]
    """Files that now hide more rows, and files with copied rows."""
    deleted_rows: Mapping[FileKey, BitMap64 | None]
    """The deleted rows, as `Transaction.commit` takes them."""
    num_rows: int | None
    """How many rows are deleted; None where the statistics of a file do not count its rows."""
    copied: WrittenFiles | None = None
    change_files: tuple[AddCDCFile, ...] = ()
    """Change data files with all rows that the statement changes; none where the files above show the changes."""

    def actions(self, written: WrittenFiles | None = None) -> list[Action]:
        """All file actions; `written` are the files of new rows."""
        return [*self.removes, *self.adds, *(written.adds if written is not None else ()), *self.change_files]

    def metrics(self, written: WrittenFiles | None = None) -> dict[str, int]:
        """The metrics by Delta's names; `written` are the files of new rows."""
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


NO_CHANGES = RowChanges(removes=(), adds=(), deleted_rows={}, num_rows=0)


def delete_rows(target: TargetRows, chosen: Sequence[RowsOfFile], *, by_vectors: bool) -> RowChanges:
    """Delete these rows, and remove files of which no row is left. Nothing is committed.

    Without vectors, the other rows of the files are copied to new files.
    """
    replacement = replace_rows(target, chosen, by_vectors=by_vectors)
    if replacement.staying is None:
        return replacement.changes
    copied = write_new_rows(target, replacement.staying)
    return dataclasses.replace(replacement.changes, adds=copied.adds, copied=copied)


def write_new_rows(target: TargetRows, frame: DataFrame) -> WrittenFiles:
    """Write rows, which have at least the columns of `TargetRows`, as data files. Nothing is committed."""
    snapshot, table = target.snapshot, target.table
    schema = without_void(snapshot.schema)
    if target.tracking is not None:
        schema = target.tracking.added_to(schema)
    return write_data_files(
        table,
        select(frame, [*map(quote, schema.fieldNames())]),
        schema=schema,
        partition_columns=snapshot.partition_columns,
        properties=snapshot.properties,
    )


def as_stored(frame: DataFrame, schema: StructType, tracking: RowTrackingColumns | None) -> DataFrame:
    """The columns that files store of changed rows, which have their ids in a column if the table tracks rows."""
    tracked = [] if tracking is None else stored_tracking_columns(tracking)
    return select(frame, [*map(quote, schema.fieldNames()), *tracked])


def replace_rows(target: TargetRows, chosen: Sequence[RowsOfFile], *, by_vectors: bool) -> Replacement:
    """Delete these rows, for which new ones are to be written. Nothing is committed.

    Without vectors, the other rows of the files are to be written together with the new ones: otherwise every
    statement would make two files of one.
    """
    chosen = [rows for rows in chosen if rows.positions is None or rows.positions]
    counted = _whole_where_nothing_is_left(with_row_counts(chosen, target.table))
    now_ms = target.table.session.clock.now_ms()
    return Replacement(changes=_hidden(target, counted, now_ms)) if by_vectors else _rewritten(target, counted, now_ms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replacement:
    """Deleted rows, and the rows of their files that stay and are not written yet."""

    changes: RowChanges
    """The changes; their `copied` counts the rows that stay, and has no files."""
    staying: DataFrame | None = None

    @property
    def num_staying(self) -> int:
        return 0 if self.staying is None or self.changes.copied is None else self.changes.copied.num_rows

    def together(self, rows: DataFrame, *, tasks_min: int = 1) -> DataFrame:
        """`rows` and the rows that stay, in as few tasks as make files of a good size."""
        if self.staying is None:
            return rows
        size_bytes = sum(remove.size or 0 for remove in self.changes.removes)
        tasks = max(tasks_min, math.ceil(size_bytes / REWRITTEN_FILE_BYTES))
        return rows.unionByName(self.staying.select(*map(quote, rows.columns))).coalesce(tasks)

    def without_staying(self, written: WrittenFiles) -> WrittenFiles:
        """The files into which the rows of `together` were written, counting only the new rows."""
        return dataclasses.replace(written, num_rows=written.num_rows - self.num_staying)


def _hidden(target: TargetRows, counted: Sequence[RowsOfFile], now_ms: int) -> RowChanges:
    actions = hide_rows(counted, target.vectors, removed_at_ms=now_ms)
    return RowChanges(
        removes=tuple(action for action in actions if isinstance(action, RemoveFile)),
        adds=tuple(action for action in actions if isinstance(action, AddFile)),
        deleted_rows={rows.file.key: rows.positions for rows in counted},
        num_rows=_num_rows(counted),
    )


def _rewritten(target: TargetRows, counted: Sequence[RowsOfFile], now_ms: int) -> Replacement:
    """Removes the files; the rows of them that stay are still to be written."""
    partial = [rows for rows in counted if rows.positions is not None]
    live = target.all_rows([rows.file for rows in partial])
    assert live is not None, "rows were counted"
    kept = [
        RowsOfFile(file=rows.file, positions=live[rows.file.key] - rows.positions)
        for rows in partial
        if rows.positions is not None
    ]
    num_kept = sum(len(rows.positions or ()) for rows in kept)
    changes = RowChanges(
        removes=tuple(removal(rows.file, removed_at_ms=now_ms, data_change=True) for rows in counted),
        adds=(),
        deleted_rows={rows.file.key: None for rows in counted if rows.positions is None},
        num_rows=_num_rows(counted),
        copied=WrittenFiles(adds=(), num_rows=num_kept, size_bytes=0) if kept else None,
    )
    return Replacement(changes=changes, staying=target.read_rows(kept).frame if kept else None)


def _whole_where_nothing_is_left(chosen: Sequence[RowsOfFile]) -> list[RowsOfFile]:
    return [
        RowsOfFile(file=rows.file, positions=None)
        if rows.positions is not None and len(rows.positions) == visible_row_count_of(rows.file)
        else rows
        for rows in chosen
    ]


def _num_rows(chosen: Sequence[RowsOfFile]) -> int | None:
    total = 0
    for rows in chosen:
        if rows.positions is not None:
            total += len(rows.positions)
            continue
        count = visible_row_count_of(rows.file)
        if count is None:
            return None
        total += count
    return total


_IMAGE = "__anabranch_image"


def records_changes(snapshot: Snapshot) -> bool:
    """Whether the table has a change data feed."""
    return snapshot.properties.change_data_feed_enabled


def files_show_changes(changes: RowChanges) -> bool:
    """Whether added and removed files, and their deletion vectors, show exactly which rows were deleted.

    They do not where rows that stay in the table were copied to new files.
    """
    return changes.copied is None


def write_changed_rows(table: TableRef, snapshot: Snapshot, frame: DataFrame) -> tuple[AddCDCFile, ...]:
    """Write change data files of the rows, which have the table's columns and `_change_type`."""
    return write_change_files(
        table.session.engine,
        frame,
        table_root=table.path,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        properties=snapshot.properties,
        options=table.storage,
    )


def old_names(schema: StructType) -> tuple[str, ...]:
    """The names in a frame of the columns with old values, one for each stored column."""
    return tuple(f"__anabranch_old_{index}" for index in range(len(without_void(schema).fields)))


def old_values(schema: StructType) -> list[Column]:
    """The current values of the stored columns, named as `old_names` says."""
    names = without_void(schema).fieldNames()
    return [F.col(quote(name)).alias(old) for name, old in zip(names, old_names(schema), strict=True)]


def both_images(changed: DataFrame, schema: StructType) -> DataFrame:
    """The preimage and the postimage of each row of a frame that has the table's columns and `old_names`.

    The frame is read once for both.
    """
    names = without_void(schema).fieldNames()

    def image(change: str, values: Sequence[str]) -> Column:
        fields = [F.col(quote(value)).alias(f"c{index}") for index, value in enumerate(values)]
        return F.struct(*fields, F.lit(change).alias("change"))

    images = F.array(image(UPDATE_PREIMAGE, old_names(schema)), image(UPDATE_POSTIMAGE, names))
    exploded = changed.select(F.explode(images).alias(_IMAGE))
    columns = [F.col(f"{_IMAGE}.c{index}").alias(name) for index, name in enumerate(names)]
    return exploded.select(*columns, F.col(f"{_IMAGE}.change").alias(CHANGE_TYPE))


def with_deletes_recorded(target: TargetRows, chosen: Sequence[RowsOfFile], changes: RowChanges) -> RowChanges:
    """The changes of a statement that deletes these rows, with the change data files that the feed needs for them."""
    if files_show_changes(changes) or not records_changes(target.snapshot):
        return changes
    return dataclasses.replace(changes, change_files=write_rows_by_position(target, {DELETE: chosen}))


def write_rows_by_position(
    target: TargetRows, rows_by_change: Mapping[str, Sequence[RowsOfFile]]
) -> tuple[AddCDCFile, ...]:
    """Write change data files of rows as the table has them, by the type of their change."""
    frames = [
        target.read_rows(with_row_counts(rows, target.table)).frame.withColumn(CHANGE_TYPE, F.lit(change))
        for change, rows in rows_by_change.items()
        if rows
    ]
    if not frames:
        return ()
    return write_changed_rows(target.table, target.snapshot, functools.reduce(DataFrame.union, frames))
