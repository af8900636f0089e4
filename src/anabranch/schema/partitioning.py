"""By which columns a table may be partitioned."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, MapType, NullType, StructType, VariantType

from anabranch.errors.schema import InvalidPartitioningError, PartitionColumnMismatchError
from anabranch.schema.paths import child, fold


def partition_columns_of(schema: StructType, columns: Sequence[str], *, table: str) -> tuple[str, ...]:
    """`columns`, as a user named them, spelled as in `schema`. Raises InvalidPartitioningError."""
    named: list[str] = []
    for column in columns:
        field = child(schema, column)
        if field is None:
            raise _invalid(table, columns, f"there is no column {column}; columns are {', '.join(schema.fieldNames())}")
        if isinstance(field.dataType, ArrayType | MapType | StructType | NullType | VariantType):
            raise _invalid(table, columns, f"{column} is of type {field.dataType.simpleString()}")
        if field.name in named:
            raise _invalid(table, columns, f"{column} comes twice")
        named.append(field.name)
    if named and len(named) == len(schema.fields):
        raise _invalid(table, columns, "at least one column has to remain for the data files")
    return tuple(named)


def check_partitioning(given: Sequence[str], actual: Sequence[str], *, table: str, overwriting: bool) -> None:
    """Refuse a write whose `partitionBy` is not the table's; none given means the table's."""
    if given and [fold(name) for name in given] != [fold(name) for name in actual]:
        raise PartitionColumnMismatchError(
            table=table, given=tuple(given), actual=tuple(actual), overwriting=overwriting
        )


def _invalid(table: str, columns: Sequence[str], reason: str) -> InvalidPartitioningError:
    return InvalidPartitioningError(table=table, columns=tuple(columns), reason=reason)
