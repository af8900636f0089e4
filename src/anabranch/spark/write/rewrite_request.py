"""Values computed from a rewrite request: the columns to write, the first row of each file, the number of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.errors.maintenance import RowOrderError
from anabranch.log.file_columns import adds_of_table
from anabranch.spark.engine import RewriteRequest, WriteRequest, WrittenFiles
from anabranch.spark.write.file_schema import stored_fields, stored_partitions

NO_LIMIT = 0
"""As `maxRecordsPerFile`: rows of one task are written to one file, for any setting of the session."""


def stored_columns(request: RewriteRequest) -> StructType:
    """The columns of the table that data files hold."""
    return stored_fields(request.scan.schema, request.scan.partition_columns, request.properties)


def partition_values(request: RewriteRequest) -> dict[str, str | None]:
    """The partition values that all files have, by physical names, in the form of the log."""
    (first,) = adds_of_table(request.scan.files.slice(0, 1), data_change=False)
    return dict(first.partition_values)


def write_request(request: RewriteRequest, frame: DataFrame) -> WriteRequest:
    """The request to write the rows of `frame`, which has the columns of `stored_columns`."""
    scan = request.scan
    return WriteRequest(
        table_root=scan.table_root,
        frame=frame,
        schema=stored_columns(request),
        partition_columns=stored_partitions(scan.partition_columns, request.properties),
        column_mapping=scan.column_mapping,
        properties=request.properties,
        max_records_per_file=NO_LIMIT,
        options=(*scan.options, *request.options),
        open_file=request.open_file,
        partition_values=partition_values(request),
    )


def first_rows(row_counts: Sequence[int], order: Sequence[int]) -> npt.NDArray[np.int64]:
    """The number of rows that are read before each file's own, if files are read in that order."""
    starts = np.zeros(len(order), dtype=np.int64)
    counts = np.asarray(row_counts, dtype=np.int64)[list(order)]
    starts[list(order)] = np.cumsum(counts) - counts
    return starts


def checked_rewrite(request: RewriteRequest, written: WrittenFiles) -> WrittenFiles:
    """`written`, if it is one file and has as many rows as the log says there are. Raises `RowOrderError`."""
    if len(written.adds) > 1:
        raise RowOrderError(
            table=request.scan.table_root, problem=f"{len(written.adds)} files were written instead of one"
        )
    expected = _shown_rows(request)
    if expected is not None and written.num_rows != expected:
        problem = f"{written.num_rows} rows were written instead of {expected}"
        raise RowOrderError(table=request.scan.table_root, problem=problem)
    return written


def _shown_rows(request: RewriteRequest) -> int | None:
    if request.row_counts is None:
        return None
    hidden = pc.sum(pc.struct_field(request.scan.files["deletion_vector"], "cardinality")).as_py() or 0
    return sum(request.row_counts) - int(hidden)
