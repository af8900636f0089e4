"""Requests to the engine, which reads and writes data files, and the values that it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from anabranch.deletion_vectors.vector_reading import LoadVectors
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.spark.conditions.column_names import RowNames

NEWEST_VERSION = 2**63 - 1
"""In the place of a version number: the version that is newest when a frame runs."""

FILE_ID_COLUMN = "__anabranch_file_id"
"""The column with the row number of the file in `ScanRequest.files`; int."""
ROW_INDEX_COLUMN = "__anabranch_row_index"
"""The column with the position of the row in its data file, counting hidden rows; long."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Read these files as rows of the table.

    The result has the columns of `schema`, in order, under logical names and with the schema's types.
    """

    table_root: str
    version: int | None
    """The version read, if it was the newest; None for time travel, which no later commit can contradict."""
    schema: StructType
    """Logical schema of the table, partition columns included, column-mapping metadata on its fields."""
    partition_columns: tuple[str, ...]
    """The names of the partition columns, logical ones."""
    column_mapping: ColumnMappingMode
    files: pa.Table
    """Live files; see `LIVE_FILE_SCHEMA`. One file may be in it several times, with other partition values and other
    vectors. It lacks the column `stats` where `load_rows` is to be called."""
    load_vectors: LoadVectors
    """Called for the vectors of the files that survive skipping."""
    prune: Callable[[Predicate], FileMask] | None = None
    """Returns which files can hold a row for which the predicate, in physical names, is true. None reads all files."""
    with_positions: bool = False
    """Add `ROW_INDEX_COLUMN` and `FILE_ID_COLUMN` after the columns of `schema`."""
    with_metadata: bool = False
    """Add Spark's `_metadata` of the file and the row after all other columns."""
    tracked: bool = False
    """Whether this scan must be run itself. Otherwise Spark may run one scan, or use cached rows, for all scans of the
    same files."""
    vectors_show: bool = False
    """Whether every file has a vector that names the rows to read, instead of those that are hidden."""
    allowed_prefixes: tuple[str, ...] = ()
    """Folders outside `table_root` in which data files may be, as for a shallow clone."""
    options: Sequence[tuple[str, str]] = ()
    """Settings of the file system, such as ("fs.s3a.endpoint", …), for this scan alone."""
    load_rows: Callable[[npt.NDArray[np.integer]], pa.Table] | None = None
    """Returns the rows of `files` at these positions with their statistics, which are large for many files; None where
    `files` has them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Write these rows as new data files of the table; nothing is committed."""

    table_root: str
    frame: DataFrame
    """The rows. The columns are exactly those of `schema`: same order, logical names, same types."""
    schema: StructType
    partition_columns: tuple[str, ...]
    column_mapping: ColumnMappingMode
    properties: TableProperties
    """The table's properties: they decide on columns with statistics, random file prefixes, compression."""
    max_records_per_file: int | None = None
    options: Sequence[tuple[str, str]] = ()
    """Further Parquet writer options, such as ("compression", "zstd"), and settings of the file system."""
    open_file: Callable[[str], pa.NativeFile] | None = None
    """Opens a file of the table by its relative, plain path, for its footer; by default from disk or through Hadoop."""
    directory: str = ""
    """The folder of the table in which the files are written; the table's root by default."""
    partition_values: Mapping[str, str | None] | None = None
    """The one partition that all rows belong to: by physical names, in the form of the log. Then `schema` is that of
    the files (`stored_fields`), and the files hold the rows in the frame's order."""
    one_file: bool = False
    """Put the files of several tasks together to one, on a local disk, with the rows of the first task first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Data files that are complete and durable, as `add` actions with `data_change=True` and statistics."""

    adds: tuple[AddFile, ...]
    num_rows: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """Write the rows of these files that are not hidden to one new file, in a known order; nothing is committed."""

    scan: ScanRequest
    """The scan of the files, all of one partition."""
    row_counts: Sequence[int] | None
    """The number of rows of each file, hidden ones included; None where the log does not have it for all files."""
    properties: TableProperties
    row_tracking: RowTrackingColumns | None = None
    """Columns at the end of the scan's schema that hold the ids of the rows."""
    options: Sequence[tuple[str, str]] = ()
    """Further Parquet writer options, and settings of the file system."""
    open_file: Callable[[str], pa.NativeFile] | None = None
    """As in `WriteRequest`."""
    tasks_max: int = 1
    """How many tasks may read the files and write their rows. They do only where that is worth putting together."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """The file that was written, none where no row was left, and the order of the rows in it."""

    written: WrittenFiles
    order: tuple[int, ...]
    """The files of the request in the order of their rows; rows of one file are in ascending order."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Match:
    """Rows of other tables, at fixed versions, and the condition by which one of them matches a row of ours."""

    rows: DataFrame
    condition: Column


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnRead:
    """A read of the table that rows are written to: the written rows depend on no row that `select` would leave out."""

    predicate: Predicate
    """A predicate in logical names. It is true for every row on which the written rows depend, maybe for more."""
    condition: Column | None = None
    """A condition on rows under the names of `names`."""
    matches: tuple[Match, ...] = ()
    """Joins of the table in the query: it depends on no row of the table without a match in each of them."""
    names: RowNames = None

    @property
    def narrows(self) -> bool:
        """Whether `select` leaves out any rows."""
        return self.condition is not None or bool(self.matches)

    def select(self, frame: DataFrame) -> DataFrame:
        """The rows on which the written rows depend, of a frame under the names of `names`."""
        if self.condition is not None:
            frame = frame.where(self.condition)
        for match in self.matches:
            frame = frame.join(match.rows, match.condition, "left_semi")
        return frame
