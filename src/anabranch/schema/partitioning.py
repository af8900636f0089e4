"""By which columns a table may be partitioned."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, MapType, NullType, StructType, VariantType

from anabranch.errors.schema import (
    InvalidPartitioningError,
    NoDataColumnsError,
    PartitionColumnMismatchError,
    PartitionColumnNotFoundError,
    PartitionColumnTypeError,
)
from anabranch.schema.paths import child, fold


def partition_columns_of(schema: StructType, columns: Sequence[str], *, table: str) -> tuple[str, ...]:
    """`columns`, as a user named them, spelled as in `schema`. Raises InvalidPartitioningError."""
    named: list[str] = []
    for column in columns:
        field = child(schema, column)
        if field is None:
            reason = f"there is no column {column}; columns are {', '.join(schema.fieldNames())}"
            raise PartitionColumnNotFoundError(table=table, columns=tuple(columns), reason=reason)
        if isinstance(field.dataType, ArrayType | MapType | StructType | NullType | VariantType):
            reason = f"{column} is of type {field.dataType.simpleString()}"
            raise PartitionColumnTypeError(table=table, columns=tuple(columns), reason=reason)
        if field.name in named:
            raise InvalidPartitioningError(table=table, columns=tuple(columns), reason=f"{column} comes twice")
        named.append(field.name)
    if named and len(named) == len(schema.fields):
        reason = "at least one column has to remain for the data files"
        raise NoDataColumnsError(table=table, columns=tuple(columns), reason=reason)
    return tuple(named)


def check_partitioning(given: Sequence[str], actual: Sequence[str], *, table: str, overwriting: bool) -> None:
    """Refuse a write whose `partitionBy` is not the table's; none given means the table's."""
    if given and [fold(name) for name in given] != [fold(name) for name in actual]:
        raise PartitionColumnMismatchError(
            table=table, given=tuple(given), actual=tuple(actual), overwriting=overwriting
        )
