"""Whether rows written under one schema can be read as rows of a later one, by all readers alike."""

from __future__ import annotations

import dataclasses

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddCDCFile, Metadata, RemoveFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name, physical_paths
from anabranch.schema.paths import FieldPath, quoted, walk
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import is_supported_change


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableColumns:
    """The columns of one version of a table."""

    schema: StructType
    mode: ColumnMappingMode
    partition_columns: tuple[str, ...]
    """Logical names."""

    @classmethod
    def of(cls, metadata: Metadata, *, table: str) -> TableColumns:
        """What `metaData` says of them."""
        properties = TableProperties(metadata.configuration)
        return cls(
            schema=parse_schema(metadata.schema_string, table),
            mode=ColumnMappingMode.parse(properties.column_mapping_mode),
            partition_columns=tuple(metadata.partition_columns),
        )

    def by_physical_path(self) -> dict[FieldPath, tuple[FieldPath, StructField]]:
        """Every field, nested ones too, by where files keep it."""
        physical = physical_paths(self.schema, self.mode)
        return {physical[path]: (path, field) for path, field in walk(self.schema)}

    def physical_partition_columns(self) -> frozenset[str]:
        fields = {field.name: field for field in self.schema.fields}
        return frozenset(physical_name(fields[name], self.mode) for name in self.partition_columns if name in fields)


def unreadable_difference(before: TableColumns, read: TableColumns) -> str | None:
    """Why rows written under `before` cannot be read under `read`, in words; None where they can.

    Columns may have been added and types made wider. A column that was dropped or renamed since, or whose type became
    another, would come out under a name or with values that its rows never had.
    """
    layout = _layout_difference(before, read)
    if layout is not None:
        return layout
    now = read.by_physical_path()
    for place, (path, field) in before.by_physical_path().items():
        if place not in now:
            return f"there was a column {quoted(path)}, which is not there any more"
        name, found = now[place]
        if name != path:
            return f"column {quoted(name)} was called {quoted(path)}"
        if not reads_as(field.dataType, found.dataType):
            return _type_difference(path, field)
    return None


def redescribes_and_removes(commit: Commit) -> bool:
    """Whether the feed shows rows that the commit removed, and that were written under the columns before it."""
    kinds = {type(each) for each in commit.actions if not isinstance(each, RemoveFile) or each.data_change}
    return Metadata in kinds and RemoveFile in kinds and AddCDCFile not in kinds


def unreadable_removed(before: TableColumns, read: TableColumns) -> str | None:
    """Why rows that a commit removed, written under `before`, cannot be read under `read`; None where they can.

    Their columns may have gone with them.
    """
    now = read.by_physical_path()
    for place, (path, field) in before.by_physical_path().items():
        if place in now and not reads_as(field.dataType, now[place][1].dataType):
            return _type_difference(path, field)
    return _layout_difference(before, read)


def _layout_difference(before: TableColumns, read: TableColumns) -> str | None:
    if before.mode.maps and not read.mode.maps:
        return "files still used physical names for the columns, which they do not use any more"
    if before.physical_partition_columns() != read.physical_partition_columns():
        partitioning = ", ".join(before.partition_columns) or "no column"
        return f"the table was partitioned by {partitioning}"
    return None


def _type_difference(path: FieldPath, field: StructField) -> str:
    return f"column {quoted(path)} was of type {field.dataType.simpleString()}"


def reads_as(stored: DataType, wanted: DataType) -> bool:
    """Whether values of one type are values of the other; fields of structs are looked at one by one elsewhere."""
    if isinstance(stored, StructType) and isinstance(wanted, StructType):
        return True
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        return reads_as(stored.elementType, wanted.elementType)
    if isinstance(stored, MapType) and isinstance(wanted, MapType):
        return reads_as(stored.keyType, wanted.keyType) and reads_as(stored.valueType, wanted.valueType)
    return stored == wanted or isinstance(stored, NullType) or is_supported_change(stored, wanted)
