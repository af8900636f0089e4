"""Writes the rows of a bin in the order of a curve: for ZORDER BY, and for clustering."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.cluster_cubes import CLUSTERING_PROVIDER, COLUMNS_TAG, CUBE_TAG, CURVE_TAG, HILBERT
from anabranch.commands.optimize.optimize_plan import Plan
from anabranch.commands.optimize.optimize_settings import CHECK_STATISTICS_SETTING, OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import (
    RewrittenBin,
    output_file,
    rewrite_request,
    rewritten_bin,
    source_files,
)
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import UnorderedClusteringColumnError
from anabranch.errors.maintenance import (
    RowOrderError,
    ZOrderColumnMissingError,
    ZOrderPartitionColumnError,
    ZOrderTypeError,
    ZOrderWithoutStatisticsError,
)
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.protocol.statistics import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.paths import FieldPath, find, quote, quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.layout.hilbert import HilbertOrder
from anabranch.spark.layout.range_numbers import has_order
from anabranch.spark.layout.row_order import Curve, OrderColumn, ordered_frame
from anabranch.spark.layout.zorder_keys import ZOrder
from anabranch.spark.rows.row_tracking import with_stable_ids
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.spark.write.rewrite_request import stored_columns, write_request
from anabranch.transactions.rows.deletion_vector_actions import removal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The columns and the curve by which rows are ordered, and the tags of files that are ordered so."""

    columns: Sequence[OrderColumn]
    curve: Curve
    tags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    clustering_provider: str | None = None


def write_in_order(
    table: TableRef,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    order: RowOrder,
    settings: OptimizeSettings,
) -> RewrittenBin:
    """Rewrite the bin in this order.

    The commit does not record where rows were moved: conflict checks find moved rows by their values.
    """
    adds = source_files(snapshot, planned)
    request = rewrite_request(table, snapshot, plan, planned)
    counts, scan = request.row_counts, dataclasses.replace(request.scan, with_positions=True)
    shown = None if counts is None else sum(counts) - sum(add.num_hidden_rows for add in adds)
    engine = table.session.engine
    frame = with_stable_ids(engine.scan(scan), scan.files, request.row_tracking)
    file_count = max(1, planned.size_bytes // max(1, settings.max_file_bytes))
    task_count = engine.tasks_of_one_file(request) if file_count == 1 else file_count
    rows = ordered_frame(
        frame,
        order.columns,
        order.curve,
        row_count=shown if shown is not None else frame.count(),
        ranges_max=settings.ranges_max,
        task_count=task_count,
    )
    stored = rows.select(*(rows[quote(field.name)] for field in stored_columns(request)))
    written = engine.write(dataclasses.replace(write_request(request, stored), one_file=task_count > file_count))
    if shown is not None and written.num_rows != shown:
        raise RowOrderError(table=table.label, problem=f"{written.num_rows} rows were written instead of {shown}")
    outputs = tuple(
        msgspec.structs.replace(
            output, tags={**(output.tags or {}), **order.tags}, clustering_provider=order.clustering_provider
        )
        for output in (output_file(add, adds, target=settings.max_file_bytes) for add in written.adds)
    )
    now_ms = table.session.clock.now_ms()
    removes = tuple(removal(add, removed_at_ms=now_ms, data_change=False) for add in adds)
    return rewritten_bin(planned, outputs, removes)


def check_zorder_columns(table: TableRef, snapshot: Snapshot, names: Sequence[str], settings: OptimizeSettings) -> None:
    """Raises a typed error for a column by which rows cannot be ordered, or by which ordering them is useless."""
    indexed = indexed_columns(snapshot.schema, snapshot.properties, partition_columns=snapshot.partition_columns)
    without: list[str] = []
    for name in names:
        fields = _fields_of(table, snapshot, name)
        if fields[0].name in snapshot.partition_columns:
            raise ZOrderPartitionColumnError(table=table.label, column=name)
        kind = fields[-1].dataType
        if not has_order(kind):
            raise ZOrderTypeError(table=table.label, column=name, data_type=kind.simpleString())
        if tuple(physical_name(field, snapshot.column_mapping_mode) for field in fields) not in indexed:
            without.append(name)
    if without and settings.check_statistics:
        raise ZOrderWithoutStatisticsError(table=table.label, columns=tuple(without), setting=CHECK_STATISTICS_SETTING)


def zorder_bin(
    table: TableRef,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    names: Sequence[str],
    settings: OptimizeSettings,
) -> RewrittenBin:
    """Rewrite the bin with rows near each other that are similar in these columns."""
    order = RowOrder(columns=[_column(table, snapshot, name) for name in names], curve=ZOrder())
    return write_in_order(table, snapshot, plan, planned, order, settings)


def _column(table: TableRef, snapshot: Snapshot, name: str) -> OrderColumn:
    fields = _fields_of(table, snapshot, name)
    return OrderColumn(column=F.col(".".join(quote(field.name) for field in fields)), data_type=fields[-1].dataType)


def _fields_of(table: TableRef, snapshot: Snapshot, name: str) -> list[StructField]:
    """The fields on the path to the column. A name with a dot may also be that of a top-level column."""
    whole = _field(snapshot.schema, name)
    if whole is not None:
        return [whole]
    fields: list[StructField] = []
    parent: DataType = snapshot.schema
    for part in _parts(name):
        field = _field(parent, part) if isinstance(parent, StructType) else None
        if field is None:
            raise ZOrderColumnMissingError(table=table.label, column=name, known=tuple(snapshot.schema.fieldNames()))
        fields.append(field)
        parent = field.dataType
    return fields


def _field(struct: StructType, name: str) -> StructField | None:
    return next((field for field in struct.fields if field.name.lower() == name.lower()), None)


def _parts(name: str) -> tuple[str, ...]:
    """The parts of the name of a column; a name that SQL cannot parse is one part."""
    try:
        return split_identifier(name)
    except InvalidIdentifierError:
        return (name,)


def order_columns(table: TableRef, snapshot: Snapshot) -> list[OrderColumn]:
    """The clustering columns. See "Clustered Table".

    Raises `UnorderedClusteringColumnError` for a type without an order, which another engine may have allowed.
    """
    paths = clustering_columns(snapshot)
    columns: list[OrderColumn] = []
    for path in paths:
        field = find(snapshot.schema, path)
        assert field is not None, "clustering columns are in the schema"
        if not has_order(field.dataType):
            reason = f"values of {quoted(path)} are {field.dataType.simpleString()}, unordered"
            raise UnorderedClusteringColumnError(table=table.label, columns=tuple(map(quoted, paths)), reason=reason)
        columns.append(OrderColumn(column=F.col(_reference(path)), data_type=field.dataType))
    return columns


def cluster_bin(
    table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin, settings: OptimizeSettings
) -> RewrittenBin:
    """Rewrite the bin as a new cube: along the Hilbert curve, or in the order of the only clustering column."""
    columns = order_columns(table, snapshot)
    order = RowOrder(
        columns=columns,
        curve=HilbertOrder() if len(columns) > 1 else ZOrder(),
        tags=cube_tags([quoted(path) for path in clustering_columns(snapshot)]),
        clustering_provider=CLUSTERING_PROVIDER,
    )
    return write_in_order(table, snapshot, plan, planned, order, settings)


def cube_tags(columns: Sequence[str]) -> dict[str, str | None]:
    """The tags of the files of a new cube."""
    return {
        CUBE_TAG: str(uuid.uuid4()),
        COLUMNS_TAG: msgspec.json.encode(list(columns)).decode(),
        CURVE_TAG: HILBERT,
    }


def _reference(path: FieldPath) -> str:
    return ".".join(map(quote, path))
