"""Whether rows written under one schema can be read as rows of a later one; one rule for batches and streams."""

from __future__ import annotations

import dataclasses

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddCDCFile, Metadata, RemoveFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name, physical_paths
from anabranch.schema.paths import FieldPath, quoted, walk
from anabranch.schema.schema_evolution import is_supported_change
from anabranch.schema.serialization import parse_schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableColumns:
    """The columns of one version of a table."""

    schema: StructType
    mode: ColumnMappingMode
    partition_columns: tuple[str, ...]
    """Logical names."""

    @classmethod
    def of(cls, metadata: Metadata, *, table: str) -> TableColumns:
        """The columns that `metaData` describes."""
        properties = TableProperties(metadata.configuration)
        return cls(
            schema=parse_schema(metadata.schema_string, table),
            mode=ColumnMappingMode.parse(properties.column_mapping_mode),
            partition_columns=tuple(metadata.partition_columns),
        )

    def by_physical_path(self) -> dict[FieldPath, tuple[FieldPath, StructField]]:
        """Every field, nested ones too, with its logical path, by physical path."""
        physical = physical_paths(self.schema, self.mode)
        return {physical[path]: (path, field) for path, field in walk(self.schema)}

    def physical_partition_columns(self) -> frozenset[str]:
        fields = {field.name: field for field in self.schema.fields}
        return frozenset(physical_name(fields[name], self.mode) for name in self.partition_columns if name in fields)


def unreadable_difference(before: TableColumns, read: TableColumns) -> str | None:
    """Why rows written under `before` cannot be read under `read`, in words; None where they can.

    Columns may have been added and types made wider. A column that was dropped or renamed since, or got another type,
    would be read under a name or with values that its rows never had.
    """
    layout = _layout_difference(before, read)
    if layout is not None:
        return layout
    now = read.by_physical_path()
    for physical_path, (path, field) in before.by_physical_path().items():
        if physical_path not in now:
            return f"there was a column {quoted(path)}, which has been dropped"
        new_path, new_field = now[physical_path]
        if new_path != path:
            return f"column {quoted(new_path)} was called {quoted(path)}"
        if not reads_as(field.dataType, new_field.dataType):
            return _type_difference(path, field)
    return None


def removes_rows_of_old_columns(commit: Commit) -> bool:
    """Whether the commit changes the metadata, and the feed has rows that it removes, written under the old columns."""
    kinds = {type(action) for action in commit.actions if not isinstance(action, RemoveFile) or action.data_change}
    return Metadata in kinds and RemoveFile in kinds and AddCDCFile not in kinds


def unreadable_removed(before: TableColumns, read: TableColumns) -> str | None:
    """Why rows that a commit removed, written under `before`, cannot be read under `read`; None where they can.

    The commit may have dropped their columns.
    """
    now = read.by_physical_path()
    for physical_path, (path, field) in before.by_physical_path().items():
        if physical_path in now and not reads_as(field.dataType, now[physical_path][1].dataType):
            return _type_difference(path, field)
    return _layout_difference(before, read)


def _layout_difference(before: TableColumns, read: TableColumns) -> str | None:
    if before.mode.maps and not read.mode.maps:
        return "files used physical names for the columns, and new files do not"
    if before.physical_partition_columns() != read.physical_partition_columns():
        partitioning = ", ".join(before.partition_columns) or "no column"
        return f"the table was partitioned by {partitioning}"
    return None


def _type_difference(path: FieldPath, field: StructField) -> str:
    return f"column {quoted(path)} was of type {field.dataType.simpleString()}"


def reads_as(stored: DataType, wanted: DataType) -> bool:
    """Whether values of one type can be read as the other. Fields of structs are compared one by one elsewhere."""
    if isinstance(stored, StructType) and isinstance(wanted, StructType):
        return True
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        return reads_as(stored.elementType, wanted.elementType)
    if isinstance(stored, MapType) and isinstance(wanted, MapType):
        return reads_as(stored.keyType, wanted.keyType) and reads_as(stored.valueType, wanted.valueType)
    return stored == wanted or isinstance(stored, NullType) or is_supported_change(stored, wanted)
