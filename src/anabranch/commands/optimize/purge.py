"""REORG TABLE … APPLY (PURGE): hidden rows and dropped columns leave the data files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.optimize.footer_columns import read_schemas, table_field
from anabranch.commands.optimize.optimize_command import files_to_plan, metrics_of
from anabranch.commands.optimize.optimize_metrics import result_frame
from anabranch.commands.optimize.optimize_plan import Plan, purge_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import compacted
from anabranch.commands.optimize.rewrite_job import RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.log.file_columns import FileMask
from anabranch.schema.column_mapping import ColumnMappingMode, nested_ids
from anabranch.schema.paths import walk
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.proposed_commit import Operation

# Files that still hold columns which the table has not any more, told by their footers.


def files_with_dropped_columns(table: TableRef, snapshot: Snapshot, files: FileMask) -> FileMask:
    """Those among `files` that hold such a column, at any depth.

    Columns are dropped by column mapping alone; a table that never dropped one is not looked at. Raises `StorageError`.
    """
    found = np.zeros(snapshot.files.count, dtype=np.bool_)
    if not files.any() or not may_have_dropped(snapshot):
        return found
    kept = KeptColumns(
        mode=snapshot.column_mapping_mode,
        unseen=frozenset(
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
    found[chosen] = [kept.lacks_any_of(stored, snapshot.schema) for stored in read_schemas(table, paths)]
    return found


def may_have_dropped(snapshot: Snapshot) -> bool:
    """Whether the table has given out more column ids than it has columns. See "Column Mapping"."""
    if not snapshot.column_mapping_mode.maps:
        return False
    highest = snapshot.properties.column_mapping_max_id
    return highest > sum(1 + len(nested_ids(field)) for _, field in walk(snapshot.schema))


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptColumns:
    """How the columns of a file are found in the schema of the table."""

    mode: ColumnMappingMode
    unseen: frozenset[str] = frozenset()
    """Columns that belong to files and stand in no schema."""

    def lacks_any_of(self, fields: Iterable[pa.Field], struct: StructType) -> bool:
        """Whether one of the fields of a file is none of the table's."""
        return any(self._lacks(field, struct) for field in fields if field.name not in self.unseen)

    def _lacks(self, field: pa.Field, struct: StructType) -> bool:
        known = table_field(struct, field, self.mode)
        return known is None or self._lacks_below(field.type, known.dataType)

    def _lacks_below(self, stored: pa.DataType, known: DataType) -> bool:
        if isinstance(known, StructType) and pa.types.is_struct(stored):
            return self.lacks_any_of(stored, known)
        if isinstance(known, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
            return self._lacks_below(stored.value_type, known.elementType)
        if isinstance(known, MapType) and pa.types.is_map(stored):
            below = self._lacks_below(stored.key_type, known.keyType)
            return below or self._lacks_below(stored.item_type, known.valueType)
        return False


def purge(table: TableRef, *, predicate: str | None = None) -> RewriteResult:
    """Write files again that hide rows, or that hold columns which were dropped; without these, that is.

    `predicate` chooses partitions. Until VACUUM the old files are still there. Other writers never make it fail. Raises
    the errors of `errors.maintenance`, `PredicateSyntaxError`, `InvalidOptionError`, `NotADeltaTableError`.
    """
    return run_rewrite_job(table, purge_work(table, predicate=predicate))


def purge_work(table: TableRef, *, predicate: str | None = None) -> RewriteJob:
    """What `purge` does, not done yet."""
    settings = OptimizeSettings.of(table.session, table.latest().properties)
    parameters = {"predicate": [] if predicate is None else [predicate], "applyPurge": True}

    def plan(newest: Snapshot) -> Plan:
        files = files_to_plan(table, newest, predicate)
        outdated = files_with_dropped_columns(table, newest, files.considered)
        return purge_plan(files, settings, outdated=outdated, apart=bool(clustering_columns(newest)))

    return RewriteJob(
        operation=Operation(name="REORG", parameters=parameters),
        plan=plan,
        rewrite=lambda newest, planned, each: compacted(table, newest, planned, each, target=settings.max_file_bytes),
        settings=settings,
    )


def purge_frame(table: TableRef, *, predicate: str | None = None) -> DataFrame:
    """As `purge`. The result is Delta's: one row with `path` and `metrics`."""
    before = table.latest()
    done = purge(table, predicate=predicate)
    return result_frame(table, metrics_of(before, done))
