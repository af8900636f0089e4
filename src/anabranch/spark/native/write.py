"""Writing rows as data files, by Spark's own Parquet writer: each file once, straight to its final place."""

from __future__ import annotations

import secrets
import shutil
import string
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import BinaryType, StructType

from anabranch.protocol.hive_paths import partition_path
from anabranch.schema.void import check_writable, without_void
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.file_listing import file_root
from anabranch.spark.file_schema import stored_schema
from anabranch.spark.native.driver_classes import DriverClasses, object_array
from anabranch.spark.native.jvm_values import JvmValues
from anabranch.spark.void_columns import dropped_void, quoted_name
from anabranch.spark.written_files import OpenFile, completed, manifest_entries
from anabranch.storage.hadoop import HadoopSession, HadoopStore

_WRITER_SETTINGS = {
    # INT96, Spark's default for timestamps, has no statistics and is deprecated by the Parquet format.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # Readers of a table without the feature variantShredding need not know shredded variants.
    "spark.sql.variant.inferShreddingSchema": "false",
    # The manifest of the one batch then has its plain name.
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
}
_READ_BY_EXECUTORS = ("spark.sql.parquet.datetimeRebaseModeInWrite",)
_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_BATCH = 0


class NativeWrite:
    """Writes of one session."""

    def __init__(self, values: JvmValues, driver: DriverClasses | None) -> None:
        self._values = values
        self._driver = driver

    def files(self, request: WriteRequest) -> WrittenFiles:
        """Run the frame and write its rows; see `Engine.write`."""
        check_writable(request.schema, table=request.table_root)
        schema = without_void(request.schema)
        scratch = Path(tempfile.mkdtemp(prefix="anabranch-write-"))
        try:
            self._run(_writable(request, schema), request, schema, scratch)
            entries = manifest_entries(scratch / "log" / str(_BATCH))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return completed(request, entries, request.open_file or self._opener(request))

    def _opener(self, request: WriteRequest) -> OpenFile:
        """For footers: from local disk, or through Hadoop, which wrote the files."""
        root = request.table_root.rstrip("/")
        if root.startswith("/"):
            return lambda path: pa.OSFile(f"{root}/{path}")
        options = self._values.string_map(dict(request.options))
        configuration = self._values.session.sessionState().newHadoopConfWithOptions(options)
        return HadoopStore(root, HadoopSession(gateway=self._values.gateway, configuration=configuration)).open

    def _run(self, frame: DataFrame, request: WriteRequest, schema: StructType, scratch: Path) -> None:
        """Run Spark's write job. If it fails, Spark removes the files it wrote, and only those."""
        values, classes = self._values, self._values.classes
        writer_session = values.session.cloneSession()
        for key, value in _WRITER_SETTINGS.items():
            writer_session.conf().set(key, value)
        execution = frame._jdf.queryExecution()
        plan = execution.executedPlan()
        columns = self._output(plan, request, schema)
        partitions = [columns[schema.names.index(name)] for name in request.partition_columns]
        root = _output_root(request)
        sink_log = classes.FileStreamSinkLog(1, writer_session, f"{scratch.as_uri()}/log", values.none())
        committer = classes.ManifestFileCommitProtocol(str(uuid.uuid4()), root)
        committer.setupManifestOptions(sink_log, _BATCH)
        options = values.string_map(_writer_options(request))
        arguments = (
            writer_session,
            plan,
            classes.ParquetFileFormat(),
            committer,
            classes.OutputSpec(root, values.string_map({}), values.seq(columns)),
            writer_session.sessionState().newHadoopConfWithOptions(options),
            values.seq(partitions),
            values.none(),
            values.seq(()),
            options,
            0,
            *_later_arguments(classes.FileFormatWriter),
        )
        self._execute(execution, arguments)

    def _output(self, plan: Any, request: WriteRequest, schema: StructType) -> list[Any]:
        """The columns of the plan under the names, types and ids that the files get. Nothing is computed anew."""
        output = plan.output()
        stored = stored_schema(schema, request.column_mapping)
        columns = []
        for i, field in enumerate(stored):
            attribute = output.apply(i).withName(field.name).withNullability(True)
            if not _is_hex(request, schema.names[i], schema):
                attribute = attribute.withDataType(self._values.type(field.dataType))
            metadata = self._values.type(StructType([field])).apply(0).metadata()
            columns.append(attribute.withMetadata(metadata))
        return columns

    def _execute(self, execution: Any, arguments: tuple[Any, ...]) -> None:
        values, classes = self._values, self._values.classes
        if self._driver is None:
            classes.FileFormatWriter.write(*arguments)
            return
        settings = values.string_array(text for key in _READ_BY_EXECUTORS for text in (key, _WRITER_SETTINGS[key]))
        body = self._driver.new(
            "QueryBody",
            values.session.sparkContext(),
            settings,
            classes.java_class("FileFormatWriter"),
            "write",
            object_array(values.gateway, arguments),
        )
        classes.SQLExecution.withNewExecutionId(execution, values.some("anabranch write"), body)


def _later_arguments(writer: Any) -> tuple[Any, ...]:
    """What `FileFormatWriter.write` takes besides since Spark 4.3: nothing to run."""
    try:
        return (getattr(writer, "write$default$12")(),)
    except Py4JError:
        return ()


def _writable(request: WriteRequest, schema: StructType) -> DataFrame:
    """The frame as it is written: without void, and with binary partition values as digits, which paths can hold."""
    if schema == request.schema and not any(_is_hex(request, name, schema) for name in request.partition_columns):
        return request.frame
    columns = []
    for field in schema:
        column = request.frame[quoted_name(field.name)]
        if isinstance(field.dataType, StructType) and request.schema[field.name].dataType != field.dataType:
            column = dropped_void(column, field.dataType)
        columns.append((F.hex(column) if _is_hex(request, field.name, schema) else column).alias(field.name))
    return request.frame.select(*columns)


def _is_hex(request: WriteRequest, name: str, schema: StructType) -> bool:
    return name in request.partition_columns and isinstance(schema[name].dataType, BinaryType)


def _output_root(request: WriteRequest) -> str:
    root = file_root(request.table_root)
    if not request.properties.randomize_file_prefixes:
        directory = partition_path(request.partition_values or {})
        return f"{root}/{directory}" if directory else root
    # One prefix a write: Spark's commit protocol knows of none for each file.
    length = request.properties.random_prefix_length
    return f"{root}/{''.join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(length))}"


def _writer_options(request: WriteRequest) -> dict[str, str]:
    options = {**dict(request.options), "timeZone": "UTC"}
    if request.properties.compression_codec is not None:
        options.setdefault("compression", request.properties.compression_codec)
    if request.max_records_per_file is not None:
        options["maxRecordsPerFile"] = str(request.max_records_per_file)
    return options
