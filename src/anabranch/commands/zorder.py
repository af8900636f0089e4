"""ZORDER BY: all rows of a partition written anew, near each other where they are alike in the columns named."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.bin_packing import PlannedBin
from anabranch.commands.optimize_plan import Plan
from anabranch.commands.optimize_settings import CHECK_STATISTICS_SETTING, OptimizeSettings
from anabranch.commands.rewritten_bins import RewrittenBin, as_output, hidden_rows, rewritten_bin, scan_of, sources
from anabranch.commands.table_access import TableHandle
from anabranch.errors.optimize import (
    RowOrderError,
    ZOrderColumnMissingError,
    ZOrderPartitionColumnError,
    ZOrderTypeError,
    ZOrderWithoutStatisticsError,
)
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.protocol.stats_columns import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.void import without_void
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import WriteRequest
from anabranch.spark.table_identifiers import quote, split_identifier
from anabranch.spark.zorder_keys import ZOrderColumn, has_order, zordered_frame
from anabranch.transaction.hiding_rows import removal


def check_zorder_columns(
    handle: TableHandle, snapshot: Snapshot, names: Sequence[str], settings: OptimizeSettings
) -> None:
    """Raises a typed error for a column by which rows cannot be ordered, or need not be."""
    indexed = indexed_columns(snapshot.schema, snapshot.properties, partition_columns=snapshot.partition_columns)
    without: list[str] = []
    for name in names:
        fields = _fields_of(handle, snapshot, name)
        if fields[0].name in snapshot.partition_columns:
            raise ZOrderPartitionColumnError(table=handle.label, column=name)
        kind = fields[-1].dataType
        if not has_order(kind):
            raise ZOrderTypeError(table=handle.label, column=name, data_type=kind.simpleString())
        if tuple(physical_name(field, snapshot.column_mapping_mode) for field in fields) not in indexed:
            without.append(name)
    if without and settings.check_statistics:
        raise ZOrderWithoutStatisticsError(table=handle.label, columns=tuple(without), setting=CHECK_STATISTICS_SETTING)


def zordered(
    handle: TableHandle,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    names: Sequence[str],
    settings: OptimizeSettings,
) -> RewrittenBin:
    """The rows of a bin in the order of their keys, in files of about the size wanted."""
    adds = sources(snapshot, planned)
    counts = plan.files.row_counts(planned.files)
    shown = None if counts is None else sum(counts) - sum(map(hidden_rows, adds))
    frame = handle.session.engine.scan(scan_of(handle, snapshot, planned))
    stored = without_void(
        StructType([field for field in snapshot.schema if field.name not in snapshot.partition_columns])
    )
    ordered = zordered_frame(
        frame,
        [_column(handle, snapshot, name) for name in names],
        row_count=shown if shown is not None else frame.count(),
        ranges_max=settings.ranges_max,
        file_count=max(1, planned.size_bytes // max(1, settings.max_file_bytes)),
    )
    written = handle.session.engine.write(
        WriteRequest(
            table_root=handle.path,
            frame=ordered.select(*(ordered[quote(field.name)] for field in stored)),
            schema=stored,
            partition_columns=(),
            column_mapping=snapshot.column_mapping_mode,
            properties=snapshot.properties,
            max_records_per_file=0,
            options=handle.storage,
            partition_values=adds[0].partition_values,
        )
    )
    if shown is not None and written.num_rows != shown:
        raise RowOrderError(table=handle.label, problem=f"{written.num_rows} rows came where {shown} were due")
    outputs = tuple(as_output(add, target=settings.max_file_bytes) for add in written.adds)
    now_ms = handle.session.clock.now_ms()
    removes = tuple(removal(add, removed_at_ms=now_ms, data_change=False) for add in adds)
    return rewritten_bin(planned, outputs, removes)


def _column(handle: TableHandle, snapshot: Snapshot, name: str) -> ZOrderColumn:
    fields = _fields_of(handle, snapshot, name)
    return ZOrderColumn(column=F.col(".".join(quote(field.name) for field in fields)), data_type=fields[-1].dataType)


def _fields_of(handle: TableHandle, snapshot: Snapshot, name: str) -> list[StructField]:
    """The fields on the way to the column. A name with a dot is that of a column, if there is such a one."""
    whole = _field(snapshot.schema, name)
    if whole is not None:
        return [whole]
    found: list[StructField] = []
    here: DataType = snapshot.schema
    for part in _parts(name):
        field = _field(here, part) if isinstance(here, StructType) else None
        if field is None:
            raise ZOrderColumnMissingError(table=handle.label, column=name, known=tuple(snapshot.schema.fieldNames()))
        found.append(field)
        here = field.dataType
    return found


def _field(struct: StructType, name: str) -> StructField | None:
    return next((field for field in struct.fields if field.name.lower() == name.lower()), None)


def _parts(name: str) -> tuple[str, ...]:
    """The names on the way to a column, as SQL writes them; one that SQL could not have stands for itself."""
    try:
        return split_identifier(name)
    except InvalidIdentifierError:
        return (name,)
