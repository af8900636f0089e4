"""Writing rows as data files, by Python workers and `mapInArrow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.arguments import InvalidOptionError
from anabranch.protocol.actions import AddFile, insertion_tag
from anabranch.protocol.iceberg_compat import file_tags
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.stats_columns import indexed_columns
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.logical_types import check_writable, without_void
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.portable.arrow_types import file_schema
from anabranch.spark.portable.data_file_reading import storage_options
from anabranch.spark.portable.file_table import column
from anabranch.spark.portable.write_task import WriteTask
from anabranch.spark.write.file_schema import dropped_void, stored_fields

ADD_COLUMNS = (
    "path string, partition_values map<string, string>, size long, modification_time long, num_rows long, stats string"
)
"""What a write task gives back, as Spark spells types; `WRITTEN_FILES` to Arrow."""
_CODEC_SETTING = "spark.sql.parquet.compression.codec"
_CODECS = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "lz4raw": "lz4",
}


def write_files(spark: SparkSession, request: WriteRequest) -> WrittenFiles:
    """Run the frame and write its rows; see `Engine.write`."""
    check_writable(request.schema, table=request.table_root)
    schema = without_void(request.schema)
    frame = _without_void(request.frame, request.schema, schema)
    # `mapInArrow` takes a dot in a name for a step into a struct; the task goes by position.
    frame = frame.toDF(*map(_plain_name, range(len(schema))))
    if request.partition_columns and request.partition_values is None:
        # One file is open at a time, so that memory does not grow with the number of partitions.
        frame = frame.sortWithinPartitions(
            *(_plain_name(schema.names.index(name)) for name in request.partition_columns)
        )
    task = write_task(
        table_root=request.table_root,
        schema=schema,
        partition_columns=request.partition_columns,
        column_mapping=request.column_mapping,
        properties=request.properties,
        file_system=storage_options(spark, request.table_root, request.options),
        options=request.options,
        codec=session_codec(spark),
        max_records_per_file=request.max_records_per_file,
        partition_values=request.partition_values,
        directory=request.directory,
    )
    written = frame.mapInArrow(task, ADD_COLUMNS).toArrow()
    adds = sorted(adds_of(written, tags=task.tags), key=lambda add: add.path)
    return WrittenFiles(
        adds=tuple(adds),
        num_rows=sum(written["num_rows"].to_pylist()),
        size_bytes=sum(add.size for add in adds),
    )


def write_task(
    *,
    table_root: str,
    schema: StructType,
    partition_columns: Sequence[str],
    column_mapping: ColumnMappingMode,
    properties: TableProperties,
    file_system: Mapping[str, str],
    options: Sequence[tuple[str, str]] = (),
    codec: str | None = None,
    max_records_per_file: int | None = None,
    open_files_max: int = 1,
    partition_values: Mapping[str, str | None] | None = None,
    directory: str = "",
) -> WriteTask:
    """Writes rows of `schema`, the table's without void. `codec` is used where neither options nor table name one.

    With `partition_values`, all rows belong to that partition, and `schema` is that of the files.

    Raises `InvalidOptionError`.
    """
    stored = stored_fields(schema, partition_columns, properties)
    return WriteTask(
        table_root=table_root,
        storage_options=file_system,
        file_schema=file_schema(stored, column_mapping),
        data_columns=[schema.names.index(name) for name in stored.names],
        partition_columns={
            physical_name(schema[name], column_mapping): (schema.names.index(name), schema[name].dataType)
            for name in partition_columns
            if partition_values is None
        },
        stats_types=indexed_columns(schema, properties, partition_columns=partition_columns),
        string_prefix_length=properties.string_prefix_length,
        compression=_compression(options, properties, codec),
        page_version="2.0" if properties.writes_parquet_v2 else "1.0",
        random_prefix_length=properties.random_prefix_length if properties.randomize_file_prefixes else None,
        max_records_per_file=max_records_per_file or None,
        open_files_max=open_files_max,
        partition_values=partition_values,
        directory=directory,
        tags=file_tags(properties),
    )


def session_codec(spark: SparkSession) -> str | None:
    """The compression that the session asks for."""
    return spark.conf.get(_CODEC_SETTING)


def adds_of(written: pa.Table | pa.RecordBatch, *, tags: Mapping[str, str] | None = None) -> list[AddFile]:
    """Rows of `WRITTEN_FILES` as actions."""
    return [
        AddFile(
            path=row["path"],
            partition_values=dict(row["partition_values"]),
            size=row["size"],
            modification_time=row["modification_time"],
            data_change=True,
            stats=row["stats"],
            tags={**(tags or {}), **insertion_tag(row["modification_time"])},
        )
        for row in written.to_pylist()
    ]


def _plain_name(position: int) -> str:
    return f"c{position}"


def _without_void(frame: DataFrame, schema: StructType, kept: StructType) -> DataFrame:
    if schema == kept:
        return frame
    columns = []
    for field in kept.fields:
        value = column(field.name)
        if isinstance(field.dataType, StructType) and schema[field.name].dataType != field.dataType:
            value = dropped_void(value, field.dataType)
        columns.append(value.alias(field.name))
    return frame.select(*columns)


def _compression(options: Sequence[tuple[str, str]], properties: TableProperties, codec: str | None) -> str:
    given = {key.lower(): value for key, value in options}.get("compression")
    name = given or properties.compression_codec or codec or "snappy"
    known = _CODECS.get(name.lower())
    if known is None:
        raise InvalidOptionError(option="compression", value=name, problem=f"it is none of {', '.join(_CODECS)}")
    return known
