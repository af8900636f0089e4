"""Which columns get statistics: `delta.dataSkippingNumIndexedCols` and `delta.dataSkippingStatsColumns`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyspark.sql.types import DataType, StructField, StructType

from anabranch.errors.protocol import InvalidPropertyError
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.statistics import has_bounds

PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
"""The key of the physical name in the metadata of a field. See "Column Mapping"."""

IDENTITY_START_KEY = "delta.identity.start"
"""The key of the first number in the metadata of an identity column. See "Identity Columns"."""

Path = tuple[str, ...]


def indexed_columns(
    schema: StructType, properties: TableProperties, *, partition_columns: Collection[str] = ()
) -> dict[Path, DataType]:
    """Physical paths and types of the leaf columns that get statistics, in the order of the schema.

    `schema` and `partition_columns` have logical names, as the properties do. Arrays and maps are leaves
    of which only nulls are counted. Identity columns always have statistics, from which the high-water mark is updated.
    The columns of row tracking, which are in files but not in the schema, have none.
    """
    mapped = properties.column_mapping_mode != "none"
    partitions = {name.lower() for name in partition_columns}
    row_tracking_columns = {properties.materialized_row_id_column, properties.materialized_row_commit_version_column}
    stored = [
        field
        for field in schema.fields
        if field.name.lower() not in partitions and field.name not in row_tracking_columns
    ]
    leaves = [leaf for field in stored for leaf in _leaves(field, (), (), mapped)]
    if (named := properties.stats_columns) is not None:
        prefixes = {tuple(part.lower() for part in path) for path in named}
        indexed = {physical for logical, physical, _ in leaves if _is_named(logical, prefixes)}
    else:
        count = properties.num_indexed_columns
        indexed = {physical for _, physical, _ in (leaves if count < 0 else leaves[:count])}
    identity_columns = [field for field in stored if IDENTITY_START_KEY in (field.metadata or {})]
    indexed |= {physical for field in identity_columns for _, physical, _ in _leaves(field, (), (), mapped)}
    return {physical: kind for _, physical, kind in leaves if physical in indexed}


def check_stats_columns(
    schema: StructType, properties: TableProperties, *, partition_columns: Collection[str] = ()
) -> None:
    """Check `delta.dataSkippingStatsColumns` against the table.

    Raises `InvalidPropertyError` where it names a column that does not exist, partitions the table, is named
    twice or has no minimum and maximum.
    """
    partitions = {name.lower() for name in partition_columns}
    seen: set[Path] = set()
    for path in properties.stats_columns or ():
        lower = tuple(part.lower() for part in path)
        data_type = _type_at(schema, lower)
        if data_type is None:
            raise _refused(properties, f"a list of existing columns; there is no {'.'.join(path)}")
        if len(path) == 1 and lower[0] in partitions:
            raise _refused(properties, f"a list of columns that do not partition the table, as {path[0]} does")
        if lower in seen:
            raise _refused(properties, f"a list without repetitions; {'.'.join(path)} is named twice")
        if len(path) == 1 and not isinstance(data_type, StructType) and not has_bounds(data_type):
            expected = f"a list of columns that have an order; {path[0]} is {data_type.simpleString()}"
            raise _refused(properties, expected)
        seen.add(lower)


def _leaves(
    field: StructField,
    logical: Path,
    physical: Path,
    mapped: bool,
) -> Iterator[tuple[Path, Path, DataType]]:
    logical = (*logical, field.name)
    physical = (*physical, (field.metadata or {}).get(PHYSICAL_NAME_KEY, field.name) if mapped else field.name)
    if isinstance(field.dataType, StructType):
        for child in field.dataType.fields:
            yield from _leaves(child, logical, physical, mapped)
    else:
        yield logical, physical, field.dataType


def _is_named(logical: Path, prefixes: set[Path]) -> bool:
    lower = tuple(part.lower() for part in logical)
    return any(lower[:length] in prefixes for length in range(1, len(lower) + 1))


def _type_at(schema: StructType, path: Path) -> DataType | None:
    data_type: DataType = schema
    for name in path:
        if not isinstance(data_type, StructType):
            return None
        match = next((field for field in data_type.fields if field.name.lower() == name), None)
        if match is None:
            return None
        data_type = match.dataType
    return data_type


def _refused(properties: TableProperties, expected: str) -> InvalidPropertyError:
    name = "delta.dataSkippingStatsColumns"
    return InvalidPropertyError(name=name, value=properties.configuration.get(name), expected=expected)
