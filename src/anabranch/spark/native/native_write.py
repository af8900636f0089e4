"""Writes rows as data files, by Spark's own Parquet writer: each file once, directly at its final path."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
import string
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from anabranch.errors.environment import StorageError
from anabranch.errors.maintenance import RowOrderError
from anabranch.protocol.data_paths import file_root, partition_path
from anabranch.schema.column_mapping import ColumnMappingMode, nested_ids, physical_name
from anabranch.schema.logical_types import check_storable, without_void
from anabranch.schema.paths import ELEMENT, KEY, VALUE, quote
from anabranch.spark.engine import FILE_ID_COLUMN, RewriteRequest, RewrittenFile, WriteRequest, WrittenFiles
from anabranch.spark.gateway.jvm_classes import JvmValues, joined_map
from anabranch.spark.native.native_scan import NativeScan, row_index
from anabranch.spark.native.row_groups import can_be_joined, joined
from anabranch.spark.rows.row_tracking import with_stable_ids
from anabranch.spark.write.file_schema import (
    dropped_void,
    stored_fields,
    stored_partitions,
    stored_schema,
    with_partition_values,
)
from anabranch.spark.write.rewrite_request import (
    ReadingPlan,
    checked_rewrite,
    reading_plan,
    stored_columns,
    tasks_of_one_file,
    write_request,
)
from anabranch.spark.write.row_checks import refuse_when, typed_violations
from anabranch.spark.write.written_files import ManifestEntry, OpenFile, completed, entries_of_text, manifest_entries
from anabranch.storage.hadoop.hadoop_store import HadoopSession, HadoopStore
from anabranch.storage.log_store import redact

SCRATCH_PREFIX = "anabranch-write-"
"""The prefix of folders in which Spark lists the files of a write, in Python's folder for temporary files."""
_WRITER_SETTINGS = {
    # INT96, Spark's default for timestamps, has no statistics and is deprecated by the Parquet format.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # With it the manifest of the only batch has its plain name.
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
}
_READ_BY_EXECUTORS = ("spark.sql.parquet.datetimeRebaseModeInWrite",)
_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_BATCH = 0
_STEP, _NEXT = "\1", "\2"
"""Separators of the names of a path in a file, and of paths and numbers."""
_DIRECTORY = "__anabranch_directory_"


class NativeWrite:
    """Makes the writes of one session."""

    def __init__(self, values: JvmValues) -> None:
        self._values = values

    def files(self, request: WriteRequest) -> WrittenFiles:
        """Runs the frame and writes its rows; rows that the driver already has are written without a job, if few."""
        check_storable(request.schema, table=request.table_root)
        schema = without_void(request.schema)
        frame = _writable(request, schema)
        with self._storage_errors(request):
            entries = self._written(frame, request, schema)
            if request.one_file and len(entries) > 1:
                entries = [joined(self._values, entries, _writer_options(request))]
        return completed(request, entries, request.open_file or self._opener(request))

    def _opener(self, request: WriteRequest) -> OpenFile:
        """A function that opens files for their footers: from local disk, or through Hadoop, which wrote them."""
        root = request.table_root.rstrip("/")
        if root.startswith("/"):
            return lambda path: pa.OSFile(f"{root}/{path}")
        options = self._values.string_map(dict(request.options))
        configuration = self._values.session.sessionState().newHadoopConfWithOptions(options)
        return HadoopStore(root, HadoopSession(gateway=self._values.gateway, configuration=configuration)).open

    def _written(self, frame: DataFrame, request: WriteRequest, schema: StructType) -> Sequence[ManifestEntry]:
        """Runs Spark's writer. If it fails, it removes the files that it wrote, and no others."""
        values, classes = self._values, self._values.classes
        # Readers must support shredded variants only for tables with the feature variantShredding. Spark has it since
        # 4.1.
        shreds = "true" if request.properties.variant_shredding_enabled else "false"
        settings = {
            **_WRITER_SETTINGS,
            "spark.sql.variant.inferShreddingSchema": shreds,
            # Spark's default for local disks starts a process for every link that it checks: 40 ms a write.
            "spark.sql.streaming.checkpointFileManagerClass": classes.full_name("CheckpointFileManager"),
        }
        session = values.anabranch.FileWriteArguments.session(values.session, joined_map(settings))
        execution = frame._jdf.queryExecution()
        plan = execution.executedPlan()
        output = plan.output()
        columns = self._columns(output, request, schema)
        partitions = self._directories(output, request, schema, columns)
        ids = _nested_ids(request.schema, request.column_mapping) if request.column_mapping.maps else ""
        if ids:
            values.anabranch.NestedIdsParquet.ship(values.context)
        root = _output_root(request)
        committer = classes.ManifestFileCommitProtocol(str(uuid.uuid4()), root)
        options = values.string_map(_writer_options(request))
        write = values.anabranch.FileWrite(
            session,
            plan,
            values.anabranch.NestedIdsParquet(ids) if ids else classes.ParquetFileFormat(),
            committer,
            root,
            values.anabranch.FileWriteArguments.eachOnce(columns, partitions),
            session.sessionState().newHadoopConfWithOptions(options),
            partitions,
            options,
        )
        in_driver = write.inDriver()
        if in_driver is not None:
            return entries_of_text(in_driver)
        return self._written_by_job(write, committer, session, execution)

    def _written_by_job(self, write: Any, committer: Any, session: Any, execution: Any) -> Sequence[ManifestEntry]:
        """Runs a write job, which lists its files in a manifest."""
        values, classes = self._values, self._values.classes
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        try:
            sink_log = classes.FileStreamSinkLog(1, session, f"{scratch.as_uri()}/log", values.none())
            committer.setupManifestOptions(sink_log, _BATCH)
            body = write.job(
                values.context,
                joined_map({key: _WRITER_SETTINGS[key] for key in _READ_BY_EXECUTORS}),
                classes.java_class("FileFormatWriter"),
                _later_argument(classes.FileFormatWriter),
            )
            classes.SQLExecution.withNewExecutionId(execution, values.some("anabranch write"), body)
            return manifest_entries(scratch / "log" / str(_BATCH))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def _storage_errors(self, request: WriteRequest) -> Iterator[None]:
        """A block in which an error of the storage that Spark writes to raises `StorageError`."""
        try:
            yield
        except Py4JJavaError as failure:
            cause = self._values.jvm.delta.DeltaError.unwritten(failure.java_exception)
            if cause is None:
                raise
            error = StorageError(root=request.table_root, path="", doing="write data files to", cause=redact(cause))
            raise error from failure

    def _columns(self, output: Any, request: WriteRequest, schema: StructType) -> Any:
        """The columns of the plan as the files have them, as a Seq of attributes."""
        listed = _listed(request, schema)
        stored = stored_schema(listed, request.column_mapping)
        names = () if _stores_partitions(request) else request.partition_columns
        in_hex = {name for name in names if _is_hex(request, name, schema)}
        flags = "".join(["0" if name in in_hex else "1" for name in listed.names])
        return self._values.anabranch.FileWriteArguments.columns(output, self._values.type(stored), flags)

    def _directories(self, output: Any, request: WriteRequest, schema: StructType, columns: Any) -> Any:
        """The columns of the output whose values name the directories of the files."""
        names = request.partition_columns
        writes = self._values.anabranch.FileWriteArguments
        if not _stores_partitions(request):
            return writes.chosen(columns, " ".join(str(schema.names.index(name)) for name in names))
        if request.partition_values is not None:
            return self._values.seq(())
        physical = [physical_name(schema[name], request.column_mapping) for name in names]
        return writes.named(output, len(schema), "\0".join(physical))


def _later_argument(writer: Any) -> Any | None:
    """The additional argument of `FileFormatWriter.write` since Spark 4.3, its default; None before."""
    try:
        return getattr(writer, "write$default$12")()
    except Py4JError:
        return None


def _writable(request: WriteRequest, schema: StructType) -> DataFrame:
    """The frame to write: without void columns, and with binary partition values as hexadecimal digits, for paths."""
    if _stores_partitions(request):
        return _with_directories(request, schema)
    if schema == request.schema and not any(_is_hex(request, name, schema) for name in request.partition_columns):
        return request.frame
    columns = []
    for field in schema:
        column = request.frame[quote(field.name)]
        if isinstance(field.dataType, StructType) and request.schema[field.name].dataType != field.dataType:
            column = dropped_void(column, field.dataType)
        columns.append((F.hex(column) if _is_hex(request, field.name, schema) else column).alias(field.name))
    return request.frame.select(*columns)


def _with_directories(request: WriteRequest, schema: StructType) -> DataFrame:
    """The columns in the order of the files, and after them the partition columns again, to name directories by."""
    listed = _listed(request, schema)
    frame = with_partition_values(request.frame, request.schema, request.partition_columns)
    stored = [frame[quote(name)] for name in listed.names]
    if request.partition_values is not None:
        return frame.select(*stored)
    directories = [
        (F.hex(frame[quote(name)]) if _is_hex(request, name, schema) else frame[quote(name)]).alias(f"{_DIRECTORY}{i}")
        for i, name in enumerate(request.partition_columns)
    ]
    return frame.select(*stored, *directories)


def _listed(request: WriteRequest, schema: StructType) -> StructType:
    """The columns in the order in which the writer gets them."""
    if not _stores_partitions(request):
        return schema
    return stored_fields(schema, request.partition_columns, request.properties)


def _stores_partitions(request: WriteRequest) -> bool:
    return bool(stored_partitions(request.partition_columns, request.properties))


def _nested_ids(schema: StructType, mode: ColumnMappingMode) -> str:
    """The field ids of elements, keys and values in the files, as `NumberedSupport` reads them; empty without any."""
    numbered = _ids_in(schema, mode, below="")
    return _NEXT.join(text for path, number in numbered for text in (path, str(number)))


def _ids_in(schema: StructType, mode: ColumnMappingMode, *, below: str) -> Iterator[tuple[str, int]]:
    for field in schema.fields:
        name = physical_name(field, mode)
        yield from _ids_of(field.dataType, nested_ids(field), mode, called=name, path=f"{below}{name}")


def _ids_of(
    kind: DataType, ids: Mapping[str, int], mode: ColumnMappingMode, *, called: str, path: str
) -> Iterator[tuple[str, int]]:
    """The ids in a field's type; `called` is its name in the log's nested ids, `path` its path in a file."""
    if isinstance(kind, StructType):
        yield from _ids_in(kind, mode, below=f"{path}{_STEP}")
    parts: list[tuple[str, str, DataType]] = []
    if isinstance(kind, ArrayType):
        parts = [("list", ELEMENT, kind.elementType)]
    elif isinstance(kind, MapType):
        parts = [("key_value", KEY, kind.keyType), ("key_value", VALUE, kind.valueType)]
    for group, part, inner in parts:
        name, inner_path = f"{called}.{part}", _STEP.join((path, group, part))
        if name in ids:
            yield inner_path, ids[name]
        yield from _ids_of(inner, ids, mode, called=name, path=inner_path)


def _is_hex(request: WriteRequest, name: str, schema: StructType) -> bool:
    return name in request.partition_columns and isinstance(schema[name].dataType, BinaryType)


def _output_root(request: WriteRequest) -> str:
    root = "/".join(filter(None, (file_root(request.table_root), request.directory)))
    if not request.properties.randomize_file_prefixes:
        directory = partition_path(request.partition_values or {})
        return f"{root}/{directory}" if directory else root
    # One prefix for the write: Spark's commit protocol cannot use one for each file.
    length = request.properties.random_prefix_length
    return f"{root}/{''.join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(length))}"


def _writer_options(request: WriteRequest) -> dict[str, str]:
    options = {**dict(request.options), "timeZone": "UTC"}
    if request.properties.compression_codec is not None:
        options.setdefault("compression", request.properties.compression_codec)
    if request.properties.writes_parquet_v2:
        options.setdefault("parquet.writer.version", "v2")
    if request.max_records_per_file is not None:
        options["maxRecordsPerFile"] = str(request.max_records_per_file)
    return options


_READ_AS_PLANNED = {
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
    "spark.sql.files.openCostInBytes": "0",
}


class NativeRewrite:
    """Rewrites files in a known order by Spark's own reader and writer, without a shuffle or a sort.

    Spark assigns files to tasks largest first, and otherwise in the order of the list. A task reads one file after the
    other from the beginning, and writes rows in that order. This is checked for every row. What several tasks have
    written is put together by its row groups: to encode rows takes the longest, and uses one core for each task.
    """

    def __init__(self, values: JvmValues, scan: NativeScan, write: NativeWrite) -> None:
        self._values = values
        self._scan = scan
        self._write = write

    def file(self, request: RewriteRequest) -> RewrittenFile:
        """Reads files and writes their rows to one."""
        # Without row counts the order of several tasks could not be checked.
        reading = reading_plan(request, 1 if request.row_counts is None else self.tasks_of_one_file(request))
        scan = dataclasses.replace(
            request.scan,
            with_positions=True,
            # Cached rows of the same files could be used instead, and have another order.
            tracked=True,
            prune=None,
        )

        def in_order(frame: DataFrame) -> DataFrame:
            return frame if request.row_counts is None else frame.where(_is_in_order(request, reading, frame))

        frame = self._scan.frame(scan, reader_session=self._reader_session(reading), passing=in_order)
        frame = with_stable_ids(frame, request.scan.files, request.row_tracking)
        stored = frame.select(*(frame[quote(field.name)] for field in stored_columns(request)))
        with typed_violations():
            one_file = len(reading.tasks) > 1
            written = self._write.files(dataclasses.replace(write_request(request, stored), one_file=one_file))
        return RewrittenFile(written=checked_rewrite(request, written), order=reading.order)

    def tasks_of_one_file(self, request: RewriteRequest) -> int:
        """How many tasks may write the rows of the request to one file."""
        tasks = tasks_of_one_file(request)
        return tasks if tasks == 1 or can_be_joined(self._values) else 1

    def _reader_session(self, reading: ReadingPlan) -> Any:
        settings = {**_READ_AS_PLANNED, "spark.sql.files.maxPartitionBytes": str(reading.bytes_max)}
        return self._values.anabranch.FileWriteArguments.session(self._values.session, joined_map(settings))


def _is_in_order(request: RewriteRequest, reading: ReadingPlan, frame: DataFrame) -> Column:
    """True, or the job fails: a row's number in the task must be that of its file's first row plus its position."""
    assert request.row_counts is not None
    starts = ",".join(map(str, reading.first_rows(request.row_counts).tolist()))
    # Constants are folded, so this is one array for any number of files.
    start = F.get(F.split(F.lit(starts), ",").cast("array<bigint>"), frame[FILE_ID_COLUMN])
    misplaced = F.monotonically_increasing_id() != start + row_index(frame)
    facts = {"table": request.scan.table_root, "problem": "a row was read out of order"}
    return refuse_when(misplaced, F.lit(True), RowOrderError, facts, shown={"file": frame[FILE_ID_COLUMN]})
