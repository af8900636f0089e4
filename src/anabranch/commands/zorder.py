"""ZORDER BY: all rows of a partition written anew, near each other where they are alike in the columns named."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.bin_packing import PlannedBin
from anabranch.commands.optimize_plan import Plan
from anabranch.commands.optimize_settings import CHECK_STATISTICS_SETTING, OptimizeSettings
from anabranch.commands.ordered_bins import RowOrder, ordered
from anabranch.commands.rewritten_bins import RewrittenBin
from anabranch.commands.table_access import TableHandle
from anabranch.errors.optimize import (
    ZOrderColumnMissingError,
    ZOrderPartitionColumnError,
    ZOrderTypeError,
    ZOrderWithoutStatisticsError,
)
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.protocol.stats_columns import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.range_numbers import has_order
from anabranch.spark.row_order import OrderColumn
from anabranch.spark.table_identifiers import quote, split_identifier
from anabranch.spark.zorder_keys import ZOrder


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
    order = RowOrder(columns=[_column(handle, snapshot, name) for name in names], curve=ZOrder())
    return ordered(handle, snapshot, plan, planned, order, settings)


def _column(handle: TableHandle, snapshot: Snapshot, name: str) -> OrderColumn:
    fields = _fields_of(handle, snapshot, name)
    return OrderColumn(column=F.col(".".join(quote(field.name) for field in fields)), data_type=fields[-1].dataType)


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
