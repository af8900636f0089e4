"""The columns of a folder of Parquet files, which need not all have the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.commands.convert_files import ParquetFile, SchemaKey
from anabranch.errors.convert import ConflictingFileSchemasError
from anabranch.errors.schema import MalformedSchemaError
from anabranch.schema.char_varchar import without_char_varchar
from anabranch.schema.merging import MergeRules, merge
from anabranch.schema.names import check_duplicates
from anabranch.schema.serialization import check_types, parse_schema
from anabranch.spark.portable.spark_paths import spark_path

_COMMENT = "comment"


def file_schemas(
    files: Sequence[ParquetFile], read_by_spark: Callable[[ParquetFile], StructType], *, table: str
) -> dict[SchemaKey, StructType]:
    """The columns of each kind of file, as Spark would read them; one file of each kind is looked at.

    `read_by_spark` is asked about kinds in which Spark left no schema of its own. Raises the errors of
    `errors.schema`.
    """
    found: dict[SchemaKey, StructType] = {}
    for file in files:
        if file.schema_key not in found:
            found[file.schema_key] = _of_file(file, read_by_spark, table)
    return found


def merged_schema(files: Sequence[ParquetFile], schemas: Mapping[SchemaKey, StructType], *, table: str) -> StructType:
    """All columns of all files: those of the first file first. Raises `ConflictingFileSchemasError`."""
    whole = StructType([])
    seen: dict[SchemaKey, ParquetFile] = {}
    for file in files:
        if file.schema_key in seen:
            continue
        schema = schemas[file.schema_key]
        merged = merge(whole, schema, MergeRules())
        if merged.conflicts:
            raise _conflict(file, schema, seen, schemas, table)
        seen[file.schema_key] = file
        whole = merged.schema
    return whole


def read_by_spark(spark: SparkSession, path: str) -> StructType:
    """The columns that Spark finds in one Parquet file, its absolute path given; a job of one task."""
    return spark.read.parquet(spark_path(path)).schema


def _of_file(file: ParquetFile, read: Callable[[ParquetFile], StructType], table: str) -> StructType:
    told, _ = file.schema_key
    where = f"{file.path} of {table}"
    try:
        schema = read(file) if told is None else parse_schema(told.decode("utf-8", "replace"), where)
    except MalformedSchemaError:
        # Spark before 1.4 wrote it in a form of its own, which Spark still reads.
        schema = read(file)
    check_types(schema, where)
    check_duplicates(schema, where=file.path, table=table)
    return _plain(without_char_varchar(schema))


def _plain(struct: StructType) -> StructType:
    """Nullable everywhere, and without metadata but comments: what a writer knew of its columns is no promise."""
    fields = []
    for field in struct.fields:
        comment = {_COMMENT: field.metadata[_COMMENT]} if _COMMENT in (field.metadata or {}) else {}
        fields.append(StructField(field.name, _nullable(field.dataType), True, comment))
    return StructType(fields)


def _nullable(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return _plain(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(_nullable(data_type.keyType), _nullable(data_type.valueType), True)
    return data_type


def _conflict(
    file: ParquetFile,
    schema: StructType,
    seen: Mapping[SchemaKey, ParquetFile],
    schemas: Mapping[SchemaKey, StructType],
    table: str,
) -> ConflictingFileSchemasError:
    """The first file that this one does not go with, and the column. There is one: it did not fit what came of all."""
    pairs = ((other, merge(schemas[key], schema, MergeRules()).conflicts) for key, other in seen.items())
    other, conflicts = next((other, conflicts) for other, conflicts in pairs if conflicts)
    column, (other_type, data_type) = next(iter(conflicts.items()))
    return ConflictingFileSchemasError(
        table=table,
        column=column,
        file=file.path,
        data_type=data_type,
        other_file=other.path,
        other_type=other_type,
    )
