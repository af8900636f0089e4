"""Writes rows as data files of a table, for all statements that add rows, and finds the columns with row ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.table_access import TableRef
from anabranch.errors.environment import StorageError
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.protocol.data_paths import decode_path
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.computed_columns import RowTrackingColumns, row_tracking_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.write.optimized_write import optimized
from anabranch.spark.write.row_checks import typed_violations
from anabranch.transactions.commit.commit_draft import ROWS_KEPT_TAG


def write_data_files(
    table: TableRef,
    rows: DataFrame,
    *,
    schema: StructType,
    partition_columns: tuple[str, ...],
    properties: TableProperties,
    max_records_per_file: int | None = None,
    parquet: tuple[tuple[str, str], ...] = (),
    optimize: bool | None = None,
) -> WrittenFiles:
    """Run the frame, whose columns are those of `schema`, and write its rows. Nothing is committed.

    `parquet` are options of Parquet's writer. With `optimize` rows are shuffled first to make fewer files; None leaves
    that to the session and the table. Raises the errors of `refuse_when` columns among the rows, `InvalidOptionError`,
    and `InvalidPropertyError` for an isolation level that does not exist.
    """
    # The commit would raise the same error, but only after all files are written.
    properties.isolation_level  # noqa: B018 - raises
    shuffled = optimized(
        table.session, rows, properties=properties, partition_columns=partition_columns, option=optimize
    )
    begin_phase("write files")
    table.session.describe_jobs(f"write {table.label}")
    with typed_violations():
        written = table.session.engine.write(
            WriteRequest(
                table_root=table.path,
                frame=shuffled,
                schema=schema,
                partition_columns=partition_columns,
                column_mapping=ColumnMappingMode.parse(properties.column_mapping_mode),
                properties=properties,
                max_records_per_file=max_records_per_file,
                options=(*table.storage, *parquet),
            )
        )
    add_done(files=len(written.adds), rows=written.num_rows, size_bytes=sum(add.size for add in written.adds))
    return written


def delete_data_files(table: TableRef, files: Iterable[AddFile | AddCDCFile]) -> None:
    """Delete files that no commit is going to add.

    What cannot be deleted is left to VACUUM, like the files of a statement that loses to another.
    """
    with contextlib.suppress(StorageError):
        paths = [decode_path(file.path, table_root=table.path) for file in files]
        table.delta_log.store.delete_many(paths)


def tracking_of(table: TableRef, snapshot: Snapshot) -> RowTrackingColumns | None:
    """The columns with the row ids of the table; None without row tracking. Raises `RowTrackingColumnsError`."""
    return row_tracking_columns(snapshot.protocol, snapshot.properties, snapshot.schema, table=table.label)


def rows_kept_tags(table: TableRef, snapshot: Snapshot) -> dict[str, str]:
    """The tag of a commit whose rows keep their ids. See "Writer Requirements for Row Tracking"."""
    return {} if tracking_of(table, snapshot) is None else {ROWS_KEPT_TAG: "true"}
