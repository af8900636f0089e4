"""Data files that Iceberg cannot read, found by the log and by their footers.

See "Writer Requirements for IcebergCompatV1" and "Writer Requirements for IcebergCompatV2".
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.commands.definition.table_definition import ResolvedDefinition
from anabranch.commands.optimize.footer_columns import read_schemas
from anabranch.commands.table_access import TableRef
from anabranch.errors.other_formats import IcebergCompatFilesError
from anabranch.log.file_columns import LIVE_FILE_SCHEMA, FileMask, adds_of_table
from anabranch.protocol.properties import COMPAT_TAG, TableProperties, compat_versions
from anabranch.schema.column_mapping import ColumnMappingMode, field_id, nested_ids, physical_name
from anabranch.schema.paths import ELEMENT, KEY, VALUE
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot

_PARQUET_ID = b"PARQUET:field_id"
_UNCOUNTED = "of which the log does not say how many rows it has"
_HAS_VECTOR = "which hides rows by a deletion vector"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFiles:
    """The requirements for files."""

    schema: StructType
    """The schema with the ids of column mapping."""
    partition_columns: tuple[str, ...]
    mode: ColumnMappingMode
    version: int

    def problem_of(self, stored: pa.Schema) -> str | None:
        """Why Iceberg cannot read a file with these columns; None if it can."""
        names = {field.name for field in stored}
        for name in self.partition_columns:
            if physical_name(self.schema[name], self.mode) not in names:
                return f"which lacks the partition column {name}"
        return self._in_struct(list(stored), self.schema)

    def _in_struct(self, stored: list[pa.Field], struct: StructType) -> str | None:
        fields = {physical_name(field, self.mode): field for field in struct.fields}
        # Further columns of a file were dropped from the table, and Iceberg does not read them.
        problems = (self._in_field(column, fields[column.name]) for column in stored if column.name in fields)
        return next((problem for problem in problems if problem is not None), None)

    def _in_field(self, stored: pa.Field, field: StructField) -> str | None:
        if _stored_id(stored) != field_id(field):
            return f"whose column {field.name} has no id"
        return self._in_type(stored.type, field.dataType, field, physical_name(field, self.mode))

    def _in_type(self, stored: pa.DataType, data_type: DataType, field: StructField, path: str) -> str | None:
        if isinstance(data_type, StructType) and pa.types.is_struct(stored):
            return self._in_struct(list(stored), data_type)
        if isinstance(data_type, ArrayType) and pa.types.is_list(stored):
            return self._below(stored.value_field, data_type.elementType, field, f"{path}.{ELEMENT}")
        if isinstance(data_type, MapType) and pa.types.is_map(stored):
            key = self._below(stored.key_field, data_type.keyType, field, f"{path}.{KEY}")
            return key or self._below(stored.item_field, data_type.valueType, field, f"{path}.{VALUE}")
        if pa.types.is_timestamp(stored) and stored.unit == "ns":
            # Spark's old form of timestamps, INT96, is read as nanoseconds.
            return f"whose timestamps in {field.name} are not stored as int64 microseconds"
        return None

    def _below(self, stored: pa.Field, data_type: DataType, field: StructField, path: str) -> str | None:
        if _stored_id(stored) != nested_ids(field).get(path):
            return f"whose column {field.name} has elements, keys or values without ids"
        return self._in_type(stored.type, data_type, field, path)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IncompatibleFiles:
    """The live files that must be rewritten."""

    mask: FileMask
    example: str
    problem: str

    @property
    def count(self) -> int:
        return int(self.mask.sum())


def incompatible_files(table: TableRef, snapshot: Snapshot, wanted: IcebergFiles) -> IncompatibleFiles:
    """The files of a snapshot that do not fulfil `wanted`. Files with the tag of the version are not opened.

    Raises `StorageError`.
    """
    mask = np.zeros(snapshot.files.count, dtype=np.bool_)
    problems: dict[int, str] = {}
    unknown: list[int] = []
    uncounted = np.asarray(snapshot.skipping_columns.num_records().is_null())
    for row, add in enumerate(adds_of_table(_without_stats(snapshot), data_change=False)):
        if add.deletion_vector is not None:
            problems[row] = _HAS_VECTOR
        elif uncounted[row]:
            problems[row] = _UNCOUNTED
        elif (add.tags or {}).get(COMPAT_TAG) != str(wanted.version):
            unknown.append(row)
    paths: list[str] = snapshot.files.columns("path")["path"].to_pylist()
    for row, stored in zip(unknown, read_schemas(table, [paths[row] for row in unknown]), strict=True):
        problem = wanted.problem_of(stored)
        if problem is not None:
            problems[row] = problem
    mask[list(problems)] = True
    first = min(problems, default=None)
    if first is None:
        return IncompatibleFiles(mask=mask, example="", problem="")
    return IncompatibleFiles(mask=mask, example=paths[first], problem=problems[first])


def files_wanted(defined: ResolvedDefinition, *, version: int, label: str) -> IcebergFiles:
    """The requirements for the files of a table."""
    properties = TableProperties(defined.metadata.configuration)
    return IcebergFiles(
        schema=parse_schema(defined.metadata.schema_string, label),
        partition_columns=tuple(defined.metadata.partition_columns),
        mode=ColumnMappingMode.parse(properties.column_mapping_mode),
        version=version,
    )


def check_iceberg_upgrade(table: TableRef, snapshot: Snapshot, defined: ResolvedDefinition) -> None:
    """Check that a table that turns on a version of Iceberg compatibility has files that fulfil it.

    Raises `IcebergCompatFilesError`, `StorageError`.
    """
    new = compat_versions(TableProperties(defined.metadata.configuration))
    if not new or new == compat_versions(snapshot.properties):
        return
    wanted = files_wanted(defined, version=new[0], label=table.label)
    incompatible = incompatible_files(table, snapshot, wanted)
    if incompatible.count:
        raise IcebergCompatFilesError(
            table=table.label,
            compat_version=new[0],
            num_files=incompatible.count,
            example=incompatible.example,
            problem=incompatible.problem,
        )


def _without_stats(snapshot: Snapshot) -> pa.Table:
    table = snapshot.files.table
    stats = LIVE_FILE_SCHEMA.field("stats")
    return table.append_column(stats, pa.nulls(table.num_rows, stats.type))


def _stored_id(stored: pa.Field) -> int | None:
    number = (stored.metadata or {}).get(_PARQUET_ID)
    return None if number is None else int(number)
