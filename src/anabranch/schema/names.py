"""Which names columns may have."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructType

from anabranch.errors.schema import DuplicateColumnsError, InvalidColumnNamesError, ReservedColumnsError
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.paths import FieldPath, fold, quoted, walk

INVALID_CHARACTERS = " ,;{}()\n\t="
"""What Parquet files do not take in a name; with column mapping files never see it."""

OWN_PREFIX = "__anabranch_"
"""Begins the names of columns that statements put beside those of the table while they run."""

CHANGE_DATA_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def check_names(
    schema: StructType,
    mode: ColumnMappingMode,
    *,
    table: str,
    change_data_feed: bool = False,
    reserved: Iterable[str] = (),
) -> None:
    """Refuse a schema that no table could have.

    `reserved` are further top-level names in use by the table itself, such as its columns for row ids.
    """
    check_duplicates(schema, where="the schema", table=table)
    check_own_names(schema, table=table)
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
    """Refuse top-level columns that would hide columns of the table's own."""
    taken = {fold(name) for name in reserved}
    found = tuple(name for name in schema.fieldNames() if fold(name) in taken)
    if found:
        raise ReservedColumnsError(table=table, columns=found)


def check_own_names(schema: StructType, *, table: str) -> None:
    """Refuse top-level columns that statements would take for columns of their own."""
    found = tuple(name for name in schema.fieldNames() if fold(name).startswith(OWN_PREFIX))
    if found:
        raise ReservedColumnsError(table=table, columns=found)
