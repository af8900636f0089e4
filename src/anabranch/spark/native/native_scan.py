"""Reads data files as rows of the table, by Spark's own Parquet reader.

Its planner calls Python for the files to read and their hidden rows.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from anabranch.arrow_pool import release_unused
from anabranch.deletion_vectors.vector_reading import LoadVectors
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import Predicate, conjunction, with_physical_columns
from anabranch.protocol.data_paths import file_root
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name, physical_paths
from anabranch.schema.logical_types import without_void
from anabranch.schema.names import SPARK_ROW_INDEX
from anabranch.schema.schema_evolution import visible_schema
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, ScanRequest
from anabranch.spark.gateway.jvm_classes import JvmValues, joined_map
from anabranch.spark.gateway.jvm_sessions import zones_of
from anabranch.spark.gateway.python_errors import throwable
from anabranch.spark.native.plan_reading import description_of
from anabranch.spark.rows.file_listing import (
    FileListCache,
    FileListing,
    files_at,
    filter_options,
    listing_of,
    naming_bad_values,
)
from anabranch.spark.rows.hidden_rows import (
    CHUNK_BITS,
    HIDDEN_TABLE_COLUMNS,
    encode,
    load_hidden,
    without_hidden_rows,
)
from anabranch.spark.write.file_schema import column_with_void

logger = logging.getLogger("anabranch.spark")


class ScanReader:
    """Receives the calls of `ListedFiles`, the Java side of a scan, on any thread.

    The JVM keeps this object alive while a plan refers to it.
    """

    def __init__(
        self,
        *,
        rows: Callable[[npt.NDArray[np.integer]], pa.Table],
        jvm: Any,
        prune: Callable[[Predicate], FileMask] | None,
        load_vectors: LoadVectors,
    ) -> None:
        self._rows = rows
        self._jvm = jvm
        self._prune = prune
        self._load_vectors = load_vectors

    def apply(self, method: str, argument: str | bytes | bytearray) -> Any:
        """The method of `java.util.function.BiFunction`. An error is returned as a Throwable."""
        try:
            if method == "prune":
                return self.files_to_read(str(argument))
            assert isinstance(argument, bytes | bytearray), method
            return self.hidden_rows(np.frombuffer(argument, dtype="<i4"))
        except BaseException as error:
            # The thread of the JVM waits for a result, and must get one for any exception.
            return throwable(self._jvm.delta, error)

    def files_to_read(self, filters: str) -> bytes | None:
        """A byte for each file, 1 for those to read; None for all files.

        `filters` are JSON texts, each with NUL at its end; a filter that Spark cannot write as JSON is an empty text.
        """
        assert self._prune is not None, "a scan of all files has nothing to ask"
        conditions = filters.split("\0")[:-1]
        try:
            zones = zones_of(self._jvm.anabranch)
            predicate = conjunction(from_catalyst(text, zones=zones) for text in conditions)
            return self._prune(predicate).astype(np.uint8).tobytes()
        except DeltaError:
            raise
        except Exception:
            # Skipping only saves work. A mistake in it must neither lose rows nor stop a query.
            logger.exception("Data skipping failed; all files are read")
            return None

    def hidden_rows(self, file_ids: npt.NDArray[np.int32]) -> bytes:
        """The hidden rows of those files: all lengths, then all tables of `hidden_rows.encode`."""
        loaded = load_hidden(self._rows(file_ids), self._load_vectors)
        encoded = [encode(vector) for vector in loaded]
        return b"".join((struct.pack(f"<{len(encoded)}i", *map(len, encoded)), *encoded))

    class Java:
        implements = ("java.util.function.BiFunction",)


MANY_FILES = 65_536
HIDDEN_ROWS_COLUMN = "__anabranch_hidden_rows"
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""A missing or damaged live file is an error, for any settings of the session."""
_COLON_IN_NAME = r"(:|%3[Aa])[^/]*$"
_RAW_LOCAL = "org.apache.hadoop.fs.RawLocalFileSystem"
_identities = itertools.count()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The columns that one scan reads, and how it leaves hidden rows out."""

    read_schema: StructType
    """The table's schema without columns that files never have."""
    partition_fields: StructType
    has_vectors: bool
    columnar: bool
    """Whether Spark reads all columns in batches, and filters rows without copying them."""
    with_positions: bool
    with_metadata: bool

    @property
    def with_row_index(self) -> bool:
        """Whether the reader's row index is a column of the scan.

        In `_metadata` it costs more, as Spark makes a struct for each row. Spark refuses to read both in one scan.
        """
        return (self.has_vectors or self.with_positions) and not self.with_metadata

    @property
    def data_schema(self) -> StructType:
        """The table's columns as users see them, and the row index."""
        visible = visible_schema(self.read_schema)
        if not self.with_row_index:
            return visible
        return StructType([*visible.fields, StructField(SPARK_ROW_INDEX, LongType())])

    @property
    def hides_by_constant(self) -> bool:
        return self.has_vectors and self.columnar

    @property
    def with_file_id(self) -> bool:
        return self.with_positions or (self.has_vectors and not self.columnar)

    @property
    def partition_schema(self) -> StructType:
        """The partition columns, and our own columns, which users do not see."""
        fields = list(self.partition_fields.fields)
        if self.with_file_id:
            fields.append(StructField(FILE_ID_COLUMN, IntegerType()))
        if self.hides_by_constant:
            fields.append(StructField(HIDDEN_ROWS_COLUMN, BinaryType()))
        return StructType(fields)


class NativeScan:
    """Makes the scans of one session."""

    def __init__(self, spark: SparkSession, values: JvmValues) -> None:
        self._spark = spark
        self._values = values
        self._file_lists = FileListCache(values)

    def frame(
        self,
        request: ScanRequest,
        *,
        reader_session: Any = None,
        passing: Callable[[DataFrame], DataFrame] | None = None,
    ) -> DataFrame:
        """The rows of the files.

        Settings of `reader_session` decide how files are assigned to tasks. `passing` is applied to all rows, before
        hidden ones are left out; it must keep all columns.
        """
        layout = self._layout(request)
        frame = DataFrame(self._all_rows(request, layout, reader_session or self._values.session), self._spark)
        if passing is not None:
            frame = passing(frame)
        return _finished(self._live_rows(frame, request, layout), request, layout)

    def _layout(self, request: ScanRequest) -> _Layout:
        read_schema = without_void(request.schema)
        partition_fields = StructType([read_schema[name] for name in request.partition_columns])
        vectors = request.files["deletion_vector"]
        layout = _Layout(
            read_schema=read_schema,
            partition_fields=visible_schema(partition_fields),
            has_vectors=vectors.null_count < len(vectors),
            columnar=True,
            with_positions=request.with_positions,
            with_metadata=request.with_metadata,
        )
        return dataclasses.replace(layout, columnar=self._is_columnar(layout)) if layout.has_vectors else layout

    def _is_columnar(self, layout: _Layout) -> bool:
        """Whether rows with all columns pass from the reader to a filter without being copied."""
        schema = self._values.type(layout.read_schema)
        return bool(self._values.anabranch.FileScans.isColumnar(self._values.session, schema))

    def _reader(self, request: ScanRequest) -> ScanReader:
        return ScanReader(
            rows=functools.partial(files_at, request),
            jvm=self._values.jvm,
            prune=None if request.prune is None else _by_logical_names(request.prune, request),
            load_vectors=request.load_vectors,
        )

    def _files(self, request: ScanRequest, layout: _Layout) -> Any:
        time_zone = self._values.setting("spark.sql.session.timeZone")
        variant = "\n".join((request.table_root, layout.partition_fields.json(), time_zone, *request.allowed_prefixes))
        file_list = self._file_lists.cached(request.files, variant)
        if file_list is not None:
            return file_list
        listing = self._listing(request)
        with naming_bad_values(listing, layout.partition_fields.fields, table=request.table_root):
            file_list = self._file_lists.list_of(
                request.files,
                variant,
                listing,
                root=file_root(request.table_root),
                group_schema=layout.partition_fields,
                time_zone=time_zone,
            )
        if listing.count >= MANY_FILES:
            # The names take as much memory as all columns of the files, and a plan is next.
            del listing
            release_unused()
        return file_list

    def _listing(self, request: ScanRequest) -> FileListing:
        return listing_of(
            request.files,
            table_root=request.table_root,
            physical_partition_columns=[
                physical_name(request.schema[name], request.column_mapping) for name in request.partition_columns
            ],
            allowed_prefixes=request.allowed_prefixes,
        )

    def _all_rows(self, request: ScanRequest, layout: _Layout, settings: Any) -> Any:
        """The rows of the files, hidden ones too, with the columns of the layout, as a Dataset of the JVM."""
        options = {
            **dict(request.options),
            **_STRICT,
            **filter_options(request.schema),
            **_file_system_options(request),
        }
        return self._values.anabranch.FileScans.frame(
            self._values.session,
            self._files(request, layout),
            _identity(request),
            description_of(request.version, request.table_root),
            self._values.type(layout.partition_schema),
            layout.with_file_id,
            layout.hides_by_constant,
            self._reader(request),
            request.prune is not None,
            self._values.type(layout.data_schema),
            joined_map(options),
            self._values.type(layout.read_schema) if request.column_mapping.maps else None,
            request.column_mapping is ColumnMappingMode.ID,
            settings,
        )

    def _live_rows(self, frame: DataFrame, request: ScanRequest, layout: _Layout) -> DataFrame:
        """The rows that no vector hides. Without vectors the frame is returned as it is."""
        if layout.hides_by_constant:
            rows: Any = frame._jdf
            index = SPARK_ROW_INDEX if layout.with_row_index else None
            live = self._values.anabranch.HiddenRowsFilter.of(
                rows, HIDDEN_ROWS_COLUMN, index, CHUNK_BITS, request.vectors_show
            )
            frame = DataFrame(live, self._spark)
        elif layout.has_vectors:
            # The join needs the vectors before the plan prunes files, so all are loaded: a cost of very wide tables.
            vectors = request.files["deletion_vector"]
            rows = np.flatnonzero(vectors.is_valid().to_numpy())
            loaded = load_hidden(files_at(request, rows), request.load_vectors)
            numbered = list(zip(rows.tolist(), loaded, strict=True))
            if not layout.with_row_index:
                # Spark 4.0 cannot join with a condition on a metadata column.
                frame = frame.withColumn(ROW_INDEX_COLUMN, row_index(frame))
            frame = without_hidden_rows(
                self._spark,
                frame,
                numbered,
                frame[FILE_ID_COLUMN],
                row_index(frame),
                shown=request.vectors_show,
            )
        return frame


def _finished(frame: DataFrame, request: ScanRequest, layout: _Layout) -> DataFrame:
    """The columns of the table in their order; our own columns are last, or left out."""
    if request.with_metadata or layout.read_schema.names != request.schema.names:
        columns = [column_with_void(frame, field.name, field.dataType) for field in request.schema]
        if layout.with_positions:
            columns += [row_index(frame).alias(ROW_INDEX_COLUMN), frame[FILE_ID_COLUMN]]
        return frame.select(*columns, *([frame.metadataColumn("_metadata")] if request.with_metadata else []))
    if not layout.with_positions and not layout.has_vectors:
        return frame
    dropped = [HIDDEN_ROWS_COLUMN, *HIDDEN_TABLE_COLUMNS]
    if not layout.with_positions:
        dropped += [SPARK_ROW_INDEX, FILE_ID_COLUMN]
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.anabranch.FileScans.finished(frame._jdf, "\0".join(dropped), SPARK_ROW_INDEX, ROW_INDEX_COLUMN)
    return DataFrame(rows, frame.sparkSession)


def _by_logical_names(prune: Callable[[Predicate], FileMask], request: ScanRequest) -> Callable[[Predicate], FileMask]:
    physical = physical_paths(request.schema, request.column_mapping)
    return lambda predicate: prune(with_physical_columns(predicate, physical))


def _file_system_options(request: ScanRequest) -> dict[str, str]:
    """Options for names with a colon: Hadoop's local file system fails on them, as it looks for a checksum file."""
    if (
        request.table_root.startswith("/")
        and pc.any(pc.match_substring_regex(request.files["path"], _COLON_IN_NAME)).as_py()
    ):
        return {"fs.file.impl": _RAW_LOCAL, "fs.file.impl.disable.cache": "true"}
    return {}


def row_index(frame: DataFrame) -> Column:
    """The position of each row in its file, for a frame directly over files."""
    for name in (ROW_INDEX_COLUMN, SPARK_ROW_INDEX):
        if name in frame.columns:
            return frame[name]
    return frame.metadataColumn("_metadata").getField("row_index")


def _identity(request: ScanRequest) -> str:
    """A text that is equal for scans that Spark may use for each other. A tracked scan has one of its own."""
    if request.tracked:
        return f"\n{next(_identities)}"
    shown = " shown" if request.vectors_show else ""
    return f"\n{request.schema.json()}{request.column_mapping.value}{shown}"
