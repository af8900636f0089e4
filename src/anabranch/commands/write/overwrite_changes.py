"""The change data of an overwrite, where the files that it adds and removes do not show which rows changed."""

from __future__ import annotations

import dataclasses
import functools

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.change_feed.change_files import write_change_files
from anabranch.change_feed.feed_columns import CHANGE_TYPE, INSERT
from anabranch.commands.dml.row_changes import RowChanges
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_target import WriteTarget
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddCDCFile
from anabranch.spark.engine import ScanRequest, WrittenFiles


def with_inserts_recorded(
    table: TableRef, target: WriteTarget, written: WrittenFiles, changes: RowChanges
) -> RowChanges:
    """The changes of an overwrite. Where change data files hold the deleted rows, they must hold the new ones, too."""
    if not changes.change_files or not written.adds:
        return changes
    inserted = _inserted(table, target, written)
    return dataclasses.replace(changes, change_files=(*changes.change_files, *inserted))


def _inserted(table: TableRef, target: WriteTarget, written: WrittenFiles) -> tuple[AddCDCFile, ...]:
    """Change data files of the new rows, read from the data files: their frame may give other rows the next time."""
    schema = target.file_schema
    files = table_of_adds(written.adds)
    rows = table.session.engine.scan(
        ScanRequest(
            table_root=table.path,
            version=None,
            schema=schema,
            partition_columns=target.partition_columns,
            column_mapping=target.column_mapping,
            files=files,
            load_vectors=functools.partial(load_vectors, table.delta_log.store),
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
