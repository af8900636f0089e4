"""Requests that are made of Spark's reader and writer, and what they return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.spark.conditions.column_names import RowNames

NEWEST_VERSION = 2**63 - 1
"""Stands for the version that is newest when a frame runs, in the place of one that is known."""

FILE_ID_COLUMN = "__anabranch_file_id"
"""Row number of the file in `ScanRequest.files`; int."""
ROW_INDEX_COLUMN = "__anabranch_row_index"
"""Position of the row in its data file, counting hidden rows; long."""


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
    """Logical names."""
    column_mapping: ColumnMappingMode
    files: pa.Table
    """Live files; see "LIVE FILE COLUMNS" in `anabranch.log.file_columns`. One file may stand there several times, with
    other partition values and other vectors."""
    load_vector: Callable[[DeletionVectorDescriptor], BitMap64]
    """Positions of the hidden rows; called once for each file that has a vector and survives skipping."""
    prune: Callable[[Predicate], FileMask]
    """Which files can hold a row for which the predicate, in physical names, is true."""
    with_positions: bool = False
    """Add `FILE_ID_COLUMN` and `ROW_INDEX_COLUMN` after the columns of `schema`."""
    with_metadata: bool = False
    """Add Spark's `_metadata` of the file and the row after all other columns."""
    tracked: bool = False
    """`prune` must see the filters of every use of this scan. Otherwise Spark may run one scan, or take cached rows,
    for all scans of the same files."""
    load_vectors: Callable[[Sequence[DeletionVectorDescriptor]], Sequence[BitMap64]] | None = None
    """As `load_vector`, for many at once, in their order; used instead of it where there is one."""
    vectors_show: bool = False
    """Every file has a vector, and it names the rows that are read, not those that are hidden."""
    allowed_prefixes: tuple[str, ...] = ()
    """Where data files outside `table_root` may lie, as in a shallow clone."""
    options: Sequence[tuple[str, str]] = ()
    """Settings of the file system, such as ("fs.s3a.endpoint", …), for this scan alone."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Write these rows as new data files of the table; nothing is committed."""

    table_root: str
    frame: DataFrame
    """Its columns are exactly those of `schema`: same order, logical names, same types."""
    schema: StructType
    partition_columns: tuple[str, ...]
    column_mapping: ColumnMappingMode
    properties: TableProperties
    """Which columns get statistics, random file prefixes, compression."""
    max_records_per_file: int | None = None
    options: Sequence[tuple[str, str]] = ()
    """Further Parquet writer options, such as ("compression", "zstd"), and settings of the file system."""
    open_file: Callable[[str], pa.NativeFile] | None = None
    """Opens a file of the table by its relative, plain path, for its footer; by default from disk or through Hadoop."""
    directory: str = ""
    """A folder of the table below which the files go; the table's own by default."""
    partition_values: Mapping[str, str | None] | None = None
    """The one partition that all rows belong to: by physical names, in the form of the log. Then `schema` is that of
    the files (`stored_fields`), and these hold the rows in the order in which the frame has them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Data files that are complete and durable, as `add` actions with `data_change=True` and statistics."""

    adds: tuple[AddFile, ...]
    num_rows: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """Write the rows that these files show into one new file, in an order that is known; nothing is committed."""

    scan: ScanRequest
    """Its files lie in one partition."""
    row_counts: Sequence[int] | None
    """Rows of each file, hidden ones included; None where the log does not say so of all."""
    properties: TableProperties
    row_tracking: RowTrackingColumns | None = None
    """Columns at the end of the scan's schema, in which rows keep their ids."""
    options: Sequence[tuple[str, str]] = ()
    """Further Parquet writer options, and settings of the file system."""
    open_file: Callable[[str], pa.NativeFile] | None = None
    """As in `WriteRequest`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """The file that was written, none where no row was left, and whose rows stand in it where."""

    written: WrittenFiles
    order: tuple[int, ...]
    """The files of the request as their rows follow each other; those of one file are in ascending order."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Match:
    """Rows of other tables, which stand still, and when one of them belongs to a row of ours."""

    rows: DataFrame
    condition: Column


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnRead:
    """A read of the table that rows are written to: they depend on no row of it that `ask` would leave out."""

    predicate: Predicate
    """In logical names. True for every row on which they depend, maybe for more."""
    row_by_row: bool = False
    """Whether single rows can be asked. Where not, files must tell, as where a query counts rows or takes the first of
    them.
    """
    condition: Column | None = None
    """On rows that `names` has renamed."""
    matches: tuple[Match, ...] = ()
    """The query joins the table with these, and depends on no row to which none of theirs belongs."""
    names: RowNames = None

    @property
    def narrows(self) -> bool:
        """Whether anything is asked of a row."""
        return self.row_by_row and (self.condition is not None or bool(self.matches))

    def ask(self, frame: DataFrame) -> DataFrame:
        """Those of the rows, renamed, on which the written rows depend."""
        if self.condition is not None:
            frame = frame.where(self.condition)
        for match in self.matches:
            frame = frame.join(match.rows, match.condition, "left_semi")
        return frame
