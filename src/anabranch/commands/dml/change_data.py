"""What a commit tells a change data feed where its files alone would not say which rows changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.change_feed.change_files import write_change_files
from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.dml.row_deletion import RowChanges
from anabranch.commands.dml.target_table import TargetRows, with_row_counts
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_target import WriteTarget
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddCDCFile
from anabranch.schema.logical_types import without_void
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest, WrittenFiles
from anabranch.spark.session.table_identifiers import quote
from anabranch.transaction.read_set import RowsOfFile

_IMAGE = "__anabranch_image"


def records_changes(snapshot: Snapshot) -> bool:
    """Whether the table has a change data feed."""
    return snapshot.properties.change_data_feed_enabled


def files_show_changes(changes: RowChanges) -> bool:
    """Whether files that come and go, and vectors that differ, say exactly which rows went.

    They do not where rows that stay were written anew.
    """
    return changes.copied is None


def tell(table: TableRef, snapshot: Snapshot, frame: DataFrame) -> tuple[AddCDCFile, ...]:
    """Write the rows, which have the table's columns and `_change_type`."""
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
    """What a frame calls the values that the stored columns had before."""
    return tuple(f"__anabranch_old_{place}" for place in range(len(without_void(schema).fields)))


def old_values(schema: StructType) -> list[Column]:
    """The values that the columns have, under those names."""
    names = without_void(schema).fieldNames()
    return [F.col(quote(name)).alias(old) for name, old in zip(names, old_names(schema), strict=True)]


def both_images(changed: DataFrame, schema: StructType) -> DataFrame:
    """Each row as it was and as it is, of a frame that has the table's columns and `old_names`; read once for both."""
    names = without_void(schema).fieldNames()

    def image(change: str, values: Sequence[str]) -> Column:
        fields = [F.col(quote(value)).alias(f"c{place}") for place, value in enumerate(values)]
        return F.struct(*fields, F.lit(change).alias("change"))

    images = F.array(image(UPDATE_PREIMAGE, old_names(schema)), image(UPDATE_POSTIMAGE, names))
    each = changed.select(F.explode(images).alias(_IMAGE))
    columns = [F.col(f"{_IMAGE}.c{place}").alias(name) for place, name in enumerate(names)]
    return each.select(*columns, F.col(f"{_IMAGE}.change").alias(CHANGE_TYPE))


def with_deletes_recorded(target: TargetRows, chosen: Sequence[RowsOfFile], changes: RowChanges) -> RowChanges:
    """What becomes of files from which these rows were taken out, with the change data files that this needs."""
    if files_show_changes(changes) or not records_changes(target.snapshot):
        return changes
    return dataclasses.replace(changes, change_files=_deleted(target, chosen))


def _deleted(target: TargetRows, chosen: Sequence[RowsOfFile]) -> tuple[AddCDCFile, ...]:
    rows = target.read_rows(with_row_counts(chosen, target.table)).frame
    return tell(target.table, target.snapshot, rows.withColumn(CHANGE_TYPE, F.lit(DELETE)))


def with_inserts_recorded(
    table: TableRef, target: WriteTarget, written: WrittenFiles, changes: RowChanges
) -> RowChanges:
    """The changes of an overwrite. Where change data files tell the rows that went, they tell the new ones, too."""
    if not changes.change_files or not written.adds:
        return changes
    told = _inserted(table, target, written)
    return dataclasses.replace(changes, change_files=(*changes.change_files, *told))


def _inserted(table: TableRef, target: WriteTarget, written: WrittenFiles) -> tuple[AddCDCFile, ...]:
    """They are read from the files: the frame that they come from might give others a second time."""
    schema = target.file_schema(table.label)
    files = table_of_adds(written.adds)
    everything = np.ones(len(files), dtype=np.bool_)
    rows = table.session.engine.scan(
        ScanRequest(
            table_root=table.path,
            version=None,
            schema=schema,
            partition_columns=target.partition_columns,
            column_mapping=target.column_mapping,
            files=files,
            load_vector=lambda _: BitMap64(),
            prune=lambda _: everything,
            options=table.storage,
        )
    )
    return write_change_files(
        table.session.engine,
        rows.withColumn(CHANGE_TYPE, F.lit(INSERT)),
        table_root=table.path,
        schema=schema,
        partition_columns=target.partition_columns,
        properties=target.properties,
        options=table.storage,
    )
