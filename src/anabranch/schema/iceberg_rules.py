"""The rules that a table must follow so that Iceberg can read its files.

Implements "Writer Requirements for IcebergCompatV1" and "Writer Requirements for IcebergCompatV2" of PROTOCOL.md, as
far as they can be checked in the log; how files are written is up to the engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.errors.other_formats import (
    IcebergCompatColumnMappingError,
    IcebergCompatError,
    IcebergCompatFileVectorError,
    IcebergCompatPartitioningError,
    IcebergCompatStatisticsError,
    IcebergCompatTypeChangeError,
    IcebergCompatTypeError,
    IcebergCompatVectorsError,
    IcebergCompatVersionsError,
    UniFormFormatError,
    UniFormNeedsCompatError,
)
from anabranch.protocol.actions import AddFile, Metadata, Protocol, row_count
from anabranch.protocol.features import supported
from anabranch.protocol.properties import ICEBERG, TableProperties, compat_versions, universal_formats
from anabranch.schema.column_mapping import field_id
from anabranch.schema.paths import quoted, walk
from anabranch.schema.schema_evolution import all_type_changes, is_iceberg_change, is_supported_change
from anabranch.schema.serialization import parse_schema

_PRIMITIVE: tuple[type[DataType], ...] = (
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    CharType,
    VarcharType,
    BinaryType,
    BooleanType,
    TimestampType,
    TimestampNTZType,
    DateType,
)
_NESTED = (ArrayType, MapType, StructType)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """The facts about a table that the rules check."""

    properties: TableProperties
    schema: StructType
    partition_columns: tuple[str, ...]
    supports_vectors: bool


def check_iceberg_table(metadata: Metadata, protocol: Protocol, *, old: Metadata | None = None, table: str) -> None:
    """Raises an `IcebergCompatError`, or a `UniFormNeedsCompatError`, for a table that breaks a rule.

    `old` is the metadata before the change; None for a new table.
    """
    properties = TableProperties(metadata.configuration)
    check_formats(properties, table=table)
    if not compat_versions(properties):
        return
    facts = IcebergTable(
        properties=properties,
        schema=parse_schema(metadata.schema_string, table),
        partition_columns=tuple(metadata.partition_columns),
        supports_vectors=supported(protocol, "deletionVectors"),
    )
    before = () if old is None else _partition_columns_before(old, facts, table)
    for error in broken_rules(facts, old_partition_columns=before, table=table):
        raise error


def check_formats(properties: TableProperties, *, table: str) -> None:
    """Refuse formats of UniForm that anabranch does not write, and Iceberg without IcebergCompat.

    Raises `UniFormFormatError` and `UniFormNeedsCompatError`.
    """
    for name in universal_formats(properties):
        if name != ICEBERG:
            raise UniFormFormatError(table=table, format=name)
        if not compat_versions(properties):
            raise UniFormNeedsCompatError(table=table)


def broken_rules(
    facts: IcebergTable, *, old_partition_columns: tuple[str, ...] = (), table: str
) -> Iterator[IcebergCompatError]:
    """An error for every rule that the table breaks, the most important first."""
    versions = compat_versions(facts.properties)
    for version in versions[:1]:
        if len(versions) > 1:
            yield IcebergCompatVersionsError(table=table, compat_version=versions[-1], others=versions[:-1])
        yield from _about_properties(facts, version, table)
        yield from _about_types(facts, version, table)
        if old_partition_columns and old_partition_columns != facts.partition_columns:
            yield IcebergCompatPartitioningError(
                table=table, compat_version=version, old=old_partition_columns, new=facts.partition_columns
            )


def check_iceberg_files(adds: Sequence[AddFile], version: int, *, table: str) -> None:
    """Raises an `IcebergCompatError` for a new file that breaks a rule of this version of the compatibility."""
    for add in adds:
        if add.deletion_vector is not None:
            raise IcebergCompatFileVectorError(table=table, compat_version=version, path=add.path)
        if row_count(add.stats) is None:
            raise IcebergCompatStatisticsError(table=table, compat_version=version, path=add.path)


def _partition_columns_before(old: Metadata, facts: IcebergTable, table: str) -> tuple[str, ...]:
    """The partition columns of `old` under their new names: a renamed column is the same column."""
    ids = {field.name: field_id(field) for field in parse_schema(old.schema_string, table).fields}
    names: dict[int | None, str] = {field_id(field): field.name for field in facts.schema.fields}
    return tuple(names.get(ids[name], name) if ids[name] is not None else name for name in old.partition_columns)


def _about_properties(facts: IcebergTable, version: int, table: str) -> Iterator[IcebergCompatError]:
    mode = facts.properties.column_mapping_mode
    if mode == "none":
        yield IcebergCompatColumnMappingError(table=table, compat_version=version, mode=mode)
    if facts.properties.deletion_vectors_enabled:
        yield IcebergCompatVectorsError(table=table, compat_version=version)
    elif version == 1 and facts.supports_vectors:
        yield IcebergCompatVectorsError(table=table, compat_version=version, feature_only=True)


def _about_types(facts: IcebergTable, version: int, table: str) -> Iterator[IcebergCompatError]:
    for path, field in walk(facts.schema):
        for data_type in _types_at(field.dataType):
            if not _is_allowed(data_type, version):
                yield IcebergCompatTypeError(
                    table=table, compat_version=version, column=quoted(path), data_type=data_type.simpleString()
                )
    for path, change in all_type_changes(facts.schema, table):
        if is_supported_change(change.old, change.new) and not is_iceberg_change(change.old, change.new):
            yield IcebergCompatTypeChangeError(
                table=table,
                compat_version=version,
                column=quoted(path),
                old=change.old.simpleString(),
                new=change.new.simpleString(),
            )


def _types_at(data_type: DataType) -> Iterator[DataType]:
    """The type and those of its elements, keys and values. Fields of structs are checked on their own."""
    yield data_type
    if isinstance(data_type, ArrayType):
        yield from _types_at(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _types_at(data_type.keyType)
        yield from _types_at(data_type.valueType)


def _is_allowed(data_type: DataType, version: int) -> bool:
    if version == 1:
        return not isinstance(data_type, ArrayType | MapType | NullType) and _is_allowed(data_type, 2)
    return isinstance(data_type, _PRIMITIVE + _NESTED)
