"""Appending to a table, or replacing its rows, with Python workers.

Only rows that can be written just as they come: whatever of a table needs an expression evaluated (constraints,
generated columns, casts) needs a session, and so does making a table.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from anabranch.clock import SystemClock
from anabranch.connect.python_source.source_reader import TableOptions
from anabranch.errors.arguments import InvalidOptionError, SessionNotEnabledError
from anabranch.errors.commits import AppendOnlyTableError
from anabranch.errors.log import TableNotFoundError
from anabranch.protocol.actions import Action, AddFile, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.schema.enforcement import WriteApi, plan_write, rules_for
from anabranch.schema.logical_types import without_void
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.portable.portable_write import adds_of, write_task
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.rows.deletion_vector_actions import removal
from anabranch.transaction.table import Table

OPEN_FILES_MAX = 32
"""Rows come in no order, so that a task writes to many partitions at once."""


@dataclasses.dataclass(frozen=True)
class FilesOfTask(WriterCommitMessage):
    """What one task wrote."""

    adds: tuple[AddFile, ...]
    num_rows: int


class DeltaWriter(DataSourceArrowWriter):
    """Writes on top of the version that is the newest when the writer is made."""

    def __init__(self, options: TableOptions, schema: StructType, *, overwrite: bool) -> None:
        if options.version is not None or options.timestamp is not None:
            raise InvalidOptionError(option="versionAsOf", value="", problem="an old version cannot be written to")
        snapshot = _newest(options)
        self._options = options
        self._overwrite = overwrite
        self._read_version = snapshot.version
        self._order = _order_of_columns(schema, snapshot, overwrite=overwrite)
        self._task = write_task(
            table_root=snapshot.table_root,
            schema=without_void(snapshot.schema),
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            properties=snapshot.properties,
            file_system=options.file_system,
            open_files_max=OPEN_FILES_MAX,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesOfTask:
        batches = (batch.select(self._order) for batch in iterator)
        written = list(self._task(batches))
        adds = tuple(add for batch in written for add in adds_of(batch, tags=self._task.tags))
        return FilesOfTask(adds, sum(sum(batch.column("num_rows").to_pylist()) for batch in written))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, FilesOfTask)]
        adds = [add for message in done for add in message.adds]
        table = Table(self._options.store(), SystemClock(), random.SystemRandom())
        snapshot = table.snapshots.at_version(self._read_version)
        parameters: dict[str, object] = {"mode": "Overwrite" if self._overwrite else "Append", "partitionBy": []}
        transaction = table.begin_at(Operation(name="WRITE", parameters=parameters), snapshot=snapshot)
        removes: list[RemoveFile] = []
        if self._overwrite:
            transaction.record_whole_table()
            now_ms = SystemClock().now_ms()
            files = snapshot.files.to_actions()
            removes = [removal(add, removed_at_ms=now_ms, data_change=True) for add in files]
        actions: list[Action] = [*adds, *removes]
        metrics = {
            "numFiles": len(adds),
            "numOutputRows": sum(message.num_rows for message in done),
            "numOutputBytes": sum(add.size for add in adds),
        }
        if removes:
            metrics |= {
                "numRemovedFiles": len(removes),
                "numRemovedBytes": sum(remove.size or 0 for remove in removes),
            }
        transaction.commit(actions, metrics=metrics)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was committed; the files are VACUUM's."""


def _newest(options: TableOptions) -> Snapshot:
    try:
        return options.snapshot()
    except TableNotFoundError as error:
        raise SessionNotEnabledError(call="Creating a Delta table with df.write") from error


def _order_of_columns(schema: StructType, snapshot: Snapshot, *, overwrite: bool) -> list[int]:
    """Where the table's columns stand among those of the rows. Raises typed errors for rows that do not fit."""
    table = snapshot.table_root
    check_writable(snapshot.protocol, table=table)
    if overwrite and snapshot.properties.append_only:
        raise AppendOnlyTableError(table=table, operation="Overwriting")
    rules = rules_for(WriteApi.SAVE, overwriting=overwrite, merge_schema=False, overwrite_schema=False)
    plan = plan_write(
        schema,
        snapshot.schema,
        rules,
        table=table,
        constraints=snapshot.properties.constraints,
        partition_columns=snapshot.partition_columns,
    )
    if not plan.is_plain:
        raise SessionNotEnabledError(
            call=f"Writing to {table}, whose columns need checks, casts or values of their own,"
        )
    return [column.source_index for column in plan.columns if column.source_index is not None]
