"""Files that still have columns which the table has dropped, found by their footers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from anabranch.commands.optimize.footer_columns import read_schemas, table_field
from anabranch.commands.table_access import TableRef
from anabranch.log.file_columns import FileMask
from anabranch.schema.column_mapping import ColumnMappingMode, nested_ids
from anabranch.schema.paths import walk
from anabranch.snapshot.snapshot import Snapshot


def files_with_dropped_columns(table: TableRef, snapshot: Snapshot, files: FileMask) -> FileMask:
    """Those of `files` that have a column, at any depth, which the table has no more.

    Only a table with column mapping can drop columns; where it never dropped one, no footer is read. Raises
    `StorageError`.
    """
    mask = np.zeros(snapshot.files.count, dtype=np.bool_)
    if not files.any() or not may_have_dropped(snapshot):
        return mask
    current = CurrentColumns(
        mode=snapshot.column_mapping_mode,
        hidden=frozenset(
            name
            for name in (
                snapshot.properties.materialized_row_id_column,
                snapshot.properties.materialized_row_commit_version_column,
            )
            if name is not None
        ),
    )
    chosen = np.flatnonzero(files)
    paths = snapshot.files.columns("path")["path"].take(pa.array(chosen)).to_pylist()
    mask[chosen] = [current.lacks_any_of(stored, snapshot.schema) for stored in read_schemas(table, paths)]
    return mask


def may_have_dropped(snapshot: Snapshot) -> bool:
    """Whether the table has assigned more column ids than it has columns. See "Column Mapping"."""
    if not snapshot.column_mapping_mode.maps:
        return False
    highest = snapshot.properties.column_mapping_max_id
    return highest > sum(1 + len(nested_ids(field)) for _, field in walk(snapshot.schema))


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurrentColumns:
    """Finds the columns of files that are not in the schema of the table."""

    mode: ColumnMappingMode
    hidden: frozenset[str] = frozenset()
    """Physical columns that are in no schema, such as that of row ids."""

    def lacks_any_of(self, fields: Iterable[pa.Field], struct: StructType) -> bool:
        """Whether the table lacks one of the fields of a file."""
        return any(self._lacks(field, struct) for field in fields if field.name not in self.hidden)

    def _lacks(self, field: pa.Field, struct: StructType) -> bool:
        declared = table_field(struct, field, self.mode)
        return declared is None or self._lacks_below(field.type, declared.dataType)

    def _lacks_below(self, stored: pa.DataType, declared: DataType) -> bool:
        if isinstance(declared, StructType) and pa.types.is_struct(stored):
            return self.lacks_any_of(stored, declared)
        if isinstance(declared, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
            return self._lacks_below(stored.value_type, declared.elementType)
        if isinstance(declared, MapType) and pa.types.is_map(stored):
            below = self._lacks_below(stored.key_type, declared.keyType)
            return below or self._lacks_below(stored.item_type, declared.valueType)
        return False
