"""Values computed from a rewrite request: the columns to write, the first row of each file, the number of rows."""

from __future__ import annotations

import dataclasses
import itertools
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

TASK_BYTES_MIN = 16 << 20
"""A task reads at least as much, so that row groups have a good size."""
_TASK_BITS = 33
"""The number of bits below the task in `monotonically_increasing_id`."""
_UNLIMITED = 2**62
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """Which task reads which files, in which order: Spark's own way, largest first, as many as fit into `bytes_max`."""

    tasks: tuple[tuple[int, ...], ...]
    bytes_max: int

    @property
    def order(self) -> tuple[int, ...]:
        """All files in the order of their rows."""
        return tuple(itertools.chain.from_iterable(self.tasks))

    def first_rows(self, row_counts: Sequence[int]) -> npt.NDArray[np.int64]:
        """What `monotonically_increasing_id` is for the first row of each file: task and number of the row in it."""
        starts = np.zeros(len(row_counts), dtype=np.int64)
        counts = np.asarray(row_counts, dtype=np.int64)
        for task, files in enumerate(self.tasks):
            read = counts[list(files)]
            starts[list(files)] = (task << _TASK_BITS) + np.cumsum(read) - read
        return starts


def tasks_of_one_file(request: RewriteRequest) -> int:
    """How many tasks may write the rows of the request, so that their files can be put together, and are worth it.

    That is done on a local disk. Shredded variants have a schema of their own in each file.
    """
    if not request.scan.table_root.startswith("/") or request.properties.variant_shredding_enabled:
        return 1
    return max(1, min(request.tasks_max, int(_sizes(request).sum()) // TASK_BYTES_MIN))


def reading_plan(request: RewriteRequest, tasks_max: int) -> ReadingPlan:
    """The plan of reading the files of the request in so many tasks, or less where few files have most of the bytes."""
    sizes = _sizes(request)
    order = np.argsort(-sizes, kind="stable")
    total = int(sizes.sum())
    if tasks_max == 1:
        return ReadingPlan(tasks=(tuple(order.tolist()),), bytes_max=_UNLIMITED)
    # No file is larger than the limit: Spark would divide it.
    bytes_max = max(int(sizes.max()), -(-total // tasks_max))
    while len(tasks := _tasks(sizes, order, bytes_max)) > tasks_max:
        bytes_max += bytes_max // 64 + 1
    return ReadingPlan(tasks=tasks, bytes_max=bytes_max)


def _tasks(sizes: npt.NDArray[np.int64], order: npt.NDArray[np.int64], bytes_max: int) -> tuple[tuple[int, ...], ...]:
    """The files in this order, each task's up to the one that does not fit into it any more."""
    ends = np.cumsum(sizes[order])
    tasks: list[tuple[int, ...]] = []
    first = 0
    while first < len(order):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + bytes_max, side="right"))
        tasks.append(tuple(order[first:last].tolist()))
        first = last
    return tuple(tasks)


def _sizes(request: RewriteRequest) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(request.scan.files["size"], 0).to_numpy(), dtype=np.int64)


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
