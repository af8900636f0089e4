"""Change data files, which a commit needs where its other files do not show exactly which rows changed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.change_feed.change_files import write_change_files
from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.dml.row_deletion import RowChanges
from anabranch.commands.dml.target_table import TargetRows, with_row_counts
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import AddCDCFile
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.read_set import RowsOfFile

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
