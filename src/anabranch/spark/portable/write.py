"""Writing rows as data files, by Python workers and `mapInArrow`."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.arguments import InvalidOptionError
from anabranch.protocol.actions import AddFile
from anabranch.protocol.stats_columns import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.void import check_writable, without_void
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.portable.arrow_types import file_schema
from anabranch.spark.portable.projection import column
from anabranch.spark.portable.write_task import WriteTask
from anabranch.spark.void_columns import dropped_void

_RESULT = (
    "path string, partition_values map<string, string>, size long, modification_time long, num_rows long, stats string"
)
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
    if request.partition_columns:
        # One file is open at a time, so that memory does not grow with the number of partitions.
        frame = frame.sortWithinPartitions(
            *(_plain_name(schema.names.index(name)) for name in request.partition_columns)
        )
    rows = frame.mapInArrow(_task(spark, request, schema), _RESULT).toArrow().to_pylist()
    adds = sorted((_add_file(row) for row in rows), key=lambda add: add.path)
    return WrittenFiles(
        adds=tuple(adds),
        num_rows=sum(row["num_rows"] for row in rows),
        size_bytes=sum(add.size for add in adds),
    )


def _task(spark: SparkSession, request: WriteRequest, schema: StructType) -> WriteTask:
    properties, mode = request.properties, request.column_mapping
    stored = [(i, field) for i, field in enumerate(schema.fields) if field.name not in request.partition_columns]
    return WriteTask(
        table_root=request.table_root,
        storage_options={key: value for key, value in request.options if "." in key},
        file_schema=file_schema(StructType([field for _, field in stored]), mode),
        data_columns=[i for i, _ in stored],
        partition_columns={
            physical_name(schema[name], mode): (schema.names.index(name), schema[name].dataType)
            for name in request.partition_columns
        },
        stats_types=indexed_columns(schema, properties, partition_columns=request.partition_columns),
        string_prefix_length=properties.string_prefix_length,
        compression=_compression(spark, request),
        random_prefix_length=properties.random_prefix_length if properties.randomize_file_prefixes else None,
        max_records_per_file=request.max_records_per_file,
    )


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


def _compression(spark: SparkSession, request: WriteRequest) -> str:
    given = {key.lower(): value for key, value in request.options}.get("compression")
    name = given or request.properties.compression_codec or spark.conf.get(_CODEC_SETTING) or "snappy"
    codec = _CODECS.get(name.lower())
    if codec is None:
        raise InvalidOptionError(option="compression", value=name, problem=f"it is none of {', '.join(_CODECS)}")
    return codec


def _add_file(row: dict[str, object]) -> AddFile:
    return AddFile(
        path=str(row["path"]),
        partition_values=dict(row["partition_values"]),  # type: ignore[call-overload]
        size=row["size"],  # type: ignore[arg-type]
        modification_time=row["modification_time"],  # type: ignore[arg-type]
        data_change=True,
        stats=row["stats"],  # type: ignore[arg-type]
    )
