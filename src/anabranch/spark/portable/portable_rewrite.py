"""Rewriting files in a known order by one Python worker: it reads one after the other and writes rows as they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.schema.logical_types import check_writable, without_void
from anabranch.schema.paths import as_nullable
from anabranch.spark.engine import RewriteRequest, RewrittenFile, WrittenFiles
from anabranch.spark.portable.data_file_reading import DataFile, DataFiles, RowReader, storage_options
from anabranch.spark.portable.portable_write import ADD_COLUMNS, adds_of, session_codec, write_task
from anabranch.spark.portable.write_task import WriteTask
from anabranch.spark.rows.file_listing import absolute_names
from anabranch.spark.rows.hidden_rows import load_hidden
from anabranch.spark.rows.row_tracking import RowIdsOfFile, row_ids_of_files, stable_values
from anabranch.spark.write.file_schema import stored_partitions
from anabranch.spark.write.rewrite_request import checked, partition_values, stored_columns


def rewrite_file(spark: SparkSession, request: RewriteRequest) -> RewrittenFile:
    """See `Engine.rewrite`."""
    task = _RewriteTask(
        reader=_reader(spark, request),
        files=_files(request),
        row_tracking=request.row_tracking,
        row_ids=row_ids_of_files(request.scan.files),
        write=_write(spark, request),
    )
    # One row of one partition sets one worker to work.
    written = spark.range(0, 1, 1, 1).mapInArrow(task, ADD_COLUMNS).toArrow()
    adds = adds_of(written, tags=task.write.tags)
    found = WrittenFiles(
        adds=tuple(adds), num_rows=sum(written["num_rows"].to_pylist()), size_bytes=sum(add.size for add in adds)
    )
    return RewrittenFile(written=checked(request, found), order=tuple(range(len(request.scan.files))))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RewriteTask:
    """What the worker runs."""

    reader: RowReader
    files: Sequence[tuple[DataFile, bytes | None]]
    """In the order of their rows, each with the rows it hides as a roaring bitmap."""
    row_tracking: RowTrackingColumns | None
    row_ids: Sequence[RowIdsOfFile]
    """Of each file."""
    write: WriteTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if sum(batch.num_rows for batch in batches):
            yield from self.write(self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for (file, packed), ids in zip(self.files, self.row_ids, strict=True):
            hidden = None if packed is None else BitMap64.deserialize(packed)
            for rows, positions in self.reader.read(file, hidden):
                tracking = self.row_tracking
                yield rows if tracking is None else stable_values(rows, positions, ids, tracking)


def _reader(spark: SparkSession, request: RewriteRequest) -> RowReader:
    scan = request.scan
    reached = storage_options(spark, scan.table_root, scan.options, elsewhere=scan.allowed_prefixes)
    return RowReader(
        data_files=DataFiles(scan.table_root, reached),
        schema=as_nullable(without_void(stored_columns(request))),
        partition_columns=stored_partitions(scan.partition_columns, request.properties),
        column_mapping=scan.column_mapping,
        time_zone="UTC",
    )


def _files(request: RewriteRequest) -> list[tuple[DataFile, bytes | None]]:
    scan = request.scan
    names = absolute_names(
        scan.files["path"], table_root=scan.table_root, allowed_prefixes=scan.allowed_prefixes
    ).to_pylist()
    rows = np.flatnonzero(scan.files["deletion_vector"].is_valid().to_numpy())
    loaded = load_hidden(scan.files, rows, scan.load_vector, scan.load_vectors, table=scan.table_root)
    hidden = {row: vector.serialize() for row, vector in zip(rows.tolist(), loaded, strict=True)}
    values = partition_values(request)
    return [(DataFile(name=name, partition_values=values), hidden.get(row)) for row, name in enumerate(names)]


def _write(spark: SparkSession, request: RewriteRequest) -> WriteTask:
    scan, schema = request.scan, stored_columns(request)
    check_writable(schema, table=scan.table_root)
    options = (*scan.options, *request.options)
    return write_task(
        table_root=scan.table_root,
        schema=without_void(schema),
        partition_columns=stored_partitions(scan.partition_columns, request.properties),
        column_mapping=scan.column_mapping,
        properties=request.properties,
        file_system=storage_options(spark, scan.table_root, options),
        options=options,
        codec=session_codec(spark),
        partition_values=partition_values(request),
    )
