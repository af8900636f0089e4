"""From the columns of data files to the columns of the table, in terms of the public DataFrame API."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NullType, StructField, StructType

from anabranch.schema.column_mapping import ColumnMappingMode, to_physical
from anabranch.schema.comparison import as_nullable
from anabranch.schema.paths import FieldPath, transform
from anabranch.schema.visibility import visible_schema
from anabranch.schema.void import without_void
from anabranch.spark.table_identifiers import quote
from anabranch.spark.void_columns import with_void


def read_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """What to ask Spark's Parquet reader for: physical names, everything nullable, no metadata.

    Metadata would make Spark pad `char` and fill in column defaults while it reads, which is not what files
    of a Delta table mean.
    """
    return bare(to_physical(without_void(schema), mode))


def table_column(field: StructField, source: Column, source_type: DataType | None) -> Column:
    """Column `field` of the table, made from what files hold of it; `source_type` is None for a value that fits.

    Structs are cast where their physical names differ: Spark matches fields by position then.
    """
    stored = _bare_type(field)
    inner = without_void(stored) if isinstance(stored, StructType) else stored
    value = source if source_type in (None, inner) else source.cast(inner)
    if isinstance(stored, StructType) and inner != stored:
        value = with_void(value, stored)
    return named(value, field)


def void_column(field: StructField) -> Column:
    """A column that files never hold."""
    assert isinstance(field.dataType, NullType)
    return named(F.lit(None), field)


def named(value: Column, field: StructField) -> Column:
    """`value` under the name of `field`, with the metadata that users see."""
    metadata = visible_schema(StructType([field])).fields[0].metadata
    return value.alias(field.name, metadata=metadata) if metadata else value.alias(field.name)


def column(name: str) -> Column:
    """The top-level column of that name, whatever characters it has."""
    return F.col(quote(name))


def empty_columns(schema: StructType, extra: Mapping[str, DataType]) -> list[Column]:
    """Nulls of the table's types."""
    columns = [named(F.lit(None).cast(_bare_type(field)), field) for field in schema.fields]
    return [*columns, *(F.lit(None).cast(kind).alias(name) for name, kind in extra.items())]


def bare(schema: StructType) -> StructType:
    """`schema` without metadata and with nulls allowed at every level."""

    def strip(_path: FieldPath, field: StructField) -> StructField:
        return StructField(field.name, field.dataType)

    return as_nullable(transform(schema, strip))


def _bare_type(field: StructField) -> DataType:
    return bare(StructType([field])).fields[0].dataType
