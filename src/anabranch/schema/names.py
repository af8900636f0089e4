"""Which names columns may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.types import ArrayType, MapType, NullType, StructType, UserDefinedType, VariantType

from anabranch.errors.schema import (
    DuplicateColumnsError,
    InvalidColumnNamesError,
    InvalidPartitioningError,
    NoDataColumnsError,
    PartitionColumnMismatchError,
    PartitionColumnNotFoundError,
    PartitionColumnTypeError,
    ReservedColumnsError,
)
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.paths import FieldPath, child, fold, quoted, walk

INVALID_CHARACTERS = " ,;{}()\n\t="
"""Characters that Parquet files do not allow in a name. With column mapping, files have physical names instead."""

OWN_PREFIX = "__anabranch_"
"""Prefix of the columns that statements add to those of the table while they run."""

SPARK_ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills with row numbers, also where a table has a column of that name."""

CHANGE_DATA_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def check_column_names(
    schema: StructType,
    mode: ColumnMappingMode,
    *,
    table: str,
    change_data_feed: bool = False,
    reserved: Iterable[str] = (),
) -> None:
    """Refuse a schema that no table can have.

    `reserved` are further top-level names in use by the table itself, such as its columns for row ids.
    """
    check_duplicates(schema, where="the schema", table=table)
    if conflicting := own_names(schema):
        raise ReservedColumnsError(table=table, columns=conflicting)
    if not mode.maps:
        check_characters(schema, table=table)
    check_reserved(schema, [*reserved, *(CHANGE_DATA_COLUMNS if change_data_feed else ())], table=table)


def check_duplicates(schema: StructType, *, where: str, table: str) -> None:
    """Refuse columns, nested ones too, whose names are equal or differ only by case."""
    seen: dict[FieldPath, FieldPath] = {}
    duplicates: list[str] = []
    for path, _ in walk(schema):
        first = seen.setdefault(tuple(map(fold, path)), path)
        if first is not path:
            duplicates.append(quoted(path) if path == first else f"{quoted(path)} ({quoted(first)})")
    if duplicates:
        raise DuplicateColumnsError(table=table, where=where, columns=tuple(duplicates))


def check_characters(schema: StructType, *, table: str) -> None:
    """Refuse names, nested ones too, that Parquet files do not take."""
    invalid = invalid_names(schema)
    if invalid:
        raise InvalidColumnNamesError(table=table, columns=invalid)


def invalid_names(schema: StructType) -> tuple[str, ...]:
    """Columns, nested ones too, whose names Parquet files do not take."""
    return tuple(quoted(path) for path, field in walk(schema) if set(field.name) & set(INVALID_CHARACTERS))


def check_reserved(schema: StructType, reserved: Iterable[str], *, table: str) -> None:
    """Refuse top-level columns with the `reserved` names, in any case."""
    folded = {fold(name) for name in reserved}
    conflicting = tuple(name for name in schema.fieldNames() if fold(name) in folded)
    if conflicting:
        raise ReservedColumnsError(table=table, columns=conflicting)


def own_names(schema: StructType) -> tuple[str, ...]:
    """The top-level columns whose names statements, or Spark's reader, use for columns of their own."""
    return tuple(
        name for name in schema.fieldNames() if fold(name).startswith(OWN_PREFIX) or fold(name) == SPARK_ROW_INDEX
    )


# Partition columns.


def partition_columns_of(schema: StructType, columns: Sequence[str], *, table: str) -> tuple[str, ...]:
    """`columns`, as a user named them, spelled as in `schema`. Raises InvalidPartitioningError."""
    named: list[str] = []
    for column in columns:
        field = child(schema, column)
        if field is None:
            reason = f"there is no column {column}; the columns are {', '.join(schema.fieldNames())}"
            raise PartitionColumnNotFoundError(table=table, columns=tuple(columns), reason=reason)
        if isinstance(field.dataType, ArrayType | MapType | StructType | NullType | VariantType | UserDefinedType):
            reason = f"{column} is of type {field.dataType.simpleString()}"
            raise PartitionColumnTypeError(table=table, columns=tuple(columns), reason=reason)
        if field.name in named:
            raise InvalidPartitioningError(table=table, columns=tuple(columns), reason=f"{column} comes twice")
        named.append(field.name)
    if named and len(named) == len(schema.fields):
        reason = "at least one column has to remain for the data files"
        raise NoDataColumnsError(table=table, columns=tuple(columns), reason=reason)
    return tuple(named)


def check_partitioning(requested: Sequence[str], actual: Sequence[str], *, table: str, overwriting: bool) -> None:
    """Refuse a write whose `partitionBy` differs from the table's partitioning. An empty `requested` always passes."""
    if requested and [fold(name) for name in requested] != [fold(name) for name in actual]:
        raise PartitionColumnMismatchError(
            table=table, given=tuple(requested), actual=tuple(actual), overwriting=overwriting
        )
